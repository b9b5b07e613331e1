// Moments as a person speaks of them.

const DAY = 24 * 60 * 60 * 1000;

const midnight = (of: Date) => new Date(of.getFullYear(), of.getMonth(), of.getDate()).getTime();
const dayOf = (time: Date, now: Date) =>
  time.toLocaleDateString("en-GB", time.getFullYear() === now.getFullYear() ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", year: "numeric" });

/** How long ago: `now`, `5 min ago`, `3 h ago`, `yesterday`, `12 Nov`. */
export function ago(time: string | null, now = new Date()): string {
  if (time === null) return "–";
  const then = new Date(time);
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  // Days are counted by midnights, as people do; a change of the clock makes one of 23 or 25 hours.
  const days = Math.round((midnight(now) - midnight(then)) / DAY);
  if (days === 0 || seconds < 4 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return days === 1 ? "yesterday" : dayOf(then, now);
}

/** The day of a moment: `today`, `yesterday`, `12 Nov`. */
export function day(time: string, now = new Date()): string {
  const then = new Date(time);
  const days = Math.round((midnight(now) - midnight(then)) / DAY);
  return ["today", "yesterday"][days] ?? dayOf(then, now);
}
