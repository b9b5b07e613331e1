// What can be done with a model that writes text, and what to begin with.

import { go } from "../../routes.svelte";
import type { Start, Use } from "../kind";

export const uses: Use[] = [
  { name: "chat", text: "Talk to it", early: "Try it now", short: "Talk", open: ({ id, name }) => go({ page: "chat", name: id, title: name }) },
];

export const starts: Start[] = [
  {
    look: "warm",
    title: "Teach a model your tone",
    text: "Take a small chat model and a file of conversations.",
    note: "from about 15 minutes",
    act: "Choose",
    filled: { method: "lora" },
  },
  {
    look: "cool",
    title: "Imitate a book",
    text: "A new small model that continues any text you give it.",
    note: "from about 5 minutes",
    act: "Choose a text",
    filled: { method: "scratch" },
  },
];
