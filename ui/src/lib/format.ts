// Numbers as a person reads them, each with its unit.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(number: number): string {
  return whole.format(number);
}

export function loss(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 0.01 ? value.toFixed(3) : value.toPrecision(2);
}

/** Bytes in powers of ten, as file managers and makers of memory count them. */
export function bytes(value: number): string {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 999.5) return `${unit === "B" || value >= 9.95 ? value.toFixed(0) : value.toFixed(1)} ${unit}`;
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
