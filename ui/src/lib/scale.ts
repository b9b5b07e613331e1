// Where an axis begins and ends, and where its lines stand.

/** A round step that covers `span` in at most `most` steps: 1, 2, 2.5 or 5 times a power of ten. */
export function roundStep(span: number, most: number): number {
  if (!(span > 0)) return 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 2.5, 5].find((each) => each * power >= rough * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/**
 * An axis that shows everything from `low` to `high`, with a little air. Its ends are rounded, so that an axis that
 * follows growing data moves seldom and not with each value.
 */
export function roundRange(low: number, high: number, fromZero = false): [number, number] {
  if (!(low <= high)) return [0, 1];
  if (fromZero) low = Math.min(low, 0);
  if (low === high) {
    const air = Math.abs(low) * 0.1 || 1;
    return [fromZero && low === 0 ? 0 : low - air, high + air];
  }
  const air = (high - low) * 0.04;
  const grain = roundStep(high - low, 5) / 5;
  const first = fromZero && low === 0 ? 0 : Math.floor((low - air) / grain) * grain;
  return [first, Math.ceil((high + air) / grain) * grain];
}

/** The same for an axis where each step multiplies. Both ends are above zero. */
export function roundLogRange(low: number, high: number): [number, number] {
  if (!(low > 0 && low <= high)) return [0.1, 1];
  const grain = 20;
  return [10 ** ((Math.floor(Math.log10(low) * grain) - 0.5) / grain), 10 ** ((Math.ceil(Math.log10(high) * grain) + 0.5) / grain)];
}

/** The round values from `low` to `high`, at most about `most` of them. */
export function ticks(low: number, high: number, most: number, whole = false): number[] {
  const step = whole ? Math.max(1, Math.ceil(roundStep(high - low, most))) : roundStep(high - low, most);
  const found: number[] = [];
  // Multiplied rather than added up, so that 0.3 is not 0.30000000000000004.
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** The same for an axis where each step multiplies. */
export function logTicks(low: number, high: number, most: number): number[] {
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(high));
  for (const factors of [[1, 2, 5], [1]]) {
    const found: number[] = [];
    for (let power = from; power <= to; power += 1) {
      for (const factor of factors) found.push(Number((factor * 10 ** power).toPrecision(12)));
    }
    const seen = found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
    if (factors.length === 3 && seen.length < 3) return ticks(low, high, most);
    if (seen.length <= most || factors.length === 1) return seen.filter((_, at) => at % Math.ceil(seen.length / most) === 0);
  }
  return [];
}

/** How many decimals tell these values apart. */
export function decimals(values: number[]): number {
  const [first = 0, second = first] = values;
  const step = Math.abs(second - first);
  if (step === 0) return 0;
  for (let places = 0; places < 8; places += 1) {
    if (Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) < 1e-6) return places;
  }
  return 8;
}
