// Numbers as a person reads them, each with its unit.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(number: number): string {
  return whole.format(number);
}

/** A number and what it counts: 1 row, 2,000 rows. Other plurals are given. */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function loss(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 0.01 ? value.toFixed(3) : value.toPrecision(2);
}

/** Bytes in powers of ten, as file managers and makers of memory count them. Gigabytes have a decimal always: what is needed is compared with what is free. */
export function bytes(value: number): string {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    const decimals = unit === "GB" || (unit !== "B" && value < 9.95) ? 1 : 0;
    if (value < 999.5) return `${value.toFixed(decimals)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
}

export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** The time of day of a moment in UTC. */
export function clock(time: string): string {
  return new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** The same to the second. */
export function second(time: string): string {
  return new Date(time).toLocaleTimeString("en-GB");
}

/** A moment as a list shows it: the time of today, yesterday, 12 Nov, 12 Nov 2025. */
export function day(time: string | null, now = new Date()): string {
  if (time === null) return "–";
  const then = new Date(time);
  return [clock(time), "yesterday"][daysAgo(then, now)] ?? date(then, now);
}

/** How many days ago: by midnights, as people count; a change of the clock makes a day of 23 or 25 hours. */
export function daysAgo(then: Date, now: Date): number {
  const midnight = (of: Date) => new Date(of.getFullYear(), of.getMonth(), of.getDate()).getTime();
  return Math.round((midnight(now) - midnight(then)) / 86_400_000);
}

/** 12 Nov, or with the year where it is another: 12 Nov 2025. */
export function date(then: Date, now: Date): string {
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** The colour of a status: each has its own, and what waits has none. */
export type Tone = "plain" | "running" | "finished" | "stopped" | "failed";

const TONES: Record<string, Tone> = { running: "running", finished: "finished", paused: "stopped", stopped: "stopped", interrupted: "stopped", failed: "failed" };

export function toneOf(status: string): Tone {
  return TONES[status] ?? "plain";
}

/** A large number in three figures, as models are spoken of: 135 M, 1.7 B. */
export function short(number: number): string {
  let [value, unit] = [number, ""];
  for (const larger of [" k", " M", " B", " T"]) {
    if (value < 999.5) break;
    [value, unit] = [value / 1000, larger];
  }
  return `${unit === "" || value >= 9.95 ? value.toFixed(0) : value.toFixed(1)}${unit}`;
}
