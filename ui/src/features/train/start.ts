// Starting what the form asks for.

import { stay } from "../../routes.svelte";
import { draft } from "./draft.svelte";

/** Starts the run, and goes to it unless the user has left the page. What does not fit starts only when forced. */
export async function startRun(force = false) {
  const arrive = stay();
  const id = await draft.start(force);
  if (id) arrive({ page: "run", id });
}
