// Which page is shown. A page is a noun, and may be about one thing.

export type Route =
  | { page: "home" }
  | { page: "run"; id: string }
  | { page: "chat"; name: string; title: string }
  | { page: "device" };

export const route = $state<{ now: Route }>({ now: { page: "home" } });

export function go(to: Route) {
  route.now = to;
}
