// What a run can be looked at by: its lines, and how their values are written. A series or a measure that has no look of its
// own here is drawn anyway.

import type { Line } from "../../components/paint";
import { bytes, count, loss } from "../../lib/format";
import { countBelow } from "../../lib/ordered";
import { decimals } from "../../lib/scale";
import { capital } from "../../lib/words";
import type { Columns } from "./columns";

export interface Look {
  title: string;
  /** What the lines are, in words. */
  legend: string;
  canLog: boolean;
  fromZero: boolean;
  /** From where on values are seen from nearby. */
  near?: number;
  /** The series that is its line; nothing where there are only dots. */
  series?: string;
  /** Whether its values jump so much that the line goes through their middle. */
  smooth?: boolean;
  /** The measure on held-out data that is its dots. */
  measure?: string;
  /** Whether its dots are joined. */
  joined?: boolean;
  /** Whether it says nothing beside the same of another run. */
  alone?: boolean;
  value: (value: number) => string;
  /** What comes after a value that stands in a sentence. */
  unit?: string;
  /** A value at the end of its line. */
  short: (value: number) => string;
  /** The words beside the lines of the axis. */
  axis: (values: number[]) => string[];
}

const rate = (value: number) => (value === 0 ? "0" : value.toExponential(1).replace(".0e", "e"));
const plain = (values: number[]) => values.map((value) => value.toFixed(Math.min(decimals(values), 3)));
const percent = (value: number) => `${(100 * value).toFixed(value === 0 || value === 1 ? 0 : 1)} %`;
const percents = (values: number[]) => {
  const places = decimals(values.map((value) => 100 * value));
  return values.map((value) => `${(100 * value).toFixed(places)} %`);
};
const short = (value: number) => value.toFixed(value < 10 ? 2 : 1);

function bytesAxis(values: number[]): string[] {
  const most = Math.max(...values.map(Math.abs));
  const [unit, name] = most < 1e6 ? [1e3, "kB"] : most < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  const places = decimals(values.map((value) => value / unit));
  return values.map((value) => (value === 0 ? "0" : `${(value / unit).toFixed(places)} ${name}`));
}

const NUMBERS = { canLog: true, fromZero: false, value: loss, short, axis: plain };
const AMOUNTS = { canLog: false, fromZero: true };

/** A measure that is a share. */
const SHARES = { canLog: false, fromZero: true, near: 0.5, joined: true, legend: "on held-out data", value: percent, short: percent, axis: percents };

/** Series of steps that learn by gradients. */
const OF_GRADIENTS = ["loss", "learning_rate", "gradient_norm"];

/** What runs that count in this unit can be looked at by, beginning with some shares. */
export function looksOf(unit: string, runs: Columns[], shares: { measure: string; title: string }[] = [], hasGradients = true): Look[] {
  const known = shares.filter(({ measure }) => runs.some((columns) => columns.measures.some(({ name }) => name === measure)));
  const looks: Look[] = [
    ...known.map((share): Look => ({ ...SHARES, ...share })),
    { ...NUMBERS, title: "Loss", legend: "line: smoothed", series: "loss", smooth: true, measure: "loss" },
    { title: "Learning rate", legend: "of each step", series: "learning_rate", canLog: true, fromZero: true, value: rate, short: rate, axis: (values) => values.map(rate) },
    { ...NUMBERS, title: "Gradient norm", legend: "before clipping · line: smoothed", series: "gradient_norm", smooth: true, alone: true },
    { ...AMOUNTS, title: "Memory", legend: "in use after each step", series: "memory", alone: true, value: bytes, short: bytes, axis: bytesAxis },
    { ...AMOUNTS, title: `${capital(unit)} a second`, legend: "line: smoothed", series: "rate", smooth: true, value: count, unit: ` ${unit} a second`, short: count, axis: (values) => values.map(count) },
  ];
  const measures = new Map(runs.flatMap((columns) => columns.measures.map(({ name, label }) => [name, label] as const)));
  for (const [measure, label] of measures) {
    if (runs.every((columns) => isSingle(columns, measure))) continue;
    if (looks.every((look) => look.measure !== measure)) looks.push({ ...NUMBERS, title: label, legend: "on held-out data", measure });
  }
  for (const series of new Set(runs.flatMap((columns) => columns.names))) {
    if (looks.every((look) => look.series !== series)) looks.push({ ...NUMBERS, title: capital(series.replaceAll("_", " ")), legend: "line: smoothed", series, smooth: true });
  }
  return hasGradients ? looks : looks.filter(({ series }) => series === undefined || !OF_GRADIENTS.includes(series));
}

/** Whether it was measured once where other things were measured again and again: that is a figure, and no chart. */
function isSingle(columns: Columns, measure: string): boolean {
  const { values } = columns.heldOut(measure);
  return values.length > 1 && values.filter((value) => value === value).length < 2;
}

/** The lines of a run, with what is to come hinted up to a step. */
export function linesOf({ series, smooth, measure, short, joined }: Look, columns: Columns, until = 0): Line[] {
  const lines: Line[] = [];
  const xs = columns.steps;
  if (series && smooth) lines.push({ xs, ys: columns.of(series), look: "thin", colour: "--line-strong" });
  if (series) lines.push({ xs, ys: smooth ? columns.smooth(series) : columns.of(series), look: "line", colour: "--blue", write: short, until });
  if (measure && joined) lines.push({ xs: columns.heldOutSteps, ys: columns.heldOut(measure), look: "line", colour: "--blue", write: short });
  if (measure) lines.push({ xs: columns.heldOutSteps, ys: columns.heldOut(measure), look: "dots", colour: "--ink" });
  return lines;
}

/** What the lines are, in words. */
export function legendOf({ legend, series, measure }: Look, columns: Columns): string {
  const dots = series !== undefined && measure !== undefined && columns.heldOut(measure).last() !== undefined;
  return dots ? `${legend} · dots: held-out` : legend;
}

/** The last value that is known. */
export function lastOf({ series, smooth, measure }: Look, columns: Columns): number | undefined {
  if (!series) return measure === undefined ? undefined : columns.heldOut(measure).last();
  return (smooth ? columns.smooth(series) : columns.of(series)).last();
}

/** The values of a step, each with its name. */
export function valuesAt(columns: Columns, { title, series, smooth, measure, value, unit = "" }: Look, step: number): [string, string][] {
  const at = countBelow(columns.steps, step);
  const write = (number: number | undefined) => (number === undefined || number !== number ? "not known" : `${value(number)}${unit}`);
  const values: [string, string][] = [];
  if (series && smooth) values.push(["raw", write(columns.of(series).values[at])], ["smoothed", write(columns.smooth(series).values[at])]);
  else if (series) values.push([title.toLowerCase(), write(columns.of(series).values[at])]);
  const heldOut = measure && columns.heldOutBy(measure, step);
  if (heldOut) values.push([heldOut.step === step ? "held-out" : `held-out at ${count(heldOut.step)}`, write(heldOut.value)]);
  return values;
}
