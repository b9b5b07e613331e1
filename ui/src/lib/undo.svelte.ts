// What was just done, and can be taken back for a moment. It is hidden at once, and done for good when the moment is over.

import { route } from "../routes.svelte";

/** How long it can be taken back, in milliseconds. */
export const MOMENT = 8000;

interface Offer {
  /** What was done: `Deleted “Greetings”.` */
  text: string;
  /** Puts it back. */
  undo: () => unknown;
  /** Does it for good. */
  commit: () => unknown;
}

class Undoing {
  offer = $state.raw<Offer>();
  /** Why the last one could not be done; it was put back. */
  problem = $state.raw<unknown>();
  #visit = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Offers to take something back, in place of what was offered before. */
  begin(offer: Offer) {
    void this.settle();
    this.offer = offer;
    this.#visit = route.visit;
    this.wait();
  }

  /** The moment begins anew. */
  wait() {
    this.hold();
    this.#timer = setTimeout(() => void this.settle(), MOMENT);
  }

  /** Whoever is at the button has all the time. */
  hold() {
    clearTimeout(this.#timer);
  }

  undo() {
    void this.#take()?.undo();
  }

  /** Does for good what is still open. */
  async settle() {
    const offer = this.#take();
    try {
      await offer?.commit();
    } catch (problem) {
      void offer?.undo();
      this.problem = problem;
    }
  }

  /** Who leaves the page means it. Who goes to another page and offers it there has not left that one. */
  leave(visit: number) {
    if (visit !== this.#visit) void this.settle();
  }

  #take(): Offer | undefined {
    const { offer } = this;
    this.hold();
    this.offer = this.problem = undefined;
    return offer;
  }
}

export const undoing = new Undoing();

/** Whoever calls it has hidden what is gone. `undo` puts it back, `commit` does it for good when the moment is over or the page is left. */
export function undoable(text: string, undo: () => unknown, commit: () => unknown) {
  undoing.begin({ text, undo, commit });
}
