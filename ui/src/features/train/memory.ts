// What a run takes of the memory, in parts.

import type { EstimateView } from "../../api";
import { bytes } from "../../lib/format";

export interface Part {
  name: string;
  colour: string;
  bytes: number;
}

export interface Memory {
  parts: Part[];
  /** The same by what each operation keeps. */
  details: { name: string; bytes: number }[];
  /** The most that is in use: measured, or the sum of the parts. */
  peak: number;
  /** Whether the peak was measured. */
  measured: boolean;
  free: number | null;
  /** Whether it fits with a fifth of what is free to spare; nothing where nobody knows. */
  fits: boolean | undefined;
  /** The same in words, after the peak. */
  verdict: string;
}

export function memoryOf(estimate: EstimateView, measuredPeak: number | null | undefined): Memory {
  const parts = [
    { name: "weights", colour: "var(--blue)", bytes: estimate.weightsBytes ?? 0 },
    { name: "gradients and optimizer", colour: "var(--purple)", bytes: estimate.optimizerBytes ?? 0 },
    { name: "activations", colour: "var(--bronze)", bytes: estimate.activationsBytes ?? 0 },
    { name: "spare", colour: "var(--straw)", bytes: estimate.restBytes ?? 0 },
  ].filter((part) => part.bytes > 0);
  const details = estimate.parts.map(({ name, bytes }) => ({ name, bytes: bytes ?? 0 }));
  const peak = measuredPeak ?? parts.reduce((sum, part) => sum + part.bytes, 0);
  const { freeBytes: free, roomBytes: room } = estimate;
  const base = { parts, details, peak, measured: typeof measuredPeak === "number", free };
  if (free === null || room === null) return { ...base, fits: undefined, verdict: "how much is free is not known" };
  const fits = peak <= room;
  const judged = fits ? "fits" : peak > free ? "does not fit" : "too little to spare";
  return { ...base, fits, verdict: `of ${bytes(free)} free · ${judged}` };
}

/** How wide each part is drawn, in percent, beside all that is free. */
export function widths({ parts, free }: Pick<Memory, "parts" | "free">): { parts: number[]; free: number | undefined } {
  const sum = parts.reduce((total, part) => total + part.bytes, 0);
  const whole = Math.max(sum, free ?? 0, 1);
  return {
    parts: parts.map((part) => (part.bytes / whole) * 100),
    free: free !== null && free < sum ? (free / whole) * 100 : undefined,
  };
}
