// Runs on one chart: by what they are looked at, and along what.

import type { Line } from "../../components/paint";
import { count, duration, loss } from "../../lib/format";
import { countBelow } from "../../lib/ordered";
import type { Column } from "./column";
import type { Columns } from "./columns";
import { rate } from "./metrics";
import type { Mark } from "./sides.svelte";

export type What = "loss" | "held_out" | "learning_rate" | "tokens";
export type Along = "step" | "share" | "time";

export const WHAT: Record<What, { title: string; legend: string; value: (value: number) => string; canLog: boolean; fromZero: boolean }> = {
  loss: { title: "Loss", legend: "smoothed", value: loss, canLog: true, fromZero: false },
  held_out: { title: "Held-out", legend: "loss on held-out data", value: loss, canLog: true, fromZero: false },
  learning_rate: { title: "Learning rate", legend: "of each step", value: rate, canLog: true, fromZero: true },
  tokens: { title: "Tokens a second", legend: "smoothed", value: count, canLog: false, fromZero: true },
};

export const ALONG: Record<Along, { title: string; words: string }> = {
  step: { title: "Step", words: "by step" },
  share: { title: "Share", words: "by share of the run" },
  time: { title: "Time", words: "by time of training" },
};

/** Hours, with the unit that suits a run as long as this. */
export function timeUnit(hours: number): { unit: number; name: string } {
  if (hours >= 2) return { unit: 1, name: "h" };
  return hours >= 2 / 60 ? { unit: 60, name: "min" } : { unit: 3600, name: "s" };
}

/** A place along the axis, in words. */
export function placeAt(x: number, along: Along, time: { unit: number; name: string }): string {
  if (along === "step") return `step ${count(x)}`;
  return along === "share" ? `${x.toFixed(1)} % of the run` : duration((x / time.unit) * 3600);
}

const ysOf = (columns: Columns, what: What): Column =>
  ({ loss: columns.smoothLoss, held_out: columns.heldOut, learning_rate: columns.learningRate, tokens: columns.smoothTokensPerSecond })[what];

/** The line of a run that has so many steps. */
export function lineOf(columns: Columns, steps: number, what: What, along: Along, hours: number, { colour, dash, shape }: Mark): Line {
  const isHeldOut = what === "held_out";
  const bySteps = isHeldOut ? columns.heldOutSteps : columns.steps;
  const byHours = isHeldOut ? columns.heldOutHours : columns.hours;
  return {
    xs: along === "time" ? byHours : bySteps,
    unit: along === "time" ? timeUnit(hours).unit : along === "share" ? 100 / Math.max(steps, 1) : 1,
    ys: ysOf(columns, what),
    look: isHeldOut ? "dotted" : "line",
    colour,
    dash,
    shape,
  };
}

/** The last value of a line at or before a place; nothing beyond its end. */
export function valueAt({ xs, unit = 1, ys }: Line, x: number): number | undefined {
  const at = countBelow(xs, (x * (1 + 1e-9)) / unit + Number.MIN_VALUE) - 1;
  const end = (xs.at(-1) ?? -1) * unit;
  const value = x > end * (1 + 1e-9) ? undefined : ys.values[Math.max(at, 0)];
  return value === value ? value : undefined;
}
