// A kind of learning that only the tests know.

import { vi } from "vitest";
import type { KindForm, Start, Use } from "../../../ui/src/features/kind";

export const task = "toy";
export const title = "Toys";
export const about = "Teach a toy its colour";
export const unit = "toys";
export const shown = { title: "Toys now", none: "No toy yet." };

export const form: KindForm = {
  own: ["toy.colour"],
  texts: [],
  lists: [],
  lines: {},
  paths: [],
  labels: { "toy.colour": "Colour" },
  telling: [],
  lighter: "Fewer toys.",
  method: () => "",
  belongs: (field) => !field.startsWith("lora."),
  home: () => undefined,
  needs: (filled) => (filled["toy.colour"] ? [] : [{ field: "toy.colour", name: "a colour", text: "to paint with." }]),
  reader: () => null,
};

export const uses: Use[] = [{ name: "play", text: "Play with it", early: "Play already", short: "Play", open: vi.fn() }];

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { default as Exhibit } from "./Exhibit.svelte";

export const starts: Start[] = [{ look: "cool", title: "Teach a toy", text: "It learns one colour.", note: "in a moment", act: "Choose a toy", filled: { "toy.colour": "blue" } }];
