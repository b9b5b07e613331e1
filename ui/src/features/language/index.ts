// Models that read and write text.

export const task = "language";
export const title = "Text";
export const about = "Teach a language model from your own examples";
export const unit = "tokens";
export const shown = { title: "Samples", none: "Nothing yet. The model writes samples as it learns." };

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { form } from "./form";
export { starts, uses } from "./uses";
