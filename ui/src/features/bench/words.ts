// How benchmarks and their devices are called.

import type { BenchView } from "../../api";
import { clock } from "../../lib/format";
import { day } from "../runs/when";

export const SIZES: Record<string, string> = { small: "Small", medium: "Medium", large: "Large" };

export const sizeOf = ({ size }: Pick<BenchView, "size">) => SIZES[size] ?? size;

/** When it ended: `today, 08:12`. */
export function moment(time: string, now = new Date()): string {
  return `${day(time, now)}, ${clock(time)}`;
}

/** The devices, without those that are named twice. */
export function devicesOf({ devices }: Pick<BenchView, "devices">): string {
  return [...new Set(devices.map(({ name }) => name))].join(", ");
}

/** What a menu calls it: `today, 08:12 · Medium · Apple M3 Max`. */
export function nameOf(bench: BenchView, now = new Date()): string {
  const parts = [moment(bench.time, now), sizeOf(bench), bench.devices[0]?.name ?? ""];
  if (bench.power) parts.push(bench.power);
  return parts.join(" · ");
}

/** What a file of it is called, without its ending: `bench-2026-11-21-apple-m3-max-medium`. */
export function fileName({ time, size, devices }: BenchView): string {
  const device = (devices[0]?.name ?? "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return ["bench", time.slice(0, 10), device.slice(0, 60), size].filter(Boolean).join("-");
}
