// What a run of pictures shows: what was said of the held-out pictures, and those of which it was surest and wrong.

import type { Exhibit } from "../../api";
import type { Shown } from "../kind";

export type ConfusionShown = Extract<Exhibit, { kind: "confusion" }>;
export type ImageShown = Extract<Exhibit, { kind: "image" }>;

/** What the pictures of one state are called before their names. */
const LEAD = /^Most confident mistakes: /;

/** What was last shown, and after which step. */
export function latestOf(shown: readonly Shown[]): { step: number; confusion: ConfusionShown | undefined; images: ImageShown[] } {
  const step = shown.at(-1)?.step ?? 0;
  const exhibits = shown.filter((each) => each.step === step).map(({ exhibit }) => exhibit);
  const confusion = exhibits.find((each) => each.kind === "confusion");
  return { step, confusion, images: exhibits.flatMap((each) => (each.kind === "image" ? [each] : [])) };
}

/** What a picture is called. */
export const nameOf = ({ title }: ImageShown): string => title.replace(LEAD, "");

/** Whether the model says something else than it is. */
export const isWrong = ({ label, expected }: ImageShown): boolean => expected !== null && expected !== label;
