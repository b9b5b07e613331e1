// What a run is doing, in words.

import type { RunView } from "../../api";
import { count, counted, duration } from "../../lib/format";

/** What a run is doing; a run that waits is in a line, and one that never began did nothing yet. */
export type Standing = RunView["status"] | "waiting" | "new";

/** `place` is that among the runs that wait, from 1. */
export function standing(run: RunView, place: number | null = run.place): Standing {
  if (place !== null) return "waiting";
  return run.status === "interrupted" && run.started === null ? "new" : run.status;
}

export function word(run: RunView, place: number | null = run.place): string {
  const stands = standing(run, place);
  if (stands === "waiting") return place === 1 ? "waiting, next in line" : `waiting, ${ordinal(place ?? 0)} in line`;
  return stands === "new" ? "not started" : stands;
}

/** Whether an engine has it in memory. */
export const isHeld = (stands: Standing) => stands === "running" || stands === "paused";

/** Whether it is over or on its way, so that it can be resumed. */
export const canContinue = (stands: Standing) => !["running", "waiting", "finished"].includes(stands);

export function ordinal(place: number): string {
  const teens = place % 100 > 10 && place % 100 < 14;
  return `${place}${(!teens && ["th", "st", "nd", "rd"][place % 10]) || "th"}`;
}

/** What is said aloud when a run ends, or does something else than before. */
export function announcement(run: RunView, stands: Standing): string {
  if (stands === "finished") return `${run.name} is finished: all ${counted(run.steps, "step")} are done.`;
  if (stands === "failed") return `${run.name} failed. ${run.problem ?? ""}`;
  if (stands === "waiting") return `${run.name} waits.`;
  return `${run.name} is ${stands === "new" ? "not started" : stands} at step ${count(run.step)}.`;
}

/** What is said aloud at each tenth of a run. */
export function progressAloud(run: RunView): string {
  const left = run.secondsLeft === null ? "" : `, about ${duration(run.secondsLeft)} left`;
  return `${Math.floor((10 * run.step) / Math.max(run.steps, 1)) * 10} percent done${left}.`;
}

/** The files a run learns from, in few words. */
export function dataOf({ data }: RunView): string {
  const [first = "", second, ...more] = data;
  if (second === undefined) return first;
  return more.length === 0 ? `${first} and ${second}` : `${first} and ${counted(more.length + 1, "more file")}`;
}
