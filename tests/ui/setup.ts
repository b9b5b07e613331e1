// What every test of the pages' parts begins with.

import { configure } from "@testing-library/svelte";
import { afterEach, vi } from "vitest";

// How long what has to come may take, in milliseconds: also on a slow machine, or one that compiles meanwhile.
configure({ asyncUtilTimeout: 20_000 });

// Without a screen there is no top layer.
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};

afterEach(() => {
  vi.restoreAllMocks();
});
