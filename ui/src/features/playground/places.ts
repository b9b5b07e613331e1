// The pages that models are tried on.

import type { RunView } from "../../api";
import type { Route } from "../../routes.svelte";
import { KINDS } from "../kinds";

export interface Place {
  to: Route;
  text: string;
}

/** The page that is open, the first of all, which needs no run, and those for which a run has saved something. */
export function placesFor(page: Route["page"], runs: readonly RunView[]): Place[] {
  const uses = KINDS.flatMap((kind) => kind.uses).filter(({ playground }) => playground !== undefined);
  const isThere = (name: string) => runs.some(({ saved, uses }) => saved && uses.includes(name));
  return uses
    .filter(({ name, playground }, at) => at === 0 || playground?.page === page || isThere(name))
    .map(({ playground, short }) => ({ to: playground!, text: short }));
}
