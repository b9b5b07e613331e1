// The rows of a data set, a page at a time, with words that they are searched for.

import { api, type DataRequest, type DataRowsView, type DataRowView } from "../../api";
import { latest, type Outcome } from "../../lib/latest";

/** How many rows a page has. */
export const PAGE = 50;

interface Question {
  request: DataRequest;
  words: string;
  from: number;
}

export class Rows {
  words = $state("");
  from = $state(0);
  answer = $state.raw<DataRowsView>();
  error = $state.raw<unknown>();

  #id: string;
  #request: DataRequest | undefined;
  #asking = latest(
    ({ request, words, from }: Question) => api.dataRows(this.#id, request, words, from, PAGE),
    (_, outcome: Outcome<DataRowsView>) => {
      this.error = "error" in outcome ? outcome.error : undefined;
      if ("answer" in outcome) this.answer = outcome.answer;
    },
  );

  constructor(id: string) {
    this.#id = id;
  }

  /** Shows the rows as they are read now; what was counted meanwhile is part of them. */
  show(request: DataRequest) {
    if (JSON.stringify(request) !== JSON.stringify(this.#request)) this.from = 0;
    this.#request = request;
    this.#ask(false);
  }

  search(words: string) {
    this.words = words;
    this.from = 0;
    this.#ask(true);
  }

  turn(pages: number) {
    this.from = Math.max(0, this.from + pages * PAGE);
    this.#ask(false);
  }

  /** One row with all that is said in it. */
  async whole(at: number): Promise<DataRowView | undefined> {
    if (!this.#request) return undefined;
    const { rows } = await api.dataRows(this.#id, this.#request, this.words, this.from + at, 1);
    return rows[0];
  }

  #ask(later: boolean) {
    if (!this.#request) return;
    const question = { request: this.#request, words: this.words, from: this.from };
    if (later) this.#asking.soon(question);
    else void this.#asking.now(question);
  }
}
