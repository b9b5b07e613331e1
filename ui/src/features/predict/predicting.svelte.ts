// A model that says what pictures show, and what it said of those that were given to it.

import { api, type ClassifierView, type PredictionView } from "../../api";
import { base64Of } from "../../components/pixels";

/** A picture that was asked about. */
export interface Asked extends PredictionView {
  /** Its number on the page. */
  id: number;
}

export class Predicting {
  classifier = $state.raw<ClassifierView>();
  opening = $state(false);
  /** Why the model could not be opened. */
  unopened = $state.raw<unknown>();
  /** What was asked about, in order. */
  all = $state.raw<Asked[]>([]);
  /** The one that is looked at. */
  chosen = $state<number>();
  /** How many pictures were found in what was given, while they are looked at, and how many of them came. */
  found = $state<number>();
  came = $state(0);
  /** How many were left out of so many, since a page does not hold more. */
  leftOut = $state<number>();
  error = $state.raw<unknown>();

  readonly busy = $derived(this.found !== undefined);
  readonly shown = $derived(this.all.find(({ id }) => id === this.chosen) ?? this.all[0]);
  readonly unread = $derived(this.all.filter(({ problem }) => problem !== null).length);

  #left = false;
  #turn = 0;
  #ids = 0;

  async open(name: string) {
    this.opening = true;
    this.unopened = undefined;
    try {
      const classifier = await api.openClassifier(name);
      if (!this.#left) this.classifier = classifier;
    } catch (problem) {
      this.unopened = problem;
    } finally {
      this.opening = false;
    }
  }

  close() {
    this.#left = true;
    void api.closeClassifier().catch(() => undefined);
  }

  /** Asks about the pictures of files and folders. */
  async files(paths: string[]) {
    if (!this.classifier || paths.length === 0) return;
    await this.#ask(async (turn) => {
      let found = paths.length;
      const asked = await api.predictFiles(
        paths,
        (count) => {
          found = count;
          if (turn === this.#turn) this.found = count;
        },
        (prediction) => this.#take(turn, prediction),
      );
      if (turn === this.#turn && !this.#stopped && asked < found) this.leftOut = found - asked;
    });
  }

  /** Asks about a picture that was pasted. */
  async pasted(file: Blob, name: string) {
    if (!this.classifier) return;
    await this.#ask(async (turn) => {
      const bytes = new Uint8Array(await file.arrayBuffer());
      this.#take(turn, await api.predictPasted(name, base64Of(bytes)));
    });
  }

  /** Leaves what is not looked at yet. */
  stop() {
    this.#stopped = true;
    void api.stopPredicting().catch(() => undefined);
  }

  clear() {
    this.#turn += 1;
    if (this.busy) this.stop();
    this.all = [];
    this.chosen = this.found = this.leftOut = undefined;
    this.error = undefined;
  }

  #stopped = false;

  async #ask(act: (turn: number) => Promise<void>) {
    if (this.busy) return;
    const turn = ++this.#turn;
    [this.found, this.came, this.leftOut, this.error, this.#stopped] = [1, 0, undefined, undefined, false];
    // What comes next is looked at.
    this.chosen = undefined;
    try {
      await act(turn);
    } catch (problem) {
      if (turn === this.#turn) this.error = problem;
    } finally {
      if (turn === this.#turn) this.found = undefined;
    }
  }

  #take(turn: number, prediction: PredictionView) {
    if (turn !== this.#turn || this.#left) return;
    const id = ++this.#ids;
    this.all = [...this.all, { ...prediction, id }];
    this.came += 1;
    this.chosen ??= id;
  }
}

/** How many pictures are of each class by what the model says, the most first. */
export function tallied(all: readonly Asked[]): { name: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { said } of all) {
    const first = said?.ranked[0]?.class;
    if (first !== undefined) counts.set(first, (counts.get(first) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => ({ name, count })).sort((one, other) => other.count - one.count);
}
