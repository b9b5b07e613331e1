// What is done each second, and what a step takes, as a person reads it.

import type { BenchUnit } from "../../api";
import { count } from "../../lib/format";
import { decimals } from "../../lib/scale";

/** What a rate is divided by, and what it is called then. */
export interface Measure {
  by: number;
  name: string;
}

const PLAIN: Record<BenchUnit, Measure> = {
  tokens: { by: 1, name: "tokens/s" },
  batches: { by: 1, name: "batches/s" },
  pictures: { by: 1, name: "pictures/s" },
  operations: { by: 1e9, name: "GFLOP/s" },
  bytes: { by: 1e9, name: "GB/s" },
};

/** What these count is what a machine could do at most; what the others count is work. */
const LIMITS: readonly BenchUnit[] = ["operations", "bytes"];

/** Work first, which is what people do; within each, as they were. */
export function workFirst<T>(all: T[], unitOf: (one: T) => BenchUnit | undefined): T[] {
  const isLimit = (one: T) => LIMITS.some((unit) => unit === unitOf(one));
  return [...all.filter((one) => !isLimit(one)), ...all.filter(isLimit)];
}

/** How rates up to `most` are measured. */
export function measureOf(unit: BenchUnit | undefined, most: number): Measure {
  if (unit === undefined) return { by: 1, name: "" };
  return unit === "operations" && most >= 1e12 ? { by: 1e12, name: "TFLOP/s" } : PLAIN[unit];
}

/** Three figures, or all of a larger number. */
function figures(value: number): string {
  if (value >= 99.95) return count(value);
  return value.toFixed(value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3);
}

/** A rate with its unit: `41,234 tokens/s`, `1.24 TFLOP/s`, `38.1 GB/s`. */
export function rate(perSecond: number | null, unit: BenchUnit | undefined): string {
  if (perSecond === null) return "–";
  const { by, name } = measureOf(unit, perSecond);
  return `${figures(perSecond / by)} ${name}`;
}

/** Milliseconds, without their unit. */
export function millis(value: number | null): string {
  return value === null ? "–" : figures(value);
}

/** The middle half of the steps. */
export function spread(low: number | null, high: number | null): string {
  return low === null || high === null ? "–" : `${millis(low)} to ${millis(high)}`;
}

export function percent(share: number | null): string {
  return share === null ? "–" : `${(share * 100).toFixed(0)} %`;
}

/** The words beside the lines of an axis of rates. What they count stands elsewhere, once. */
export function axisWords(values: number[], { by }: Measure): string[] {
  const scaled = values.map((value) => value / by);
  const places = decimals(scaled);
  return scaled.map((value) => (places === 0 ? count(value) : value.toFixed(places)));
}
