// When a run would begin.

import type { RunView } from "../../api";
import { duration } from "../../lib/format";

/** After what and when, where another run is in the way. */
export function waits(going: RunView | null | undefined, waiting: number): string {
  if (!going) return "";
  const others = waiting === 0 ? "" : waiting === 1 ? " and the run that waits" : ` and the ${waiting} runs that wait`;
  const first = `Starts after “${going.name}”${others}`;
  if (going.status === "paused") return `${first}, which is paused.`;
  if (going.secondsLeft === null) return `${first}.`;
  return waiting === 0 ? `${first}, in about ${duration(going.secondsLeft)}.` : `${first}, in ${duration(going.secondsLeft)} at the earliest.`;
}
