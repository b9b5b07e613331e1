// Shares of how many were right, as a person reads them, with what they may really be.

/** A share in percent, with a place after the point where that says something. */
export function percent(share: number): string {
  const value = 100 * share;
  // A hundred times 0.55 is a little more than 55.
  const isWhole = Math.abs(value - Math.round(value)) < 1e-9;
  return `${isWhole || value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** Where a share of `of` may really be, of 95 in 100 such samples: Wilson’s interval. */
export function interval(share: number, of: number): [number, number] {
  const z = 1.96;
  const middle = (share + (z * z) / (2 * of)) / (1 + (z * z) / of);
  const half = (z * Math.sqrt((share * (1 - share)) / of + (z * z) / (4 * of * of))) / (1 + (z * z) / of);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** The same in percent: `74.8–82.0`. */
export function intervalText(share: number, of: number): string {
  return interval(share, of)
    .map((end) => percent(end).replace(" %", ""))
    .join("–");
}

/** The measure with a name, if there is one. */
export const metricOf = <M extends { name: string }>(metrics: readonly M[], name: string): M | undefined => metrics.find((metric) => metric.name === name);
