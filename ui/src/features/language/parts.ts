// What language models bring to the pages of training.

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
