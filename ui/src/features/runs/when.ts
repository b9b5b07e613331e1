// Moments as a person speaks of them.

import { date, daysAgo } from "../../lib/format";

/** How long ago: `now`, `5 min ago`, `3 h ago`, `yesterday`, `12 Nov`. */
export function ago(time: string | null, now = new Date()): string {
  if (time === null) return "–";
  const then = new Date(time);
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  const days = daysAgo(then, now);
  if (days === 0 || seconds < 4 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return days === 1 ? "yesterday" : date(then, now);
}

/** The day of a moment: `today`, `yesterday`, `12 Nov`. */
export function day(time: string, now = new Date()): string {
  const then = new Date(time);
  return ["today", "yesterday"][daysAgo(then, now)] ?? date(then, now);
}
