// How answers are written: what can be chosen, in words.

import type { SamplingView } from "../../api";

export type Name = keyof SamplingView;

export interface Field {
  name: Name;
  label: string;
  help: string;
  least: number;
  most: number;
  step: number;
}

const LARGEST = 2 ** 32 - 1;

export const FIELDS: Field[] = [
  { name: "temperature", label: "Temperature", help: "0 always takes the likeliest, 1 draws as the model says.", least: 0, most: 10, step: 0.1 },
  { name: "top_p", label: "Top-p", help: "The likeliest tokens with this much probability. 1 is all.", least: 0, most: 1, step: 0.05 },
  { name: "top_k", label: "Top-k", help: "Sample from the top k. 0 = off.", least: 0, most: LARGEST, step: 1 },
  { name: "min_p", label: "Min-p", help: "At least this share of the likeliest one's probability. 0 is all.", least: 0, most: 1, step: 0.01 },
  { name: "repetition_penalty", label: "Repetition penalty", help: "Makes what was already written less likely. 1 is off.", least: 0.01, most: 10, step: 0.05 },
  { name: "max_tokens", label: "Max tokens", help: "Where an answer is cut.", least: 1, most: LARGEST, step: 1 },
  { name: "seed", label: "Seed", help: "The same seed and words give the same answers.", least: 0, most: LARGEST, step: 1 },
];

/** What was typed for a field; nothing when it can't be. */
export function valueOf({ least, most, step }: Field, typed: number): number | undefined {
  if (!Number.isFinite(typed) || typed < least || typed > most) return undefined;
  return step === 1 && !Number.isInteger(typed) ? undefined : typed;
}

/** `from 0 to 1`, for who typed something else. */
export function boundsOf({ least, most, step }: Field): string {
  const what = step === 1 ? "a whole number" : "a number";
  return most === LARGEST ? `Needs ${what} from ${least}.` : `Needs ${what} from ${least} to ${most}.`;
}

/** What stands beside the field in which one writes: the two that matter most, and what is not as it was. */
export function chipsOf(sampling: SamplingView, usual: SamplingView): string[] {
  const shown = FIELDS.filter(({ name }) => name === "temperature" || name === "top_p" || sampling[name] !== usual[name]);
  return shown.map(({ name, label }) => `${label.toLowerCase()} ${(sampling[name] ?? 0).toLocaleString("en-US", { useGrouping: name !== "seed" })}`);
}
