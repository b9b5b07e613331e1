// The benchmark that is running, for as long as the window is open: leaving the page does not end it.

import { api, type BenchProgressView } from "../../api";

export type Size = "auto" | "small" | "medium" | "large";

class Measuring {
  /** Nothing while none is running. */
  progress = $state<BenchProgressView>();
  /** Whether it is about to end. */
  isStopping = $state(false);
  error = $state<unknown>();
  /** How many were done. */
  times = $state(0);
  /** What is chosen for the next one. */
  size = $state<Size>("auto");
  /** The devices that are left out, as a run asks for them. */
  leftOut = $state<string[]>([]);
}

export const measuring = new Measuring();

/** Measures these devices; all without any. Resolves to the name of what was found, if anything was. */
export async function measure(devices: string[]): Promise<string | undefined> {
  if (measuring.progress) return undefined;
  measuring.error = undefined;
  measuring.isStopping = false;
  measuring.progress = { done: 0, cases: 0, now: "Starting…", isWaiting: false, secondsLeft: null, devices: [] };
  try {
    const { id } = await api.runBenchmark(devices, measuring.size === "auto" ? null : measuring.size, (news) => {
      measuring.progress &&= news;
    });
    measuring.times += 1;
    return id;
  } catch (problem) {
    // Whoever stops it knows that nothing came of it.
    if (!measuring.isStopping) measuring.error = problem;
    return undefined;
  } finally {
    measuring.progress = undefined;
    measuring.isStopping = false;
  }
}

/** Ends it. What it measured is kept. */
export function stop() {
  measuring.isStopping = true;
  api.stopBenchmark().catch((problem: unknown) => (measuring.error = problem));
}
