// What stays as it was left while the app is open, and what stays for good.

import { api, type Conversation, type SamplingView, type Turn } from "../../api";

/** As it was left on this page. */
export const kept = $state<{
  /** What differs from the usual way to write answers. */
  sampling: Partial<SamplingView>;
  /** Whether the conversations are shown beside the talk. */
  list: boolean;
  /** What was written and not sent, by the name of the model. */
  drafts: Record<string, string>;
}>({ sampling: {}, list: false, drafts: {} });

/** A conversation that is kept after each answer. */
export class Keeper {
  /** The file it is in. Without an id it has none yet. */
  file = $state.raw<Pick<Conversation, "id" | "title">>({ id: "", title: "" });
  system = $state("");
  problem = $state.raw<unknown>();
  /** Grows with each time it was kept. */
  times = $state(0);
  #last: Promise<void> = Promise.resolve();

  constructor(
    readonly model: () => string,
    readonly modelTitle: () => string,
  ) {}

  begin(file: Pick<Conversation, "id" | "title" | "system">) {
    this.file = { id: file.id, title: file.title };
    this.system = file.system;
    this.problem = undefined;
  }

  /** Keeps it as it is now. One waits for the other, so that only the first makes a file. */
  keep(turns: Turn[]): Promise<void> {
    if (turns.length === 0) return this.#last;
    const about = { model: this.model(), modelTitle: this.modelTitle(), system: this.system, turns };
    let file = this.file;
    this.#last = this.#last.then(async () => {
      // The first of those before may have given it an id.
      if (file.id === "") file = this.#named.get(file) ?? file;
      try {
        const { id, title } = await api.saveConversation({ ...about, id: file.id, title: file.title, changed: "" });
        const named = { id, title };
        this.#named.set(file, named);
        if (this.file === file || this.file.id === id) this.file = named;
        this.problem = undefined;
        this.times += 1;
      } catch (problem) {
        this.problem = problem;
      }
    });
    return this.#last;
  }

  readonly #named = new WeakMap<object, Pick<Conversation, "id" | "title">>();
}
