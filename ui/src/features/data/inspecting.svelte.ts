// One data set that is looked at: how it is to be read, and what it is then. A change is tried a moment later, and
// kept when the data can be read that way.

import { api, type DataSetView, type InspectionView } from "../../api";
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
  error = $state.raw<unknown>();
  /** Whether it is being read, and has been for longer than a moment. */
  busy = $state(false);
  slow = $state(false);
  /** Whether the request is the one that is kept. */
  kept = $state(true);

  readonly reads = $derived(this.inspection?.problem === null && this.inspection.content !== null);

  #set: DataSetView;
  #keep: (set: DataSetView) => void;
  #turn = 0;
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

  count(model: string | null) {
    this.model = model;
    void this.look();
  }

  async look() {
    clearTimeout(this.#timer);
    const turn = ++this.#turn;
    this.busy = true;
    const slow = setTimeout(() => (this.slow = turn === this.#turn), SOON);
    try {
      const inspection = await api.inspectData(this.#set.id, this.request, this.model);
      if (turn !== this.#turn) return;
      this.inspection = inspection;
      this.error = undefined;
      if (this.reads && !this.kept) await this.#save();
    } catch (problem) {
      if (turn === this.#turn) this.error = problem;
    } finally {
      clearTimeout(slow);
      if (turn === this.#turn) this.busy = this.slow = false;
    }
  }

  async #save() {
    const request = this.request;
    this.#set = await api.changeData(this.#set.id, request);
    this.kept = this.request === request;
    this.#keep(this.#set);
  }

  /** Hears no more answers. */
  stop() {
    clearTimeout(this.#timer);
    this.#turn += 1;
  }
}
