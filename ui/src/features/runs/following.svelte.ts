// A run as it proceeds, for a page that looks at it.

import { api, type EventsView, type RunNews, type RunView } from "../../api";
import { Columns } from "./columns";
import type { Shown } from "../kind";
import { latest } from "./exhibits";
import { toldBy, type Told } from "./series";

/** How long one frame may add what was told, in milliseconds. The rest waits for the next. */
const FRAME = 6;
/** Rows that are added before the clock is looked at. */
const ROWS = 500;
/**
 * The time between two pictures of a run that takes its time, in milliseconds. Where there is no GPU, drawing takes the
 * processor that the run learns on.
 */
const PACE = 250;
/** A message with more rows than this is history, or a run that is faster than an eye: it is drawn at once. */
const MANY_ROWS = 50;

export class Following {
  /** Grow in place; `tick` says that they have. As state they would be copied into proxies. */
  columns = new Columns(0);
  tick = $state(0);
  run = $state.raw<RunView>();
  error = $state.raw<unknown>();
  /** What the model showed of itself. */
  shown = $state.raw<Shown[]>([]);
  /** The oldest first. */
  sentences = $state.raw<EventsView["sentences"]>([]);
  /** Whether all that happened before was told. */
  isNow = $state(false);

  /** When something last happened in the run, when it was first looked at. */
  #changed = "";
  #messages: { news: RunNews; told: Told }[] = [];
  /** How many rows of the first message were added already. */
  #rows = 0;
  #frame = 0;
  #timer = 0;
  /** When something was last drawn. */
  #drawn = 0;
  #gone = false;
  /** The number by which the app knows this follower. */
  #follower: number | undefined;

  /** Starts to follow. Returns how to stop. */
  start(id: string): () => void {
    void this.#begin(id);
    return () => {
      this.#gone = true;
      this.#messages = [];
      clearTimeout(this.#timer);
      cancelAnimationFrame(this.#frame);
      this.#leave();
    };
  }

  #leave() {
    if (this.#follower !== undefined) void api.unfollowRun(this.#follower);
  }

  async #begin(id: string) {
    try {
      const run = await api.run(id);
      if (this.#gone) return;
      this.run = run;
      this.#changed = run.changed ?? "";
      this.isNow = run.changed === null;
      this.columns = new Columns(run.steps);
      this.#follower = await api.followRun(id, 0, (news) => this.#hear(news));
      if (this.#gone) this.#leave();
    } catch (problem) {
      this.error = problem;
    }
  }

  #hear(news: RunNews) {
    if (this.#gone) return;
    this.#messages.push({ news, told: toldBy(news.events) });
    // A page that is not shown draws no frames.
    if (document.hidden) this.#take();
    else if (news.events.steps.length > MANY_ROWS) this.#draw();
    else if (this.#timer === 0) this.#timer = window.setTimeout(this.#draw, this.#drawn + PACE - performance.now());
  }

  #draw = () => {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (this.#frame === 0) this.#frame = requestAnimationFrame(this.#take);
  };

  /** Adds what was told, as much as a frame has time for. */
  #take = () => {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#drawn = performance.now();
    const until = this.#drawn + FRAME;
    do {
      const message = this.#messages[0];
      if (!message) break;
      const { news, told } = message;
      const to = Math.min(this.#rows + ROWS, told.steps.length);
      this.columns.take(told, this.#rows, to);
      this.#rows = to;
      if (to === told.steps.length) {
        this.#tell(news, told);
        this.#messages.shift();
        this.#rows = 0;
      }
    } while (performance.now() < until);
    this.tick += 1;
    if (this.#messages.length > 0) this.#frame = requestAnimationFrame(this.#take);
  };

  #tell({ run, events }: RunNews, { shown }: Told) {
    if (shown.length > 0) this.shown = latest(this.shown, shown);
    if (events.sentences.length > 0) this.sentences = [...this.sentences, ...events.sentences];
    // While the past is told, a message has the run as it was then.
    if (!this.isNow && (run.changed ?? "") < this.#changed) return;
    this.isNow = true;
    this.run = run;
  }
}
