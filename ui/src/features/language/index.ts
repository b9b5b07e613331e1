// Models that read and write text.

import type { RunView } from "../../api";
import { count, loss } from "../../lib/format";
import { intervalText } from "../../lib/share";
import type { Tile } from "../kind";
import FineTuneSign from "./FineTuneSign.svelte";
import ScratchSign from "./ScratchSign.svelte";

export const task = "language";
export const unit = "tokens";
export const canExport = true;
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

/** An adapter is nothing by itself. */
export const needsBase = ({ method }: RunView) => method === "lora";

/** The held-out questions that were answered word for word after the last step. */
function answers({ metrics }: RunView): { right: number; of: number } | undefined {
  const found = metrics.find(({ name }) => name === "right_answers");
  return found?.of ? { right: Math.round(found.value * found.of), of: found.of } : undefined;
}

/** The loss at its best. One that never fell below that of the untrained model says so. */
function learned({ bestLoss, firstHeldOutLoss, smoothedLoss }: RunView): string[] {
  if (bestLoss === null) return smoothedLoss === null ? [] : [`Loss ${loss(smoothedLoss)}`, "no held-out data"];
  if (firstHeldOutLoss === null) return [`Held-out loss ${loss(bestLoss)}`];
  return [bestLoss < firstHeldOutLoss ? `Held-out loss ${loss(firstHeldOutLoss)} → ${loss(bestLoss)}` : `Held-out loss ${loss(bestLoss)}, no better than before training`];
}

export function verdict(run: RunView): string[] {
  const asked = answers(run);
  // Where no answer has to be word for word, none is; that says nothing.
  return asked?.right ? [`${asked.right} of ${asked.of} held-out questions right`, ...learned(run)] : learned(run);
}

export function meaning(run: RunView): string {
  const { bestLoss, bestStep, steps } = run;
  const asked = answers(run);
  const best = bestStep === null || bestStep === 0 ? "" : ` The best was ${bestStep === steps ? "the last step" : `at step ${count(bestStep)} of ${count(steps)}`}.`;
  const none = asked?.right === 0 ? ` None of ${asked.of} held-out answers matched word for word.` : "";
  const expected = asked?.right ? ` On other questions of this kind, expect ${intervalText(asked.right / asked.of, asked.of)} % right.` : "";
  return bestLoss === null ? "" : `Lower is better.${best}${none}${expected}`;
}

export { form } from "./form";
export { uses } from "./uses";
