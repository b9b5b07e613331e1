// What is looked for on the Hub, and what was found. It outlives the page, which is left for a repository's and come
// back to.

import { api, type FoundListView, type RepositoryKind, type SearchView } from "../../api";
import { latest, type Outcome } from "../../lib/latest";
import { TASKS } from "./words";

/** How many more are shown at a time. */
export const STEP = 30;

/** What a person can ask for. */
export type Wish = Pick<SearchView, "words" | "author" | "task" | "sort">;

export class HubSearch {
  readonly kind: RepositoryKind;
  wish = $state.raw<Wish>({ words: "", author: "", task: "", sort: "downloads" });
  limit = $state(STEP);
  found = $state.raw<FoundListView>();
  error = $state.raw<unknown>();
  /** Whether an answer is waited for. */
  busy = $state(false);
  /** The repository that the list was left for, and how far it was scrolled then. */
  left: { id: string; scroll: number } | undefined;

  /** Whether there is something to take back. */
  readonly isNarrow = $derived([this.wish.words, this.wish.author, this.wish.task].some((words) => words.trim() !== ""));

  /** The wish that `found` answers. */
  #answered = "";
  #questions = latest(
    (question: SearchView) => api.hubSearch(question),
    (question, outcome) => this.#hear(question, outcome),
  );

  constructor(kind: RepositoryKind) {
    this.kind = kind;
    this.wish = { ...this.wish, task: TASKS[kind][0]?.value ?? "" };
  }

  /** The list is looked at, or asked for again. What was found before is shown until there is an answer. */
  enter() {
    this.#ask();
  }

  /** Takes what is being typed: asked a moment later. */
  type(part: Partial<Wish>) {
    this.#want(part);
    this.busy = true;
    this.#questions.soon(this.#question());
  }

  choose(part: Partial<Wish>) {
    this.#want(part);
    this.#ask();
  }

  /** Looks for everything. */
  clear() {
    this.choose({ words: "", author: "", task: "" });
  }

  more() {
    this.limit += STEP;
    this.#ask();
  }

  #want(part: Partial<Wish>) {
    this.wish = { ...this.wish, ...part };
    this.limit = STEP;
    this.left = undefined;
  }

  #ask() {
    this.busy = true;
    void this.#questions.now(this.#question());
  }

  #question(): SearchView {
    const { words, author, task, sort } = this.wish;
    return { kind: this.kind, words: words.trim(), author: author.trim(), task, sort, limit: this.limit };
  }

  #hear({ limit: _, ...wish }: SearchView, outcome: Outcome<FoundListView>) {
    this.busy = false;
    const asked = JSON.stringify(wish);
    if ("answer" in outcome) {
      this.found = outcome.answer;
      this.error = undefined;
      this.#answered = asked;
    } else {
      this.error = outcome.error;
      // What was found for other words is no answer to these.
      if (asked !== this.#answered) this.found = undefined;
    }
  }
}

/** Nothing is asked before the first of them is looked at. */
export const searches: Record<RepositoryKind, HubSearch> = { model: new HubSearch("model"), data: new HubSearch("data") };
