// What the page of benchmarks knows without a screen.

import { render, screen, waitFor } from "@testing-library/svelte";
import { beforeAll, describe, expect, test } from "vitest";

import { api, type BenchDeviceView, type BenchRowView, type BenchView } from "../../ui/src/api";
import { install } from "./fake";
import benchmarks from "./fake/answers/benchmarks.json";
import BenchProgress from "../../ui/src/features/bench/BenchProgress.svelte";
import { byWorkload, groupsOf, shortNames } from "../../ui/src/features/bench/bars";
import { measure, measuring, stop } from "../../ui/src/features/bench/measuring.svelte";
import { inColumns } from "../../ui/src/features/bench/picture";
import { axisWords, measureOf, millis, percent, rate, spread } from "../../ui/src/features/bench/rates";
import { comparable, seriesOf, workloadsOf } from "../../ui/src/features/bench/series";
import { devicesOf, fileName, moment, nameOf } from "../../ui/src/features/bench/words";

const [recorded] = benchmarks[0]!.devices[0]!.rows.filter(({ measured }) => measured !== null) as BenchRowView[];

function row({ perSecond = 1000, ...more }: Partial<BenchRowView> & { perSecond?: number }): BenchRowView {
  const measured = { ...recorded!.measured!, perSecond, lowPerSecond: perSecond * 0.95, highPerSecond: perSecond * 1.05 };
  return { workload: "lora_step", title: "LoRA step", config: "a shape, 4 x 256 tokens", dtype: "f32", rows: 4, unit: "tokens", problem: null, measured, ...more };
}

const device = (kind: string, setting: string, rows: BenchRowView[]): BenchDeviceView => ({ name: `Some ${kind}`, kind, setting, rows });
const bench = (time: string, devices: BenchDeviceView[], more: Partial<BenchView> = {}) =>
  ({ id: time, time, size: "medium", imported: false, power: null, devices, ...more }) as BenchView;

describe("a rate", () => {
  test("has its unit, and three figures or all of a larger number", () => {
    expect([rate(41_234.4, "tokens"), rate(69.84, "tokens"), rate(99.97, "tokens"), rate(0.5, "batches")]).toEqual([
      "41,234 tokens/s",
      "69.8 tokens/s",
      "100 tokens/s",
      "0.500 batches/s",
    ]);
    expect([rate(1.24e12, "operations"), rate(864e9, "operations"), rate(38.1e9, "bytes"), rate(1.0042e12, "bytes")]).toEqual([
      "1.24 TFLOP/s",
      "864 GFLOP/s",
      "38.1 GB/s",
      "1,004 GB/s",
    ]);
    expect(rate(null, "tokens")).toBe("–");
  });

  test("stands beside what a step takes, its spread and its share", () => {
    expect([1234.5, 123.4, 12.34, 9.996, 1.234, 0.1234].map(millis)).toEqual(["1,235", "123", "12.3", "10.0", "1.23", "0.123"]);
    expect([spread(1.9, 2.1), spread(null, 2), percent(0.427), percent(null), millis(null)]).toEqual(["1.90 to 2.10", "–", "43 %", "–", "–"]);
  });

  test("is counted on an axis in the unit of the largest", () => {
    expect(axisWords([0, 5000, 10_000], measureOf("tokens", 9000))).toEqual(["0", "5,000", "10,000"]);
    expect(axisWords([0, 0.5e12, 1e12], measureOf("operations", 1e12))).toEqual(["0.0", "0.5", "1.0"]);
    expect(measureOf("operations", 9e11).name).toBe("GFLOP/s");
  });
});

describe("what was measured", () => {
  const rows = [
    row({ workload: "matmul", title: "Matrix product", unit: "operations", config: "1024 x 1024", rows: null, perSecond: 9e11 }),
    row({ perSecond: 3952 }),
    row({ config: "a shape, 8 x 256 tokens", rows: 8, perSecond: 5582 }),
    row({ config: "16 rows", rows: 16, measured: null, problem: "too large" }),
  ];
  const devices = [device("Metal", "metal", rows), device("CPU", "cpu", [row({ config: "a shape, 2 x 256 tokens", rows: 2, perSecond: 829 })])];

  test("is told by what differs; what is common is said once", () => {
    const [matrices, lora] = byWorkload(rows, (it) => it);
    expect([matrices?.about, matrices?.cases.map(({ detail }) => detail)]).toEqual(["1024 x 1024", ["f32"]]);
    expect([lora?.about, lora?.cases.map(({ detail }) => detail)]).toEqual(["a shape", ["f32, 4 x 256 tokens", "f32, 8 x 256 tokens", "f32, 16 rows"]]);
    const [alone] = byWorkload([row({ dtype: null, config: "4 x 256 tokens, no worker" })], (it) => it);
    expect(alone?.cases[0]?.detail).toBe("4 x 256 tokens, no worker");
  });

  test("has a scale for each workload, from 0 to a round end, and what people do comes first", () => {
    const [lora, matrices] = groupsOf(devices);
    expect([lora?.title, lora?.unit, lora?.top, lora?.ticks.map(({ text }) => text)]).toEqual(["LoRA step", "tokens/s", 6000, ["0", "2,000", "4,000", "6,000"]]);
    expect([matrices?.unit, matrices?.top]).toEqual(["GFLOP/s", 1e12]);
    expect(lora?.bars.map(({ name, text }) => `${name} ${text}`)).toEqual(["Metal 3,952 tokens/s", "Metal 5,582 tokens/s", "Metal not measured", "CPU 829 tokens/s"]);
    expect(lora?.bars[2]?.problem).toBe("too large");
    for (const { high } of lora?.bars ?? []) expect(high).toBeLessThanOrEqual(6000);
    const [nothing] = groupsOf([device("CPU", "cpu", [row({ measured: null, problem: "too large" })])]);
    expect([nothing?.top, nothing?.bars[0]?.problem]).toEqual([1, "too large"]);
  });

  test("calls devices by their kind, and several of a kind by their place", () => {
    const some = [device("CUDA", "cuda", []), device("CUDA", "cuda:1", []), device("CPU", "cpu", [])];
    expect(shortNames(some)).toEqual(["CUDA 0", "CUDA 1", "CPU"]);
  });

  test("is drawn in two columns, in order, neither higher than it has to be", () => {
    const group = (title: string, bars: number) => ({ ...groupsOf(devices)[0]!, title, bars: Array(bars).fill(groupsOf(devices)[0]!.bars[0]) });
    const titles = (counts: number[]) => inColumns(counts.map((bars, at) => group(String(at), bars))).map((column) => column.map(({ title }) => title).join(""));
    expect(titles([8, 3, 3, 3, 3])).toEqual(["01", "234"]);
    expect(titles([3, 3, 3, 3, 8])).toEqual(["012", "34"]);
    expect(titles([2])).toEqual(["0", ""]);
    expect(titles([])).toEqual(["", ""]);
  });
});

describe("benchmarks over time", () => {
  const metal = (perSecond: number) => device("Metal", "metal", [row({ perSecond }), row({ dtype: "bf16", perSecond: perSecond * 1.4 })]);
  const kept = [
    bench("2026-11-21T08:00:00Z", [metal(120)]),
    bench("2026-11-12T08:00:00Z", [metal(900)], { imported: true }),
    bench("2026-11-10T08:00:00Z", [device("Metal", "metal", [row({ perSecond: 110 })])]),
    bench("2026-11-02T08:00:00Z", [metal(90)], { size: "large" }),
    bench("2026-11-01T08:00:00Z", [metal(100)]),
  ];

  test("are those of this machine and of one size, the oldest first", () => {
    const like = comparable(kept, kept[0]!);
    expect(like.map(({ time }) => time.slice(8, 10))).toEqual(["01", "10", "21"]);
    expect(workloadsOf(kept[0]!)).toEqual([["lora_step", "LoRA step"]]);
    const limit = row({ workload: "matmul", title: "Matrix product", unit: "operations" });
    const both = [device("Metal", "metal", [limit, row({ workload: "look", title: "Look", unit: "pictures" })])];
    expect(workloadsOf(bench("2026-11-21T08:00:00Z", both)).map(([name]) => name)).toEqual(["look", "matmul"]);
    expect(groupsOf(both).map(({ workload }) => workload)).toEqual(["look", "matmul"]);
    expect(seriesOf(like, "lora_step").map(({ name, values }) => [name, values])).toEqual([
      ["Metal, f32, 4 rows", [100, 110, 120]],
      ["Metal, bf16, 4 rows", [140, NaN, 168]],
    ]);
    expect(seriesOf(like, "nothing")).toEqual([]);
    expect(seriesOf([], "lora_step")).toEqual([]);
  });

  test("are called by their day, and their files by what is in them", () => {
    const now = new Date(2026, 10, 21, 12);
    const time = new Date(2026, 10, 20, 8, 12).toISOString();
    expect(moment(time, now)).toBe("yesterday, 08:12");
    const one = bench(time, [metal(1), metal(1)], { power: "on battery" });
    expect(nameOf(one, now)).toBe("yesterday, 08:12 · Medium · Some Metal · on battery");
    expect(devicesOf(one)).toBe("Some Metal");
    const long = { ...metal(1), name: "NVIDIA GeForce RTX 4090 Laptop GPU (8 GB)" };
    expect(fileName(bench("2026-11-21T08:00:00Z", [long]))).toBe("bench-2026-11-21-nvidia-geforce-rtx-4090-laptop-gpu-8-gb-medium");
  });
});

describe("a benchmark that is running", () => {
  beforeAll(install);

  test("says why it has not begun while a run is in its way", async () => {
    const progress = { done: 0, cases: 0, now: "Waiting for “Support tone”", isWaiting: true, secondsLeft: null, devices: [] };
    const { rerender } = render(BenchProgress, { progress, isStopping: false });
    expect(screen.getByText(/starts by itself/)).toBeTruthy();
    await rerender({ progress: { ...progress, now: "Starting…", isWaiting: false } });
    expect(screen.queryByText(/starts by itself/)).toBeNull();
  });

  test("is one at a time, tells how far it is, and can be stopped with what it has", async () => {
    const going = measure(["metal"]);
    expect(await measure(["cpu"])).toBeUndefined();
    await waitFor(() => expect(measuring.progress?.done).toBeGreaterThan(0));
    expect(measuring.progress?.now).toContain("on Apple M3 Max");
    stop();
    expect(measuring.isStopping).toBe(true);
    const id = await going;
    expect(measuring.progress).toBeUndefined();
    const found = (await api.benchmarks()).find((one) => one.id === id);
    expect(found?.warnings).toEqual(["Stopped before the end."]);
    expect(found?.devices.map(({ setting }) => setting)).toEqual(["metal"]);
  });
});
