// Models that read and write text.

import type { RunView } from "../../api";
import { loss } from "../../lib/format";
import type { Tile } from "../kind";
import FineTuneSign from "./FineTuneSign.svelte";
import ScratchSign from "./ScratchSign.svelte";

export const task = "language";
export const unit = "tokens";
export const shown = { title: "Samples", none: "No samples yet. The model writes some as it learns." };

export const tiles: Tile[] = [
  {
    name: "fine-tune",
    title: "Fine-tune",
    text: "A language model learns from your examples",
    Sign: FineTuneSign,
    filled: { method: "lora" },
    fits: (method) => method === "lora" || method === "full",
  },
  {
    name: "scratch",
    title: "From scratch",
    text: "A small language model of your own text",
    Sign: ScratchSign,
    filled: { method: "scratch" },
    fits: (method) => method === "scratch",
  },
];

export function verdict({ bestLoss, firstHeldOutLoss, loss: last }: RunView): string[] {
  if (bestLoss !== null && firstHeldOutLoss !== null && bestLoss < firstHeldOutLoss) return [`Held-out loss ${loss(firstHeldOutLoss)} → ${loss(bestLoss)}`];
  if (bestLoss !== null) return [`Held-out loss ${loss(bestLoss)}`];
  return last === null ? [] : [`Loss ${loss(last)}`, "no held-out data"];
}

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { form } from "./form";
export { uses } from "./uses";
