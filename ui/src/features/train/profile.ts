// A profile in words and in order: which operations are shown, and which are too small to be.

import type { ProfileView } from "../../api";
import { bytes, duration } from "../../lib/format";

type Part = ProfileView["parts"][number];

/** What a profile is sorted by. */
export type By = "time" | "kept" | "moved";

const VALUES: Record<By, (part: Part) => number> = {
  time: ({ millis }) => millis,
  kept: ({ keptBytes }) => keptBytes ?? 0,
  moved: ({ movedBytes }) => movedBytes ?? 0,
};

/** The operations in order, those that take most first, and what the small ones take together, if there are any. */
export function sorted(parts: readonly Part[], by: By): { parts: Part[]; small?: { count: number; millis: number; share: number } } {
  const value = VALUES[by];
  const shown = parts.filter(({ isSmall }) => !isSmall).sort((a, b) => value(b) - value(a));
  const rest = parts.filter(({ isSmall }) => isSmall);
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
