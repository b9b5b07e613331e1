// A button that says for a moment that it has copied.

import { copy } from "./clipboard";

/** How long it says so, in milliseconds. */
const SAID = 1500;

export class Copying {
  done = $state(false);

  async take(text: string) {
    await copy(text);
    this.done = true;
    setTimeout(() => (this.done = false), SAID);
  }
}
