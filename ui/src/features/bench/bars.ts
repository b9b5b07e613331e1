// What was measured, by workload: as rows of a table, and as bars, where devices and dtypes stand side by side.

import type { BenchDeviceView, BenchRowView } from "../../api";
import { roundStep, ticks } from "../../lib/scale";
import { axisWords, measureOf, rate, workFirst } from "./rates";

/** The cases of a workload, without what they have in common. */
export interface Cases<T> {
  workload: string;
  title: string;
  /** What all of them have in common: `shape of SmolLM2-135M`. */
  about: string;
  cases: { detail: string; of: T }[];
}

/** One case on one device. */
export interface Bar {
  /** The place of the device among all, which has a colour. */
  device: number;
  name: string;
  /** What tells it from the others of its device: `bf16, 8 x 256 tokens`. */
  detail: string;
  /** What stands beside it: its rate, or why there is none. */
  text: string;
  problem: string | null;
  /** In the unit of the axis: the median, and the quartiles. */
  value: number;
  low: number;
  high: number;
  /** The quartiles in words. */
  half: string;
}

export interface Group {
  workload: string;
  title: string;
  about: string;
  bars: Bar[];
  /** Where the axis, which begins at 0, ends. */
  top: number;
  ticks: { value: number; text: string }[];
  /** What the axis counts: `tokens/s`. */
  unit: string;
}

/** More words than these run into each other below a short bar. */
const MAX_TICKS = 3;

/** The colours of devices, which are named beside each bar as well. */
export const COLOURS = ["--bronze", "--blue", "--purple", "--steel"];

export const colourOf = (device: number) => COLOURS[device % COLOURS.length] ?? "--bronze";

/** What devices are called where there is little room: `Metal`, and `CUDA 1` where there are several of a kind. */
export function shortNames(devices: BenchDeviceView[]): string[] {
  return devices.map(({ kind, setting }) => {
    const isAlone = devices.filter((one) => one.kind === kind).length === 1;
    return isAlone ? kind : `${kind} ${setting.split(":")[1] ?? "0"}`;
  });
}

/** The parts of a configuration. */
const partsOf = ({ config }: BenchRowView) => config.split(", ").filter(Boolean);

/** Rows by workload, in order, each with what tells it from the others of its workload: `bf16, 8 x 256 tokens`. */
export function byWorkload<T>(all: T[], rowOf: (one: T) => BenchRowView): Cases<T>[] {
  const workloads = [...new Set(all.map((one) => rowOf(one).workload))];
  return workloads.map((workload) => {
    const these = all.filter((one) => rowOf(one).workload === workload);
    // The configuration of what was not measured is not known in full.
    const known = these.map(rowOf).flatMap((row) => (row.measured ? [partsOf(row)] : []));
    const common = (known[0] ?? []).filter((part) => known.every((parts) => parts.includes(part)));
    const cases = these.map((of) => {
      const parts = partsOf(rowOf(of)).filter((part) => !common.includes(part));
      // A case that is alone in no dtype has nothing to be told by but all of it.
      return { detail: [rowOf(of).dtype, ...parts].filter(Boolean).join(", ") || rowOf(of).config, of };
    });
    return { workload, title: these[0] ? rowOf(these[0]).title : workload, about: common.join(", "), cases };
  });
}

/** All workloads: first those that count what people do, then those that say what could be done. */
export function groupsOf(devices: BenchDeviceView[]): Group[] {
  const all = devices.flatMap(({ rows }, device) => rows.map((row) => ({ row, device })));
  const names = shortNames(devices);
  return workFirst(byWorkload(all, ({ row }) => row), ({ cases }) => cases[0]?.of.row.unit).map((cases) => groupOf(cases, names));
}

function groupOf({ workload, title, about, cases }: Cases<{ row: BenchRowView; device: number }>, names: string[]): Group {
  const unit = cases[0]?.of.row.unit;
  const most = Math.max(0, ...cases.map(({ of: { row } }) => row.measured?.highPerSecond ?? row.measured?.perSecond ?? 0));
  const step = roundStep(most, MAX_TICKS);
  const top = most > 0 ? Math.ceil(most / step) * step : 1;
  const measure = measureOf(unit, most);
  const values = ticks(0, top, MAX_TICKS);
  const words = axisWords(values, measure);
  const bars = cases.map(({ detail, of: { row, device } }): Bar => {
    const { measured, problem } = row;
    const value = measured?.perSecond ?? 0;
    const [low, high] = [measured?.lowPerSecond ?? value, measured?.highPerSecond ?? value];
    return {
      device,
      name: names[device] ?? "",
      detail,
      text: measured ? rate(measured.perSecond, unit) : "not measured",
      problem: measured ? null : (problem ?? "for an unknown reason"),
      value,
      low,
      high,
      half: `half of the steps ran at ${rate(low, unit)} to ${rate(high, unit)}`,
    };
  });
  return { workload, title, about, bars, top, ticks: values.map((value, at) => ({ value, text: words[at] ?? "" })), unit: measure.name };
}
