// Which page is shown. A page is a noun, and may be about one thing.

import type { Filled } from "./api";

export type Route =
  | { page: "home" }
  | { page: "models" }
  | { page: "data"; id?: string }
  | { page: "train"; filled?: Filled }
  | { page: "runs" }
  | { page: "run"; id: string }
  | { page: "compare"; ids: string[] }
  | { page: "chat"; name?: string; title?: string; conversation?: string }
  | { page: "device" }
  | { page: "settings" };

/** `visit` grows with each change of page, so that going to a page again begins it anew. */
export const route = $state<{ now: Route; visit: number }>({ now: { page: "home" }, visit: 0 });

export function go(to: Route) {
  route.now = to;
  route.visit += 1;
}
