// A column of numbers that grows, and is drawn at a cost that does not grow with it.
//
// Beside the values it keeps, for blocks of 8, 16, 32 … values, where the lowest and the highest of the block stand. A
// chart asks for as many blocks as it has pixels; which of a block's other values were there can't be seen anyway.

/** The finest blocks hold 2 to this many values. */
const FINEST = 3;
/** Blocks of so many sizes: the largest hold 4 million values. */
const SIZES = 20;

interface Blocks {
  /** Where the lowest and the highest value of each block stand. */
  lowest: number[];
  highest: number[];
}

/** Values that are not known are NaN: gaps in a line. */
export class Column {
  readonly values: number[] = [];
  readonly #blocks: Blocks[] = Array.from({ length: SIZES }, () => ({ lowest: [], highest: [] }));

  push(value: number) {
    const at = this.values.length;
    this.values.push(value);
    for (let size = 0; size < SIZES; size += 1) {
      // What changes nothing in a block changes nothing in the larger ones around it.
      if (!this.#note(size, at >> (FINEST + size), at, at)) return;
    }
  }

  /** Forgets all values from place `length` on. */
  cut(length: number) {
    if (length >= this.values.length) return;
    this.values.length = length;
    for (let size = 0; size < SIZES; size += 1) {
      const { lowest, highest } = this.#blocks[size]!;
      const span = 2 ** (FINEST + size);
      const whole = Math.floor(length / span);
      lowest.length = highest.length = whole;
      if (whole * span === length) continue;
      if (size === 0) {
        for (let at = whole * span; at < length; at += 1) this.#note(0, whole, at, at);
      } else {
        const finer = this.#blocks[size - 1]!;
        for (let half = 2 * whole; half < finer.lowest.length; half += 1) this.#note(size, whole, finer.lowest[half]!, finer.highest[half]!);
      }
    }
  }

  /**
   * The places of the values that show from `first` up to and without `end` with about `most` pixels: all of them, or the
   * lowest and the highest of each block, in order. Blocks at the ends may reach beyond.
   */
  pick(first: number, end: number, most: number): number[] {
    const picked: number[] = [];
    if (end - first <= 2 * most) {
      for (let at = first; at < end; at += 1) picked.push(at);
      return picked;
    }
    let size = 0;
    while (size < SIZES - 1 && (end - first) / 2 ** (FINEST + size) > most) size += 1;
    const { lowest, highest } = this.#blocks[size]!;
    const last = (end - 1) >> (FINEST + size);
    for (let block = first >> (FINEST + size); block <= last; block += 1) {
      const low = lowest[block]!;
      const high = highest[block]!;
      picked.push(Math.min(low, high));
      if (low !== high) picked.push(Math.max(low, high));
    }
    return picked;
  }

  /** The last value that is known among the first `length`. */
  last(length = this.values.length): number | undefined {
    for (let at = length - 1; at >= 0; at -= 1) {
      const value = this.values[at]!;
      if (value === value) return value;
    }
    return undefined;
  }

  /** Has a block know of a low and a high value. Returns whether it is new or changed. */
  #note(size: number, block: number, low: number, high: number): boolean {
    const { lowest, highest } = this.#blocks[size]!;
    if (block >= lowest.length) {
      lowest.push(low);
      highest.push(high);
      return true;
    }
    const { values } = this;
    const known = lowest[block]!;
    const unknown = values[known] !== values[known];
    let changed = false;
    // No comparison with NaN is true: a gap never takes the place of a value.
    if (values[low]! < values[known]! || (unknown && values[low] === values[low])) {
      lowest[block] = low;
      changed = true;
    }
    if (values[high]! > values[highest[block]!]! || (unknown && values[high] === values[high])) {
      highest[block] = high;
      changed = true;
    }
    return changed;
  }
}
