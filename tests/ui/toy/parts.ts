// What it brings to the pages.

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { default as Exhibit } from "./Exhibit.svelte";
export { default as Result } from "./Result.svelte";
