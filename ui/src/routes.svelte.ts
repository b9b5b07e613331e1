// Which page is shown. A page is a noun, and may be about one thing.

import type { Filled, RepositoryKind } from "./api";

/** Where models and data are looked for: on this machine, or on the Hub. */
export type Place = "here" | "hub";

/** What of the benchmarks is looked at. */
export type BenchPart = "result" | "history" | "published";

export type Route =
  | { page: "home" }
  | { page: "models"; tab?: Place }
  | { page: "data"; id?: string; tab?: Place }
  | { page: "repository"; kind: RepositoryKind; id: string; revision?: string }
  | { page: "downloads" }
  | { page: "train"; filled?: Filled }
  | { page: "runs" }
  | { page: "run"; id: string }
  | { page: "compare"; ids: string[] }
  | { page: "chat"; name?: string; title?: string; conversation?: string }
  | { page: "device" }
  | { page: "bench"; id?: string; against?: string; part?: BenchPart }
  | { page: "settings" };

/** `visit` grows with each change of page, so that going to a page again begins it anew. */
export const route = $state<{ now: Route; visit: number }>({ now: { page: "home" }, visit: 0 });

export function go(to: Route) {
  route.now = to;
  route.visit += 1;
}
