// What a run tells, as columns of numbers that grow in place.

import type { EventsView } from "../../api";
import { countBelow } from "../../lib/ordered";
import { Column } from "./column";
import { Smooth } from "./smooth";

type Numbers = "steps" | "losses" | "learningRates" | "gradientNorms" | "tokensPerSecond" | "memoryBytes" | "millis";
/** The part of what a run tells that is numbers. */
export type NumbersView = Pick<EventsView, Numbers | "evaluations">;

export class Columns {
  /** The step of each row, growing. Steps that are done again take the place of those that were done before. */
  readonly steps: number[] = [];
  /** Hours of training up to each step, with those for steps that were done again. */
  readonly hours: number[] = [];
  readonly loss = new Column();
  readonly learningRate = new Column();
  readonly gradientNorm = new Column();
  readonly tokensPerSecond = new Column();
  readonly memory = new Column();
  readonly smoothLoss: Smooth;
  readonly smoothGradientNorm: Smooth;
  readonly smoothTokensPerSecond: Smooth;

  /** The steps after which held-out data was looked at, and the hours until then. */
  readonly heldOutSteps: number[] = [];
  readonly heldOutHours: number[] = [];
  readonly heldOut = new Column();

  #hours = 0;

  /** `steps` is how many steps the run has, and `smoothing` the part of them that a smoothed value is taken from. */
  constructor(steps: number, smoothing = 1 / 200) {
    const reach = Math.max(5, steps * smoothing);
    this.smoothLoss = new Smooth(reach);
    this.smoothGradientNorm = new Smooth(reach);
    this.smoothTokensPerSecond = new Smooth(reach);
  }

  /** Adds rows `from` up to and without `to` of what was told, and all that was seen of held-out data. */
  take(told: NumbersView, from = 0, to = told.steps.length) {
    for (let at = from; at < to; at += 1) {
      const step = told.steps[at]!;
      if (step <= (this.steps.at(-1) ?? -1)) this.#cut(step);
      this.#hours += (told.millis[at] ?? 0) / 3_600_000;
      const loss = told.losses[at] ?? NaN;
      const gradientNorm = told.gradientNorms[at] ?? NaN;
      const tokens = told.tokensPerSecond[at] ?? NaN;
      this.steps.push(step);
      this.hours.push(this.#hours);
      this.loss.push(loss);
      this.learningRate.push(told.learningRates[at] ?? NaN);
      this.gradientNorm.push(gradientNorm);
      this.tokensPerSecond.push(tokens);
      // No device uses no memory: 0 says that nobody knows.
      this.memory.push(told.memoryBytes[at] || NaN);
      this.smoothLoss.add(loss);
      this.smoothGradientNorm.add(gradientNorm);
      this.smoothTokensPerSecond.add(tokens);
    }
    if (to === told.steps.length) this.#takeHeldOut(told.evaluations);
  }

  /** The last held-out loss at or before a step. */
  heldOutBy(step: number): { step: number; loss: number } | undefined {
    const at = countBelow(this.heldOutSteps, step + 1) - 1;
    return at < 0 ? undefined : { step: this.heldOutSteps[at]!, loss: this.heldOut.values[at]! };
  }

  #takeHeldOut(evaluations: EventsView["evaluations"]) {
    for (const { step, loss } of evaluations) {
      this.#cutHeldOut(step);
      const at = countBelow(this.steps, step + 1) - 1;
      this.heldOutSteps.push(step);
      this.heldOutHours.push(this.hours[at] ?? 0);
      this.heldOut.push(loss ?? NaN);
    }
    // Whatever was seen of a state that the run went back from.
    this.#cutHeldOut((this.steps.at(-1) ?? 0) + 1);
  }

  #cut(step: number) {
    const length = countBelow(this.steps, step);
    this.steps.length = this.hours.length = length;
    for (const column of [this.loss, this.learningRate, this.gradientNorm, this.tokensPerSecond, this.memory]) column.cut(length);
    for (const column of [this.smoothLoss, this.smoothGradientNorm, this.smoothTokensPerSecond]) column.cut(length);
  }

  #cutHeldOut(step: number) {
    const length = countBelow(this.heldOutSteps, step);
    this.heldOutSteps.length = this.heldOutHours.length = length;
    this.heldOut.cut(length);
  }
}

/** The mean of what is known of a column. */
export function mean(values: number[]): number | undefined {
  let sum = 0;
  let known = 0;
  for (const value of values) {
    if (value !== value) continue;
    sum += value;
    known += 1;
  }
  return known === 0 ? undefined : sum / known;
}

/** The highest of what is known of a column. */
export function highest(values: number[]): number | undefined {
  let found: number | undefined;
  for (const value of values) if (value === value && (found === undefined || value > found)) found = value;
  return found;
}
