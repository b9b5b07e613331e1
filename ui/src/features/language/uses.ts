// What can be done with a model that writes text.

import { go } from "../../routes.svelte";
import type { Use } from "../kind";

export const uses: Use[] = [
  { name: "chat", text: "Chat", early: "Try it now", short: "Chat", playground: { page: "chat" }, open: ({ id, name }) => go({ page: "chat", name: id, title: name }) },
  { name: "serve", takes: "chat", aside: true, text: "Serve", early: "Serve", short: "Serve", open: ({ id }) => go({ page: "serve", name: id }) },
];
