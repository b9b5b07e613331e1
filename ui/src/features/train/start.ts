// Starting what the form asks for.

import { stay } from "../../routes.svelte";
import { draft } from "./draft.svelte";

/** Why no run can be started now; empty where one can. */
export function obstacle(): string {
  if (draft.needs.length > 0) return `Choose ${draft.needs.map(({ name }) => name).join(" and ")} first`;
  if (draft.found.length > 0) return "Fix one setting to start";
  if (draft.pending) return "The plan is being worked out";
  return draft.ready ? "" : "There is no plan yet";
}

/** Starts the run, and goes to it unless the user has left the page. What does not fit starts only when forced. */
export async function startRun(force = false) {
  const arrive = stay();
  const id = await draft.start(force);
  if (id) arrive({ page: "run", id });
}
