// Runs on one chart: by what they are looked at, and along what.

import type { Line } from "../../components/paint";
import { count, duration } from "../../lib/format";
import { countBelow } from "../../lib/ordered";
import type { Columns } from "./columns";
import { looksOf, type Look } from "./metrics";
import type { Mark } from "./sides.svelte";

export type Along = "step" | "share" | "time";

/** What runs that count in this unit can be compared by: one line for each of them. */
export function comparedBy(unit: string, runs: Columns[]): Look[] {
  return looksOf(unit, runs).flatMap((look) => {
    const { series, smooth, measure, alone, title, legend } = look;
    if (alone) return [];
    const line = { ...look, legend: smooth ? "smoothed" : legend, measure: series ? undefined : measure };
    return series && measure ? [line, { ...look, title: "Held-out", legend: `${title.toLowerCase()} on held-out data`, series: undefined }] : [line];
  });
}

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

/** The line of a run that has so many steps. */
export function lineOf(columns: Columns, { series, smooth, measure }: Look, steps: number, along: Along, hours: number, { colour, dash, shape }: Mark): Line {
  const isHeldOut = measure !== undefined;
  const bySteps = isHeldOut ? columns.heldOutSteps : columns.steps;
  const byHours = isHeldOut ? columns.heldOutHours : columns.hours;
  return {
    xs: along === "time" ? byHours : bySteps,
    unit: along === "time" ? timeUnit(hours).unit : along === "share" ? 100 / Math.max(steps, 1) : 1,
    ys: isHeldOut ? columns.heldOut(measure) : smooth ? columns.smooth(series ?? "") : columns.of(series ?? ""),
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
