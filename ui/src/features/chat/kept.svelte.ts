// What stays as it was left while the app is open, and what stays for good.

import { api, type Conversation, type ConversationView, type SamplingView, type Turn } from "../../api";

/** As it was left on this page. */
export const kept = $state<{
  /** What was used for chat last, and in which conversation. */
  last?: { name: string; title?: string; conversation?: string };
  /** What differs from a model’s own way to write answers. */
  sampling: Partial<SamplingView>;
  /** Whether the conversations are shown where there is no room for them beside the talk. */
  list: boolean;
  /** The conversations as last found, and the ids of those that are deleted and can still be put back. */
  found?: ConversationView[];
  gone: string[];
  /** What was written and not sent, by the name of the model. */
  drafts: Record<string, string>;
}>({ sampling: {}, list: false, gone: [], drafts: {} });

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
