// How a workload's rate went from one benchmark to the next.

import type { BenchRowView, BenchUnit, BenchView } from "../../api";
import { shortNames } from "./bars";
import { counted } from "../../lib/format";
import { workFirst } from "./rates";

/** One device in one dtype, at the rows where it is fastest now. */
export interface Series {
  name: string;
  device: number;
  /** The place of its dtype among those of its device. */
  dtype: number;
  unit: BenchUnit;
  /** Of each benchmark; NaN where it was not measured. */
  values: number[];
}

/** So many are a line. */
export const ENOUGH = 3;

/** The benchmarks that can be compared over time with one: of this machine and of its size, the oldest first. */
export function comparable(kept: BenchView[], { size, devices }: BenchView): BenchView[] {
  const known = new Set(devices.map(({ name }) => name));
  const fits = (one: BenchView) => !one.imported && one.size === size && one.devices.some(({ name }) => known.has(name));
  return kept.filter(fits).sort((a, b) => a.time.localeCompare(b.time));
}

/** The workloads of a benchmark, by name: work first. */
export function workloadsOf({ devices }: BenchView): [string, string][] {
  const rows = workFirst(devices.flatMap(({ rows }) => rows), ({ unit }) => unit);
  return [...new Map(rows.map(({ workload, title }) => [workload, title]))];
}

/** The rates of a workload in benchmarks, which are in order, for what the last of them measured. */
export function seriesOf(benches: BenchView[], workload: string): Series[] {
  const last = benches.at(-1);
  if (!last) return [];
  const names = shortNames(last.devices);
  return last.devices.flatMap((on, device) => {
    const rows = on.rows.filter((row) => row.workload === workload && row.measured);
    const dtypes = [...new Set(rows.map((row) => row.dtype))];
    return dtypes.flatMap((dtype, at): Series[] => {
      const best = fastest(rows.filter((row) => row.dtype === dtype));
      if (!best) return [];
      const values = benches.map((bench) => {
        const same = bench.devices.find(({ name, setting }) => name === on.name && setting === on.setting);
        return same?.rows.find((row) => isSame(row, best))?.measured?.perSecond ?? NaN;
      });
      const name = [names[device], dtype, best.rows === null ? null : counted(best.rows, "row")].filter(Boolean).join(", ");
      return [{ name, device, dtype: at, unit: best.unit, values }];
    });
  });
}

const isSame = (one: BenchRowView, other: BenchRowView) =>
  one.workload === other.workload && one.dtype === other.dtype && one.rows === other.rows && one.config === other.config;

function fastest(rows: BenchRowView[]): BenchRowView | undefined {
  const rateOf = (row: BenchRowView | undefined) => row?.measured?.perSecond ?? 0;
  return rows.reduce<BenchRowView | undefined>((best, row) => (rateOf(row) > rateOf(best) ? row : best), undefined);
}
