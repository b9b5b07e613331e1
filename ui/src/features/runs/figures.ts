// The figures of a run. Each is defined here once, and every page that shows it takes it from here.

import type { RunView } from "../../api";
import type { Figure } from "../kind";
import { bytes, count, duration, loss } from "../../lib/format";
import { rateOf, unitOf } from "./series";
import { isHeld, standing } from "./standing";

export type { Figure } from "../kind";

/** Where a run is of all its steps. */
export function stepsOf({ step, steps }: RunView): Figure {
  if (step === steps && steps > 0) return { value: count(steps), text: `${steps === 1 ? "step" : "steps"}, all done` };
  return { value: count(step), rest: `of ${count(steps)}`, text: "steps" };
}

/** The time left of a run that is running, once that is known; of others, the time they trained for. */
export function timeOf({ seconds, secondsLeft }: RunView): Figure {
  if (secondsLeft !== null) return { value: duration(secondsLeft), text: `left, of ${duration(seconds + secondsLeft)}` };
  return { value: seconds ? duration(seconds) : "–", text: "of training" };
}

/** The lowest loss on held-out data at any step of the run. */
export function heldOutOf({ bestLoss, bestStep }: RunView): Figure {
  return { value: loss(bestLoss), rest: bestStep === null ? "" : `step ${count(bestStep)}`, text: "best held-out loss" };
}

/** The loss of training through the middle of the latest steps; what a single step says jumps. */
export function lossOf({ smoothedLoss, firstLoss }: RunView): Figure {
  return { value: loss(smoothedLoss), rest: firstLoss === null ? "" : `from ${loss(firstLoss)}`, text: "smoothed loss" };
}

/** How much is learned in a second: in the latest steps of a run that is running or paused, the mean over all steps of others. */
export function speedOf(run: RunView): Figure {
  const rate = rateOf(run);
  const mean = isHeld(standing(run)) ? "" : "mean ";
  return { value: rate === null ? "–" : count(rate), text: `${mean}${unitOf(run)} a second` };
}

/** The most memory at any step. */
export function peakOf({ peakMemoryBytes: peak }: RunView): Figure {
  return { value: peak ? bytes(peak) : "–", text: "peak memory" };
}

/** The memory in use by a run that is running or paused; of others, the most at any step. */
export function memoryOf(run: RunView): Figure {
  const { memoryBytes: inUse, peakMemoryBytes: peak } = run;
  if (isHeld(standing(run)) && inUse) return { value: bytes(inUse), text: peak ? `memory, peak ${bytes(peak)}` : "memory" };
  return peakOf(run);
}
