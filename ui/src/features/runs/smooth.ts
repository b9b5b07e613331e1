// A line through the middle of noise.

import { Column } from "./column";

/** A mean that forgets: each step counts less the longer ago it was. The first values don't count more than they should. */
export class Smooth extends Column {
  readonly #past: number;
  #sum = 0;
  #weight = 0;

  /** `reach` is after how many steps a value counts for about a third. */
  constructor(reach: number) {
    super();
    this.#past = Math.exp(-1 / Math.max(reach, 1));
  }

  /** Adds what is next of the raw values. A gap there is one here. */
  add(raw: number) {
    if (raw === raw) {
      this.#sum = this.#past * this.#sum + (1 - this.#past) * raw;
      this.#weight = this.#past * this.#weight + (1 - this.#past);
      this.push(this.#sum / this.#weight);
    } else this.push(NaN);
  }

  override cut(length: number) {
    if (length >= this.values.length) return;
    super.cut(length);
    // All that was known after `length` values follows from how many of them there were, and the last mean.
    let known = 0;
    for (const value of this.values) if (value === value) known += 1;
    this.#weight = 1 - this.#past ** known;
    this.#sum = (this.last() ?? 0) * this.#weight;
  }
}
