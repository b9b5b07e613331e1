// What can be done with a model that says what pictures show.

import { go } from "../../routes.svelte";
import type { Use } from "../kind";

export const uses: Use[] = [
  { name: "predict", text: "Classify", early: "Try it now", short: "Classify", playground: { page: "predict" }, open: ({ id, name }) => go({ page: "predict", name: id, title: name }) },
];
