// The pages by their names. The first is there at once; the others are read when there is time, or when one is gone to.

import type { Component } from "svelte";
import Home from "./features/home/Home.svelte";
import type { Route } from "./routes.svelte";

type Name = Route["page"];
/** What is known of a page here: that it takes what its route says. */
type Page = Component<Record<string, unknown>>;

/** Those that were read. */
export const pages = $state<Partial<Record<Name, Page>>>({ home: Home as unknown as Page });

/** Reads the others. */
export async function read() {
  const others: Record<Exclude<Name, "home">, unknown> = await import("./others");
  Object.assign(pages, others);
}
