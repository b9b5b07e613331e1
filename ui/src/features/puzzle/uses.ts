// What can be done with a model that fills in grids.

import { go } from "../../routes.svelte";
import type { Use } from "../kind";

export const uses: Use[] = [
  { name: "solve", text: "Solve", early: "Try it now", short: "Solve", playground: { page: "solve" }, open: ({ id, name }) => go({ page: "solve", name: id, title: name }) },
];
