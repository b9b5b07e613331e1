// What probes bring to the pages of training and runs.

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { default as Result } from "./Result.svelte";
