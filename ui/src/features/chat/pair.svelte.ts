// The model that is used for chat, and beside it the one it came from.

import { api, type AnswerView, type ChatView, type MessageView, type SamplingView, type ScoredToken, type SteerView } from "../../api";
import { Probing } from "../probe/probing.svelte";
import { Steering } from "../probe/steering.svelte";
import { ask, close, open } from "./asked";
import { kept } from "./kept.svelte";
import { BASE, MAIN, seedOf, type Place } from "./turns";

/** What one of them is asked. */
export interface Request {
  place: Place;
  messages: MessageView[];
  /** Whether the model answers as it is, also while it is led: after the answer that is led, if that one was written. */
  isPlain?: boolean;
  /** Gets all that is written so far, and the tokens of it that have scores. */
  show: (text: string, tokens: ScoredToken[]) => void;
}

/** How it went: an end, or what was in the way of one. */
export interface Outcome {
  end?: AnswerView;
  problem?: unknown;
}

export class Pair {
  chat = $state.raw<ChatView>();
  /** Why it can't be used for chat. */
  gone = $state.raw<unknown>();
  base = $state.raw<ChatView>();
  baseGone = $state.raw<unknown>();
  /** Whether the second is wanted. */
  isBeside = $state(false);
  answering = $state(false);
  /** What was in the way of an answer. */
  problem = $state.raw<unknown>();
  /** The probes that score what the first one writes. */
  readonly probing = new Probing();
  /** What leads the first one. */
  readonly steering = new Steering();
  /** Whether what is being written was asked to end. */
  stopped = false;
  readonly sampling: SamplingView | undefined = $derived(this.chat && { ...this.chat.sampling, ...kept.sampling });

  async open(name: string, force = false) {
    this.gone = undefined;
    this.problem = undefined;
    this.chat = undefined;
    try {
      this.chat = await open(MAIN, name, force);
      await this.probing.again(MAIN);
      await this.steering.again(MAIN);
    } catch (problem) {
      this.gone = problem;
    }
  }

  /** Opens or closes the second. */
  async beside(isWanted: boolean) {
    const folder = this.chat?.base;
    this.isBeside = isWanted;
    this.problem = this.baseGone = undefined;
    if (!isWanted) {
      this.base = undefined;
      await close(BASE);
    } else if (folder) {
      try {
        const base = await open(BASE, folder);
        // It may have been thought better of meanwhile.
        if (this.isBeside) this.base = base;
      } catch (problem) {
        this.isBeside = false;
        this.baseGone = problem;
      }
    }
  }

  /** Leads the first one. Beside its answers stand its own then, and not those of the second. */
  async steer(by: SteerView, force = false) {
    if (this.isBeside) await this.beside(false);
    await this.steering.lead(MAIN, by, force);
  }

  close() {
    this.isBeside = false;
    this.stopped = true;
    void close(MAIN);
    void close(BASE);
  }

  /** Asks one or both at once. Without an answer of the first, the second's is not waited for. */
  async ask(requests: Request[], again: number): Promise<Outcome[]> {
    const { sampling } = this;
    if (!sampling) return [];
    const drawn = { ...sampling, seed: seedOf(sampling.seed, again) };
    this.answering = true;
    this.stopped = false;
    this.problem = undefined;
    const going: Promise<Outcome>[] = [];
    for (const request of requests) going.push(this.#ask(request, drawn, going[0]));
    const outcomes = await Promise.all(going);
    this.answering = false;
    return outcomes;
  }

  async #ask({ place, messages, isPlain = false, show }: Request, drawn: SamplingView, first?: Promise<Outcome>): Promise<Outcome> {
    if (isPlain && (!(await first)?.end || this.stopped)) return {};
    try {
      return { end: await ask(place, messages, drawn, isPlain, show) };
    } catch (problem) {
      if (place === MAIN && !isPlain) void this.stop();
      return { problem };
    }
  }

  async stop() {
    this.stopped = true;
    await Promise.all([MAIN, BASE].map((place) => api.stopAnswer(place).catch(() => undefined)));
  }
}
