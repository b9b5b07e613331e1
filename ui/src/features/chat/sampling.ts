// How the next token is drawn: what can be chosen, in the terms of the field.

import type { SamplingView } from "../../api";

/** What is a number. */
export type Name = Exclude<keyof SamplingView, "cache">;

export type Cache = SamplingView["cache"];

export interface Field {
  name: Name;
  label: string;
  help: string;
  least: number;
  most: number;
  step: number;
  /** The two ends of its slider. Without one, it is typed. */
  slider?: [number, number];
}

const LARGEST = 2 ** 32 - 1;

export const FIELDS: Field[] = [
  { name: "temperature", label: "Temperature", help: "Higher is more varied. 0 = always the likeliest token.", least: 0, most: 10, step: 0.05, slider: [0, 2] },
  { name: "top_p", label: "Top-p", help: "Sample from the likeliest that add up to this share. 1 = off.", least: 0, most: 1, step: 0.01, slider: [0, 1] },
  { name: "top_k", label: "Top-k", help: "Sample from the top k. 0 = off.", least: 0, most: LARGEST, step: 1, slider: [0, 200] },
  { name: "min_p", label: "Min-p", help: "Drop what is below this share of the likeliest. 0 = off.", least: 0, most: 1, step: 0.01, slider: [0, 1] },
  { name: "repetition_penalty", label: "Repetition penalty", help: "Makes tokens already used less likely. 1 = off.", least: 0.01, most: 10, step: 0.01, slider: [1, 2] },
  { name: "max_tokens", label: "Max tokens", help: "Limits the length of an answer.", least: 1, most: LARGEST, step: 1, slider: [1, 4096] },
  { name: "seed", label: "Seed", help: "The same seed and text give the same answer.", least: 0, most: LARGEST, step: 1 },
];

/** How keys and values of what was read are kept. */
export const CACHES: { value: Cache; text: string }[] = [
  { value: "auto", text: "Auto" },
  { value: "full", text: "Full" },
  { value: "f16", text: "F16" },
  { value: "q8", text: "Q8" },
];

/** What that means. */
export const CACHE_HELP = "On a processor, F16 takes half the memory of Full, Q8 a quarter. A GPU keeps the model’s precision.";

export type Preset = "precise" | "balanced" | "creative";

export const PRESETS: { value: Preset; text: string; temperature: number; top_p?: number }[] = [
  { value: "precise", text: "Precise", temperature: 0 },
  { value: "balanced", text: "Balanced", temperature: 0.7, top_p: 0.9 },
  { value: "creative", text: "Creative", temperature: 1, top_p: 0.95 },
];

/** Which preset it is, if any. At temperature 0, nothing else has a say. */
export function presetOf({ temperature, top_p }: SamplingView): Preset | undefined {
  return PRESETS.find((preset) => temperature === preset.temperature && (preset.top_p ?? top_p) === top_p)?.value;
}

/** What differs from the model's own settings once a preset is chosen. What it says nothing about stays. */
export function withPreset(chosen: Preset, differs: Partial<SamplingView>, usual: SamplingView): Partial<SamplingView> {
  const { temperature = 0, top_p = usual.top_p } = PRESETS.find(({ value }) => value === chosen) ?? {};
  return withValue("top_p", top_p, withValue("temperature", temperature, differs, usual), usual);
}

/** The same once one of them has another value. */
export function withValue<N extends keyof SamplingView>(name: N, value: SamplingView[N], differs: Partial<SamplingView>, usual: SamplingView): Partial<SamplingView> {
  const { [name]: _, ...others } = differs;
  return value === usual[name] ? others : { ...others, [name]: value };
}

/** What was typed for a field; nothing when it can't be. */
export function valueOf({ least, most, step }: Field, typed: number): number | undefined {
  if (!Number.isFinite(typed) || typed < least || typed > most) return undefined;
  return step === 1 && !Number.isInteger(typed) ? undefined : typed;
}

/** `Enter a number from 0 to 1.`, for who typed something else. */
export function boundsOf({ least, most, step }: Field): string {
  const what = step === 1 ? "a whole number" : "a number";
  return most === LARGEST ? `Enter ${what} from ${least}.` : `Enter ${what} from ${least} to ${most}.`;
}

/** What differs from the model's own settings. */
export function chipsOf(sampling: SamplingView, usual: SamplingView): string[] {
  const shown = FIELDS.filter(({ name }) => sampling[name] !== usual[name]);
  const numbers = shown.map(({ name, label }) => `${label.toLowerCase()} ${(sampling[name] ?? 0).toLocaleString("en-US", { useGrouping: name !== "seed" })}`);
  return sampling.cache === usual.cache ? numbers : [...numbers, `KV cache ${sampling.cache}`];
}
