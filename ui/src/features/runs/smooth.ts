// A line through the middle of noise.

import { Column } from "./column";

/** Holds the line level as long as few values are known. */
const LEVEL = 10;
/** A value that is older than so many reaches counts for nothing. */
const FORGOTTEN = 40;

/**
 * The end of a straight line through the latest values, each counting less the longer ago it was. A mean of the same values
 * would lag behind where they fall. The app tells the smoothed loss of a run by the same rule.
 */
export class Smooth extends Column {
  readonly #reach: number;
  /** What was added, without the gaps. */
  readonly #raw: number[] = [];
  /** Sums of the weights, of those times age once and twice, of the weighted values, and of those times age. */
  #sums: [number, number, number, number, number] = [0, 0, 0, 0, 0];

  /** `reach` is after how many steps a value counts for about a third. */
  constructor(reach: number) {
    super();
    this.#reach = Math.max(reach, 1);
  }

  /** Adds what is next of the raw values. A gap there is one here. */
  add(raw: number) {
    if (raw !== raw) return this.push(NaN);
    this.#raw.push(raw);
    this.#sum(raw);
    const [w0, w1, w2, v0, v1] = this.#sums;
    this.push((v0 * (w2 + LEVEL) - v1 * w1) / (w0 * (w2 + LEVEL) - w1 * w1));
  }

  override cut(length: number) {
    if (length >= this.values.length) return;
    for (const value of this.values.slice(length)) if (value === value) this.#raw.pop();
    super.cut(length);
    this.#sums = [0, 0, 0, 0, 0];
    for (const raw of this.#raw.slice(-Math.ceil(FORGOTTEN * this.#reach))) this.#sum(raw);
  }

  #sum(raw: number) {
    const past = Math.exp(-1 / this.#reach);
    const [w0, w1, w2, v0, v1] = this.#sums;
    this.#sums = [past * w0 + 1, past * (w1 + w0), past * (w2 + 2 * w1 + w0), past * v0 + raw, past * (v1 + v0)];
  }
}
