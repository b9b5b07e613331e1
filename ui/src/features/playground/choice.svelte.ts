// The run that a page of the Playground tries, among those that it can.

import { api, type RunView } from "../../api";
import { go, settle } from "../../routes.svelte";

export class RunChoice {
  /** All runs, once they are known. */
  all = $state.raw<RunView[]>();
  unlisted = $state.raw<unknown>();
  /** The id of the run; empty where there is none. */
  chosen = $state("");

  readonly runs = $derived.by(() => this.all?.filter(({ saved, uses }) => saved && uses.includes(this.page)));
  readonly run = $derived.by(() => this.runs?.find(({ id }) => id === this.chosen));

  /** A page is called as the use of the runs that it tries. */
  constructor(
    readonly page: "solve" | "predict",
    chosen: string | undefined,
  ) {
    this.chosen = chosen ?? "";
  }

  /** Lists the runs, and chooses the first one where none is. */
  async list() {
    try {
      this.all = await api.runs();
      const first = this.runs?.[0];
      if (this.chosen === "" && first) {
        this.chosen = first.id;
        settle({ page: this.page, name: first.id, title: first.name });
      }
    } catch (problem) {
      this.unlisted = problem;
    }
  }

  /** Goes to the page of another run. */
  choose(id: string) {
    const found = this.runs?.find((each) => each.id === id);
    if (found && id !== this.chosen) go({ page: this.page, name: id, title: found.name });
  }
}
