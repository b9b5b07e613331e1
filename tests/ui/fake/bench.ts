// The benchmarks of the made-up app: four of this machine, one from elsewhere, and one that is done when it is asked for.

import type {
  Advice,
  BenchDeviceView,
  BenchRowView,
  BenchView,
  ComparedRow,
  Comparison,
  Unit,
} from "../../../ui/src/api/bindings";
import { ago, chance, filled, noise, refuse, wait, type Some } from "./scene";

/** A workload: its name, its title and what is counted. */
type Workload = readonly [workload: string, title: string, unit: Unit];

/** A case: what it is of, how it differs, what a step does and takes, its peak in GB, and its share of the roofline. */
type Case = readonly [of: Workload, config: string, dtype: string | null, rows: number | null, amount: number, millis: number, peak: number, share?: number];

const MATRICES: Workload = ["matmul", "Matrix product", "operations"];
const MEMORY: Workload = ["bandwidth", "Memory", "bytes"];
const LORA: Workload = ["lora_step", "LoRA step", "tokens"];
const FULL: Workload = ["full_step", "Full step", "tokens"];
const SCRATCH: Workload = ["scratch_step", "From-scratch step", "tokens"];
const PROMPT: Workload = ["prompt", "Reading a prompt", "tokens"];
const GENERATION: Workload = ["generation", "Writing", "tokens"];
const LOADER: Workload = ["loader", "Making batches", "batches"];

const SHAPE = "shape of SmolLM2-135M";
const product = 2 * 2048 ** 3 * 8;
const sum = 3 * 4 * 2 ** 26;

const METAL: Case[] = [
  [MATRICES, "2048 x 2048", "f32", null, product, 11.9, 0.31],
  [MATRICES, "2048 x 2048", "bf16", null, product, 9.71, 0.22],
  [MEMORY, "64 million numbers", "f32", null, sum, 2.31, 1.07],
  [MEMORY, "64 million numbers", "bf16", null, sum / 2, 1.18, 0.66],
  [LORA, `${SHAPE}, 2 x 256 tokens`, "f32", 2, 512, 128, 2.14, 0.27],
  [LORA, `${SHAPE}, 8 x 256 tokens`, "f32", 8, 2048, 371, 4.92, 0.38],
  [LORA, `${SHAPE}, 16 x 256 tokens`, "f32", 16, 4096, 733, 8.61, 0.39],
  [LORA, `${SHAPE}, 2 x 256 tokens`, "bf16", 2, 512, 97.4, 1.38, 0.29],
  [LORA, `${SHAPE}, 8 x 256 tokens`, "bf16", 8, 2048, 263, 2.87, 0.43],
  [LORA, `${SHAPE}, 16 x 256 tokens`, "bf16", 16, 4096, 508, 4.79, 0.45],
  [FULL, `${SHAPE}, 8 x 256 tokens`, "f32", 8, 2048, 492, 6.38, 0.39],
  [FULL, `${SHAPE}, 8 x 256 tokens`, "bf16", 8, 2048, 381, 4.71, 0.4],
  [SCRATCH, "preset micro, 8 x 512 tokens", "f32", 8, 4096, 98.6, 1.62, 0.31],
  [SCRATCH, "preset micro, 8 x 512 tokens", "bf16", 8, 4096, 77.2, 1.24, 0.32],
  [PROMPT, `${SHAPE}, 256 tokens`, "f32", null, 256, 21.3, 0.71, 0.28],
  [PROMPT, `${SHAPE}, 256 tokens`, "bf16", null, 256, 15.8, 0.42, 0.31],
  [GENERATION, `${SHAPE}, after 32 tokens`, "f32", null, 1, 9.12, 0.62, 0.17],
  [GENERATION, `${SHAPE}, after 32 tokens`, "bf16", null, 1, 7.04, 0.35, 0.11],
  [LOADER, "8 x 256 tokens, no worker", null, null, 1024, 58.4, 0.09],
  [LOADER, "8 x 256 tokens, 1 worker", null, null, 1024, 49.1, 0.1],
];

const PROCESSOR: Case[] = [
  [MATRICES, "1024 x 1024", "f32", null, 2 * 1024 ** 3 * 4, 9.87, 0.04],
  [MEMORY, "16 million numbers", "f32", null, sum / 4, 2.06, 0.28],
  [LORA, `${SHAPE}, 1 x 256 tokens`, "f32", 1, 256, 341, 1.41, 0.63],
  [LORA, `${SHAPE}, 2 x 256 tokens`, "f32", 2, 512, 628, 1.93, 0.68],
  [LORA, `${SHAPE}, 4 x 256 tokens`, "f32", 4, 1024, 1240, 2.97, 0.69],
  [FULL, `${SHAPE}, 4 x 256 tokens`, "f32", 4, 1024, 1630, 4.26, 0.7],
  [SCRATCH, "preset micro, 4 x 512 tokens", "f32", 4, 2048, 217, 1.18, 0.59],
  [PROMPT, `${SHAPE}, 256 tokens`, "f32", null, 256, 118, 0.69, 0.58],
  [GENERATION, `${SHAPE}, after 32 tokens`, "f32", null, 1, 14.6, 0.6, 0.42],
  [LOADER, "4 x 256 tokens, no worker", null, null, 1024, 31.2, 0.09],
  [LOADER, "4 x 256 tokens, 1 worker", null, null, 1024, 27.7, 0.1],
];

interface Circumstances {
  seed: number;
  /** How much slower than usual it was. */
  slower?: number;
  /** The case, by its place, that gets slower while it is measured. */
  throttles?: number;
  /** The case that can't be measured. */
  fails?: number;
  /** Whether single steps are known. */
  hasSteps?: boolean;
}

function rowOf(made: Case, at: number, { seed, slower = 1, throttles, fails, hasSteps = true }: Circumstances): BenchRowView {
  const [[workload, title, unit], config, dtype, rows, amount, usual, peak, share] = made;
  const named = { workload, title, dtype, rows, unit };
  if (at === fails) return { ...named, config: rows === null ? "" : `${rows} rows`, problem: "not measured: it needs about 24.6 GB, and 21.4 GB are free", measured: null };
  const median = usual * slower * (1 + 0.012 * noise(seed, at));
  const count = Math.round(Math.min(Math.max(5000 / median, 7), 160));
  const steps = Array.from({ length: count }, (_, step) => {
    const hot = at === throttles ? Math.max(step / count - 0.35, 0) * 0.7 : 0;
    return median * (1 + hot + 0.014 * noise(seed + at, step));
  });
  const sorted = [...steps].sort((a, b) => a - b);
  const middle = (of: number) => sorted[Math.floor(of * (count - 1))] ?? median;
  return {
    ...named,
    config,
    problem: null,
    measured: {
      firstMillis: median * (1.4 + 4 * chance(seed + 7, at)),
      medianMillis: middle(0.5),
      lowMillis: middle(0.25),
      highMillis: middle(0.75),
      perSecond: (amount / middle(0.5)) * 1e3,
      lowPerSecond: (amount / middle(0.75)) * 1e3,
      highPerSecond: (amount / middle(0.25)) * 1e3,
      peakBytes: peak * 1e9,
      rooflineShare: share === undefined ? null : share / slower,
      steps: steps.length,
      stepMillis: hasSteps ? steps : [],
    },
  };
}

const rowsOf = (cases: Case[], how: Circumstances) => cases.map((made, at) => rowOf(made, at, how));
const metal = (how: Circumstances): BenchDeviceView => ({ name: "Apple M3 Max", kind: "Metal", setting: "metal", rows: rowsOf(METAL, how) });
const processor = ({ seed, slower = 1 }: Circumstances): BenchDeviceView => ({
  name: "Apple M3 Max processor",
  kind: "CPU",
  setting: "cpu",
  rows: rowsOf(PROCESSOR, { seed: seed + 50, slower }),
});

const ratios = [
  "Metal is 4.76x faster than the CPU at: LoRA step.",
  "Metal is 8.56x faster than the CPU at: Full step.",
  "Metal is 5.62x faster than the CPU at: From-scratch step.",
];
const advice: Advice[] = [
  { setting: "device", value: "metal", why: "It learns at 6.12 times the rate of the CPU, on average over what both did." },
  { setting: "dtype.compute", value: "bf16", why: "It learns at 1.34 times the rate of f32." },
  { setting: "batch.rows", value: "8", why: "97 % of the best rate, with the least memory. Tokens a second by rows: 2: 5257, 8: 7787, 16: 8063." },
  { setting: "workers", value: "0", why: "A batch takes 0.057 ms to make, 0.07 % of the shortest step." },
];

function view(time: string, devices: BenchDeviceView[], more: Partial<BenchView> = {}): BenchView {
  return {
    id: time.replace(/[:.]/g, "-"),
    time,
    version: "0.1.0",
    system: "macOS 15.1",
    size: "medium",
    seconds: 197,
    imported: false,
    power: null,
    devices,
    ratios: devices.length > 1 ? ratios : [],
    advice,
    warnings: [],
    since: [],
    ...more,
  };
}

const both = (how: Circumstances) => [metal(how), processor(how)];
const DAY = 24 * 60;
const elsewhere = (): BenchDeviceView => ({
  name: "NVIDIA GeForce RTX 4090 Laptop GPU",
  kind: "CUDA",
  setting: "cuda",
  rows: rowsOf(METAL, { seed: 90, slower: 0.31, hasSteps: false }),
});

/** What is kept, the newest first. */
let kept: BenchView[] = !filled
  ? []
  : [
      view(ago(52), both({ seed: 1, fails: 6 }), {
        since: [
          "Apple M3 Max: 14 % faster than on 2026-11-18, on battery then (17 of 19 cases clearly changed).",
          "Apple M3 Max processor: as fast as on 2026-11-18, within the spread of its steps (0 of 11 cases clearly changed).",
        ],
      }),
      view(ago(3 * DAY), both({ seed: 2, slower: 1.14, throttles: 8 }), {
        power: "on battery",
        seconds: 214,
        warnings: [
          "The machine was on battery; it may be faster otherwise.",
          "Matrix products on Metal were 13 % slower at the end than at the beginning: it got hot, saved power, or had other work.",
          `These became slower on Metal while they were measured: LoRA step, ${SHAPE}, 8 x 256 tokens, bf16.`,
        ],
      }),
      view(ago(9 * DAY), [elsewhere()], { imported: true, system: "Ubuntu 24.04", seconds: 96, advice: advice.slice(1) }),
      view(ago(20 * DAY), both({ seed: 3, slower: 1.03 })),
      view(ago(41 * DAY), both({ seed: 4, slower: 1.06 }), { version: "0.0.9" }),
    ];

const find = (id: string) => kept.find((one) => one.id === id) ?? refuse(`there is no benchmark \`${id}\``);

function written(perSecond: number, unit: Unit): string {
  const [by, name] = { tokens: [1, "tokens/s"], operations: [1e12, "TFLOP/s"], bytes: [1e9, "GB/s"], batches: [1, "batches/s"] }[unit] as [number, string];
  const value = perSecond / by;
  return `${value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3)} ${name}`;
}

function changed(ratio: number): string {
  const times = Math.max(ratio, 1 / ratio);
  const word = ratio >= 1 ? "faster" : "slower";
  return times >= 1.2 ? `${times.toFixed(2)}x ${word}` : `${Math.round(Math.abs(ratio - 1) * 100)} % ${word}`;
}

function comparedRow(one: BenchRowView, other: BenchRowView): ComparedRow[] {
  const [a, b] = [one.measured, other.measured];
  if (!a?.perSecond || !b?.perSecond) return [];
  const ratio = b.perSecond / a.perSecond;
  const isClear = Math.abs(ratio - 1) > 0.03;
  return [
    {
      config: [other.title, other.config, other.dtype].filter(Boolean).join(", "),
      before: written(a.perSecond, one.unit),
      after: written(b.perSecond, other.unit),
      message: isClear ? changed(ratio) : "no clear change",
      ratio,
      is_clear: isClear,
    },
  ];
}

function compared(earlier: BenchView, later: BenchView): Comparison[] {
  return later.devices.flatMap((after) => {
    const only = earlier.devices.length === 1 && later.devices.length === 1 ? earlier.devices[0] : undefined;
    const before = only ?? earlier.devices.find(({ setting }) => setting === after.setting);
    if (!before) return [];
    const rows = after.rows.flatMap((row) => {
      const same = before.rows.find((it) => it.workload === row.workload && it.dtype === row.dtype && it.config === row.config);
      return same ? comparedRow(same, row) : [];
    });
    return rows.length === 0 ? [] : [{ devices: [before.name, after.name], rows, mean: null }];
  });
}

const how = new URLSearchParams(location.search).get("bench");
/** Where a benchmark stays that stays. */
const STAYS_AT = 9;
let stopped = false;

export const benchAnswers = {
  benchmarks: () => kept,

  runBenchmark: async (asked, size, progress) => {
    stopped = false;
    const devices = both({ seed: 11 }).filter(({ setting }) => asked.length === 0 || asked.includes(setting));
    const cases = devices.reduce((all, { rows }) => all + rows.length + 1, 0);
    const tell = (now: string, done = 0) => {
      let left = done;
      const shown = devices.flatMap((on) => {
        const rows = on.rows.slice(0, Math.max(left, 0));
        left -= on.rows.length;
        return rows.length === 0 ? [] : [{ ...on, rows }];
      });
      progress.onmessage({ done, cases: now.startsWith("Waits") ? 0 : cases, now, secondsLeft: done === 0 ? null : (cases - done) * 5.4, devices: shown });
    };
    if (how === "waits") tell("Waits until Support tone has ended");
    while (how === "waits" && !stopped) await wait(50);
    let done = 0;
    for (const on of devices) {
      for (const { title, rows, dtype } of on.rows) {
        if (stopped) break;
        tell(`${[title, rows === null ? null : `${rows} rows`, dtype].filter(Boolean).join(", ")} on ${on.name}`, done);
        await wait(40);
        while (how === "stays" && done === STAYS_AT && !stopped) await wait(50);
        if (!stopped) done += 1;
      }
    }
    if (done === 0) refuse("the benchmark was stopped; nothing was measured");
    let left = done;
    for (const on of devices) {
      on.rows = on.rows.slice(0, Math.max(left, 0));
      left -= on.rows.length;
    }
    const warnings = stopped ? ["It was stopped before its end."] : [];
    const made = view(ago(0), devices.filter(({ rows }) => rows.length > 0), { size: size ?? "medium", warnings, seconds: done * 5.4 });
    kept = [made, ...kept];
    return made;
  },

  stopBenchmark: () => void (stopped = true),
  compareBenchmarks: (earlier, later) => compared(find(earlier), find(later)),

  importBenchmark: (path) => {
    const time = "2026-10-02T18:21:07.412Z";
    if (!filled || kept.some((one) => one.time === time)) refuse(`this benchmark is here already: \`${path}\``);
    const made = view(time, [elsewhere()], { imported: true, system: "Windows 11", seconds: 101, advice: advice.slice(1) });
    kept = [...kept, made].sort((a, b) => b.time.localeCompare(a.time));
    return made.id;
  },

  exportBenchmark: (id, path) => {
    find(id);
    if (!/\.(json|csv|md)$/.test(path)) refuse(`a benchmark is a file that ends in .json, .csv or .md, and this one does not: \`${path}\``);
  },

  savePicture: () => null,

  deleteBenchmark: (id) => {
    const { id: gone } = find(id);
    kept = kept.filter((one) => one.id !== gone);
  },

} satisfies Some;
