// A kind of learning that only the tests know.

import { vi } from "vitest";
import type { KindForm, Tile, Use } from "../../../ui/src/features/kind";

import Sign from "./Sign.svelte";

export const task = "toy";
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
};

export const uses: Use[] = [{ name: "play", text: "Play with it", early: "Play already", short: "Play", open: vi.fn() }];

export const tiles: Tile[] = [{ name: "toy", title: "Toys", text: "It learns one colour", Sign, filled: {}, fits: () => true }];

export const verdict = () => ["3 of 4 toys painted"];
