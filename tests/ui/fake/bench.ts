// Benchmarks: four of this machine, one from elsewhere, and one that is done when it is asked for.

import type { BenchDeviceView, BenchProgressView, BenchView, Comparison } from "../../../ui/src/api";
import kept from "./answers/benchmarks.json";
import comparison from "./answers/comparison.json";
import imported from "./answers/imported-benchmark.json";
import { bench, now, recorded, refuse, type Some, Things, wait } from "./scene";

const benchmarks = new Things<BenchView>("benchmark", ({ id }) => id, kept);
/** Where a benchmark stays that stays. */
const STAYS_AT = 9;
let isStopped = false;

/** Devices with the first of their rows. */
function first(devices: BenchDeviceView[], count: number): BenchDeviceView[] {
  let left = count;
  const cut = devices.map((on) => {
    const rows = on.rows.slice(0, Math.max(left, 0));
    left -= on.rows.length;
    return { ...on, rows };
  });
  return cut.filter(({ rows }) => rows.length > 0);
}

export const benchAnswers = {
  benchmarks: () => benchmarks.all,

  runBenchmark: async (asked, size, progress) => {
    isStopped = false;
    const [newest] = recorded<BenchView[]>(kept) as [BenchView];
    const devices = newest.devices.filter(({ setting }) => asked.length === 0 || asked.includes(setting));
    const rows = devices.flatMap((on) => on.rows.map((row) => ({ ...row, on: on.name })));
    // The first case of each device comes once more at the end.
    const cases = rows.length + devices.length;
    const tell = (news: Partial<BenchProgressView> & { now: string }) => progress.onmessage({ done: 0, cases, isWaiting: false, secondsLeft: null, devices: [], ...news });
    if (bench === "waits") tell({ now: "Waiting for “Support tone”", isWaiting: true, cases: 0 });
    while (bench === "waits" && !isStopped) await wait(50);
    let done = 0;
    for (const { title, rows: count, dtype, on } of rows) {
      if (isStopped) break;
      const words = [title, count === null ? null : `${count} rows`, dtype].filter(Boolean).join(", ");
      tell({ done, now: `${words} on ${on}`, secondsLeft: done === 0 ? null : (cases - done) * 5.4, devices: first(devices, done) });
      await wait(40);
      while (bench === "stays" && done === STAYS_AT && !isStopped) await wait(50);
      if (!isStopped) done += 1;
    }
    if (done === 0) refuse("the benchmark was stopped; nothing was measured");
    const time = now();
    const warnings = isStopped ? ["Stopped before the end."] : [];
    return benchmarks.add({ ...newest, id: time.replace(/[:.]/g, "-"), time, size: size ?? "medium", devices: first(devices, done), since: [], warnings });
  },

  stopBenchmark: () => void (isStopped = true),
  compareBenchmarks: () => recorded<Comparison[]>(comparison),

  importBenchmark: (path) => {
    const brought = recorded<BenchView>(imported);
    if (benchmarks.all.some(({ id }) => id === brought.id)) refuse(`this benchmark is here already: \`${path}\``);
    benchmarks.all = [...benchmarks.all, brought].sort((a, b) => b.time.localeCompare(a.time));
    return brought.id;
  },

  deleteBenchmark: (id) => void benchmarks.remove(id),
} satisfies Some;
