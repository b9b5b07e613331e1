// The direction along which a model is led in the Playground, and what that costs.

import { api, type LeadView, type SteerView } from "../../api";

/** How far it is led at first, and at most, in multiples of how long states usually are. */
export const FIRST = 0.1;
export const MAX = 0.5;

/** Where a model is hardly itself any more, and where it is a little less so: how many times its perplexity grows. */
const MUCH = 2;
const SOME = 1.1;

export class Steering {
  /** Along which probe, and how far. */
  by = $state.raw<SteerView>();
  /** What came of it. */
  led = $state.raw<LeadView>();
  busy = $state(false);
  problem = $state.raw<unknown>();
  /** What was refused and can be forced. */
  refused = $state.raw<SteerView>();
  readonly isOn = $derived(this.led !== undefined);
  #last: Promise<void> = Promise.resolve();
  #asked = 0;
  #force = false;

  /** Leads the model at a place, or without a probe not any more; with `force` also along a probe of another model. */
  lead(place: number, by?: SteerView, force = this.#force): Promise<void> {
    const asked = (this.#asked += 1);
    this.busy = true;
    this.problem = this.refused = undefined;
    // One after the other, and of those that wait only the last.
    this.#last = this.#last.then(async () => {
      if (asked !== this.#asked) return;
      try {
        const led = await api.steerModel(place, by ? [by] : [], force);
        Object.assign(this, { by, led: by ? led : undefined });
        this.#force = by !== undefined && force;
      } catch (problem) {
        // The model is led by nothing after a refusal.
        Object.assign(this, { by: undefined, led: undefined, problem, refused: by });
      } finally {
        if (asked === this.#asked) this.busy = false;
      }
    });
    return this.#last;
  }

  /** A model was opened anew, and nothing leads it. */
  async again(place: number) {
    const { by } = this;
    Object.assign(this, { by: undefined, led: undefined, problem: undefined, refused: undefined });
    if (by) await this.lead(place, by);
  }
}

/** What it costs, in words, and how much that is. */
export function costOf({ perplexity }: LeadView): { text: string; tone: "quiet" | "warn" } | undefined {
  if (!perplexity) return undefined;
  const [plain, steered] = perplexity;
  if (steered === null) return { text: "The model computes no numbers any more. Steer less.", tone: "warn" };
  const text = `Perplexity of a plain text ${plain.toFixed(1)} → ${steered.toFixed(1)}`;
  const times = steered / plain;
  if (times >= MUCH) return { text: `${text}: the model is hardly itself`, tone: "warn" };
  return { text: times >= SOME ? `${text}: less would leave it more itself` : text, tone: "quiet" };
}
