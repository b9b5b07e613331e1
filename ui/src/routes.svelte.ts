// Which page is shown, and which were shown before. A page is a noun, and may be about one thing.

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
  | { page: "activity" }
  | { page: "train"; filled?: Filled }
  | { page: "runs" }
  | { page: "run"; id: string }
  | { page: "compare"; ids: string[] }
  | { page: "chat"; name?: string; title?: string; conversation?: string }
  | { page: "serve"; name?: string }
  | { page: "solve"; name?: string; title?: string }
  | { page: "predict"; name?: string; title?: string }
  | { page: "probes"; folder?: string; states?: string }
  | { page: "device" }
  | { page: "bench"; id?: string; against?: string; part?: BenchPart }
  | { page: "settings" };

/** How many pages Back can reach. */
const MAX = 100;

/** `visit` grows with each change of page, so that going to a page again begins it anew. */
export const route = $state<{ now: Route; visit: number }>({ now: { page: "home" }, visit: 0 });

/** The pages before this one, and those that Back was pressed on, each the nearest last. */
export const trail = $state<{ back: Route[]; forward: Route[] }>({ back: [], forward: [] });

export function go(to: Route) {
  trail.back = [...trail.back, route.now].slice(-MAX);
  trail.forward = [];
  show(to);
}

export function goBack() {
  const to = trail.back.pop();
  if (!to) return;
  trail.forward.push(route.now);
  show(to);
}

export function goForward() {
  const to = trail.forward.pop();
  if (!to) return;
  trail.back.push(route.now);
  show(to);
}

/** What the page that is shown turned out to be about, to be found again by Back. Nothing begins anew. */
export function settle(to: Route) {
  route.now = to;
}

function show(to: Route) {
  route.now = to;
  route.visit += 1;
}

/** Takes note of the page that is shown now. What it returns goes to another only if the user hasn't left it meanwhile. */
export function stay(): (to: Route) => void {
  const { visit } = route;
  return (to) => {
    if (route.visit === visit) go(to);
  };
}
