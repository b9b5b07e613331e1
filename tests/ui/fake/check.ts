// The device check of the made-up app: one that was done, and one that goes through its cases when it is asked for.

import type { CheckProgressView, CheckRowView, CheckView } from "../../../ui/src/api";
import { filled, refuse, wait, type Some } from "./scene";

const OPERATIONS = ["gated", "add", "rms_norm", "layer_norm", "rope", "linear", "lora", "attention", "embedding", "head_cross_entropy", "adamw", "20 steps of training", "32 tokens of generation"];

const row = (operation: string, dtype: string, at: number): CheckRowView => ({
  group: "all",
  operation,
  dtype,
  verdict: "ok",
  error: dtype === "f32" ? 2.1e-7 * (at + 1) : 3.4e-3,
  tolerance: dtype === "f32" ? 1e-5 : 2e-2,
  deviceMillis: 0.11 * (at + 1),
  cpuMillis: 0.74 * (at + 1),
  message: null,
  instead: null,
});

function rows(): CheckRowView[] {
  const made = ["f32", "bf16"].flatMap((dtype) => OPERATIONS.map((operation, at) => row(operation, dtype, at)));
  const wrong = made.find(({ operation, dtype }) => operation === "attention" && dtype === "bf16");
  if (wrong) Object.assign(wrong, { verdict: "inexact", error: 0.31, instead: "done without its kernel" });
  return made;
}

const view = (): CheckView => ({
  verdict: "Ready to train on Apple M3 Max (Metal)",
  ready: true,
  time: "2026-11-20T08:12:00.000Z",
  seconds: 14.2,
  consequences: ["Runs do without the kernels of attention: slower, and right."],
  steps: [{ name: "The engine starts", problem: null }],
  rows: rows(),
  limits: [
    { what: "No 8-bit optimizer", why: "Not here yet. It would save memory only where all weights are trained; an adapter's state is small." },
    { what: "No quantized weights", why: "Not here yet. Weights that are not trained are stored in 16 bits or more." },
    { what: "No run on several devices", why: "A Mac has one GPU, and Metal has no way to share a run between several." },
  ],
  report: "Anneal 0.1.0 on macOS 15.1",
});

let stopped = false;

/** How far the check is that is running. */
export let checking: CheckProgressView | null = null;

export const checkAnswers = {
  lastCheck: () => (filled ? view() : null),

  checkDevice: async (device) => {
    stopped = false;
    try {
      for (const [done, { operation, dtype }] of rows().entries()) {
        if (stopped) refuse("the check was stopped; nothing was kept");
        checking = { device, done: done + 1, cases: rows().length, last: `${operation} in ${dtype}` };
        await wait(60);
      }
    } finally {
      checking = null;
    }
    return view();
  },

  stopCheck: () => void (stopped = true),
} satisfies Some;
