// What a run can be looked at by: its lines, and how their values are written.

import type { Line } from "../../components/paint";
import { bytes, count, loss } from "../../lib/format";
import { countBelow } from "../../lib/ordered";
import { decimals } from "../../lib/scale";
import type { Column } from "./column";
import type { Columns } from "./columns";

export type Metric = "loss" | "learning_rate" | "gradient_norm" | "memory" | "tokens";

export interface Look {
  title: string;
  /** What the lines are, in words. */
  legend: string;
  canLog: boolean;
  fromZero: boolean;
  lines: (columns: Columns) => Line[];
  /** A value, with its unit. */
  value: (value: number) => string;
  /** The words beside the lines of the axis. */
  axis: (values: number[]) => string[];
  /** What is said of a step, by name. */
  columns: (columns: Columns) => [string, Column][];
}

export const rate = (value: number) => (value === 0 ? "0" : value.toExponential(1).replace(".0e", "e"));
const plain = (values: number[]) => values.map((value) => value.toFixed(Math.min(decimals(values), 3)));
const short = (value: number) => value.toFixed(value < 10 ? 2 : 1);
const line = (columns: Columns, ys: Column, write: (value: number) => string): Line => ({ xs: columns.steps, ys, look: "line", colour: "temper", write });
const noise = (columns: Columns, ys: Column): Line => ({ xs: columns.steps, ys, look: "thin", colour: "--line-strong" });

function bytesAxis(values: number[]): string[] {
  const most = Math.max(...values.map(Math.abs));
  const [unit, name] = most < 1e6 ? [1e3, "kB"] : most < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  const places = decimals(values.map((value) => value / unit));
  return values.map((value) => (value === 0 ? "0" : `${(value / unit).toFixed(places)} ${name}`));
}

export const METRICS: Record<Metric, Look> = {
  loss: {
    title: "Loss",
    legend: "line: smoothed · dots: held-out",
    canLog: true,
    fromZero: false,
    lines: (columns) => [
      noise(columns, columns.loss),
      line(columns, columns.smoothLoss, short),
      { xs: columns.heldOutSteps, ys: columns.heldOut, look: "dots", colour: "--ink" },
    ],
    value: loss,
    axis: plain,
    columns: (columns) => [["raw", columns.loss], ["smoothed", columns.smoothLoss]],
  },
  learning_rate: {
    title: "Learning rate",
    legend: "of each step",
    canLog: true,
    fromZero: true,
    lines: (columns) => [line(columns, columns.learningRate, rate)],
    value: rate,
    axis: (values) => values.map(rate),
    columns: (columns) => [["learning rate", columns.learningRate]],
  },
  gradient_norm: {
    title: "Gradient norm",
    legend: "before clipping · line: smoothed",
    canLog: true,
    fromZero: false,
    lines: (columns) => [noise(columns, columns.gradientNorm), line(columns, columns.smoothGradientNorm, short)],
    value: loss,
    axis: plain,
    columns: (columns) => [["raw", columns.gradientNorm], ["smoothed", columns.smoothGradientNorm]],
  },
  memory: {
    title: "Memory",
    legend: "in use after each step",
    canLog: false,
    fromZero: true,
    lines: (columns) => [line(columns, columns.memory, bytes)],
    value: bytes,
    axis: bytesAxis,
    columns: (columns) => [["memory", columns.memory]],
  },
  tokens: {
    title: "Tokens a second",
    legend: "line: smoothed",
    canLog: false,
    fromZero: true,
    lines: (columns) => [noise(columns, columns.tokensPerSecond), line(columns, columns.smoothTokensPerSecond, count)],
    value: (value) => `${count(value)} tokens a second`,
    axis: (values) => values.map(count),
    columns: (columns) => [["raw", columns.tokensPerSecond], ["smoothed", columns.smoothTokensPerSecond]],
  },
};

/** The values of a step, each with its name. */
export function valuesAt(columns: Columns, metric: Metric, step: number): [string, string][] {
  const look = METRICS[metric];
  const at = countBelow(columns.steps, step);
  const values = look.columns(columns).map(([name, { values }]): [string, string] => {
    const value = values[at];
    return [name, value === undefined || value !== value ? "not known" : look.value(value)];
  });
  const heldOut = metric === "loss" ? columns.heldOutBy(step) : undefined;
  if (heldOut) values.push([heldOut.step === step ? "held-out" : `held-out at ${count(heldOut.step)}`, loss(heldOut.loss)]);
  return values;
}
