// What can be done with a model that writes text.

import { go } from "../../routes.svelte";
import type { Use } from "../kind";

export const uses: Use[] = [
  { name: "chat", text: "Talk to it", early: "Try it now", open: ({ id, name }) => go({ page: "chat", name: id, title: name }) },
];
