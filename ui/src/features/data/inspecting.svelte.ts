// One data set that is looked at: how it is to be read, and what it is then. A change is tried a moment later, and
// kept when the data can be read that way. Its tokens are counted once it could be read, which may take a while.

import { api, type CountProgressView, type CountView, type DataSetView, type InspectionView } from "../../api";
import type { Reading } from "./parts";

/** How long changes are waited for before the data is read, in milliseconds. */
const PAUSE = 250;
/** Reading that takes no longer is not spoken of. */
const SOON = 300;

export class Inspecting {
  request = $state.raw<Reading>({ format: null, columns: {}, encoding: null, rows: null, skipBadRows: false });
  /** Whose tokenizer counts; without one, that of a new model. */
  model = $state<string | null>(null);
  inspection = $state.raw<InspectionView>();
  /** The request that `inspection` answers. */
  read = $state.raw<Reading>();
  error = $state.raw<unknown>();
  /** Whether it is being read, and has been for longer than a moment. */
  busy = $state(false);
  slow = $state(false);
  /** Whether the request is the one that is kept. */
  kept = $state(true);
  /** Its tokens, once they are counted, and how far that is. */
  counted = $state.raw<CountView>();
  counting = $state.raw<CountProgressView>();
  uncounted = $state.raw<unknown>();

  readonly reads = $derived(this.inspection?.problem === null && this.inspection.content !== null);

  #set: DataSetView;
  #keep: (set: DataSetView) => void;
  #turn = 0;
  #count = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(set: DataSetView, keep: (set: DataSetView) => void) {
    this.#set = set;
    this.#keep = keep;
    this.request = set.request;
  }

  change(part: Partial<Reading>) {
    this.request = { ...this.request, ...part };
    this.kept = JSON.stringify(this.request) === JSON.stringify(this.#set.request);
    this.busy = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.look(), PAUSE);
  }

  /** Back to the request that is kept. */
  undo() {
    this.change(this.#set.request);
  }

  async look() {
    clearTimeout(this.#timer);
    const turn = ++this.#turn;
    const { request } = this;
    this.busy = true;
    const slow = setTimeout(() => (this.slow = turn === this.#turn), SOON);
    try {
      const inspection = await api.inspectData(this.#set.id, request);
      if (turn !== this.#turn) return;
      this.inspection = inspection;
      this.read = request;
      this.error = undefined;
      void this.count(this.model);
      if (this.reads && !this.kept) await this.#save();
    } catch (problem) {
      if (turn === this.#turn) this.error = problem;
    } finally {
      clearTimeout(slow);
      if (turn === this.#turn) this.busy = this.slow = false;
    }
  }

  /** Counts the tokens as a model would. */
  async count(model: string | null) {
    const mine = ++this.#count;
    this.model = model;
    this.counted = this.uncounted = this.counting = undefined;
    const rows = this.inspection?.content?.rows;
    if (!this.reads || !this.read || rows === undefined) return;
    this.counting = { done: 0, rows };
    const hear = (progress: CountProgressView) => {
      if (mine === this.#count && this.counting) this.counting = progress;
    };
    try {
      const counted = await api.countData(this.#set.id, this.read, model, hear);
      if (mine === this.#count) this.counted = counted ?? undefined;
    } catch (problem) {
      if (mine === this.#count) this.uncounted = problem;
    } finally {
      if (mine === this.#count) this.counting = undefined;
    }
  }

  /** Leaves the tokens uncounted. */
  stopCounting() {
    this.#count += 1;
    this.counting = undefined;
    void api.closeData().catch(() => undefined);
  }

  async #save() {
    const request = this.request;
    this.#set = await api.changeData(this.#set.id, request);
    this.kept = this.request === request;
    this.#keep(this.#set);
  }

  /** Hears no more answers, and lets go of what was read. */
  stop() {
    clearTimeout(this.#timer);
    this.#turn += 1;
    this.stopCounting();
  }
}
