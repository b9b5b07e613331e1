// What a run tells, as columns of numbers that grow in place.

import { countBelow } from "../../lib/ordered";
import type { Metric } from "../kind";
import { Column } from "./column";
import type { Told } from "./series";
import { Smooth } from "./smooth";

/** The part of what a run tells that is numbers. */
export type Numbers = Pick<Told, "steps" | "millis" | "series" | "evaluations">;
export type Measure = Omit<Metric, "value">;

export class Columns {
  /** The step of each row, growing. Steps that are done again take the place of those that were done before. */
  readonly steps: number[] = [];
  /** Hours of training up to each step, with those for steps that were done again. */
  readonly hours: number[] = [];
  /** The steps after which held-out data was looked at, and the hours until then. */
  readonly heldOutSteps: number[] = [];
  readonly heldOutHours: number[] = [];

  readonly #series = new Map<string, Column>();
  readonly #smooth = new Map<string, Smooth>();
  readonly #heldOut = new Map<string, Column>();
  readonly #measures = new Map<string, Measure>();
  readonly #reach: number;
  #hours = 0;

  /** `steps` is how many steps the run has: of a longer one, a smoothed value is taken from more of them. */
  constructor(steps: number) {
    this.#reach = Math.max(10, steps / 100);
  }

  /** The names of the series that it has, and what is measured on held-out data. */
  get names(): string[] {
    return [...this.#series.keys()];
  }

  get measures(): Measure[] {
    return [...this.#measures.values()];
  }

  /** A series, whether or not it was heard of. */
  of(name: string): Column {
    return filled(this.#series, name, this.steps.length);
  }

  /** The line through the middle of a series. */
  smooth(name: string): Smooth {
    let smooth = this.#smooth.get(name);
    if (smooth) return smooth;
    smooth = new Smooth(this.#reach);
    for (const value of this.of(name).values) smooth.add(value);
    this.#smooth.set(name, smooth);
    return smooth;
  }

  /** What was measured on held-out data. */
  heldOut(name: string): Column {
    return filled(this.#heldOut, name, this.heldOutSteps.length);
  }

  /** Adds rows `from` up to and without `to` of what was told, and all that was seen of held-out data. */
  take(told: Numbers, from = 0, to = told.steps.length) {
    for (const name of Object.keys(told.series)) this.of(name);
    const columns = [...this.#series].map(([name, column]) => ({ column, smooth: this.#smooth.get(name), values: told.series[name] }));
    for (let at = from; at < to; at += 1) {
      const step = told.steps[at]!;
      if (step <= (this.steps.at(-1) ?? -1)) this.#cut(step);
      this.#hours += (told.millis[at] ?? 0) / 3_600_000;
      this.steps.push(step);
      this.hours.push(this.#hours);
      for (const { column, smooth, values } of columns) {
        const value = values?.[at] ?? NaN;
        column.push(value);
        smooth?.add(value);
      }
    }
    if (to === told.steps.length) this.#takeHeldOut(told.evaluations);
  }

  /** What was last measured at or before a step. */
  heldOutBy(name: string, step: number): { step: number; value: number } | undefined {
    const at = countBelow(this.heldOutSteps, step + 1) - 1;
    const value = this.#heldOut.get(name)?.values[at];
    return value === undefined ? undefined : { step: this.heldOutSteps[at]!, value };
  }

  #takeHeldOut(evaluations: Told["evaluations"]) {
    for (const { step, metrics } of evaluations) {
      this.#cutHeldOut(step);
      const at = countBelow(this.steps, step + 1) - 1;
      for (const { value, ...measure } of metrics) {
        this.#measures.set(measure.name, measure);
        this.heldOut(measure.name).push(value ?? NaN);
      }
      this.heldOutSteps.push(step);
      this.heldOutHours.push(this.hours[at] ?? 0);
      for (const name of this.#heldOut.keys()) this.heldOut(name);
    }
    // Whatever was seen of a state that the run went back from.
    this.#cutHeldOut((this.steps.at(-1) ?? 0) + 1);
  }

  #cut(step: number) {
    const length = countBelow(this.steps, step);
    this.steps.length = this.hours.length = length;
    for (const column of [...this.#series.values(), ...this.#smooth.values()]) column.cut(length);
  }

  #cutHeldOut(step: number) {
    const length = countBelow(this.heldOutSteps, step);
    this.heldOutSteps.length = this.heldOutHours.length = length;
    for (const column of this.#heldOut.values()) column.cut(length);
  }
}

/** A column of a name, as long as the others: with gaps where it was not told. */
function filled(columns: Map<string, Column>, name: string, length: number): Column {
  let column = columns.get(name);
  if (!column) columns.set(name, (column = new Column()));
  while (column.values.length < length) column.push(NaN);
  return column;
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

/** The best of what is known of a column. */
export function best(values: number[], higherIsBetter: boolean): number | undefined {
  const found = highest(higherIsBetter ? values : values.map((value) => -value));
  return found === undefined || higherIsBetter ? found : -found;
}
