// A profile in words and in order: which operations are shown, and which are too small to be.

import type { ProfileView } from "../../api";
import { bytes, duration } from "../../lib/format";

type Part = ProfileView["parts"][number];

/** What a profile is sorted by. */
export type By = "time" | "kept" | "moved";

/** The places of a step, as they are called. */
export const PLACES: Record<Part["place"], string> = {
  data: "data",
  forward: "forward",
  backward: "backward",
  again: "forward again",
  update: "update",
};

/** Operations that take less than this share of a step, and keep less than a megabyte, are told together. */
const SMALL = 0.002;
const FEW_BYTES = 1 << 20;

const VALUES: Record<By, (part: Part) => number> = {
  time: ({ millis }) => millis,
  kept: ({ keptBytes }) => keptBytes ?? 0,
  moved: ({ movedBytes }) => movedBytes ?? 0,
};

/** The operations in order, those that take most first, and what the small ones take together, if there are any. */
export function sorted(parts: readonly Part[], by: By): { parts: Part[]; small?: { count: number; millis: number; share: number } } {
  const isSmall = (part: Part) => part.share < SMALL && Math.abs(part.keptBytes ?? 0) < FEW_BYTES;
  const value = VALUES[by];
  const shown = parts.filter((part) => !isSmall(part)).sort((a, b) => value(b) - value(a));
  const rest = parts.filter(isSmall);
  if (rest.length === 0) return { parts: shown };
  const sum = (of: (part: Part) => number) => rest.reduce((all, part) => all + of(part), 0);
  return { parts: shown, small: { count: rest.length, millis: sum(({ millis }) => millis), share: sum(({ share }) => share) } };
}

/** A time of which fractions matter. */
export function millis(value: number): string {
  if (value >= 60_000) return duration(value / 1000);
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value < 100 ? 2 : 0)} ms`;
}

/** Bytes that were kept, or, with a minus, given back. */
export function gained(value: number): string {
  return value < 0 ? `−${bytes(-value)}` : bytes(value);
}
