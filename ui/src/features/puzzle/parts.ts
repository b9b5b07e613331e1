// What puzzles bring to the pages of training, data and runs.

export { default as Choices } from "./Choices.svelte";
export { default as Example } from "./Example.svelte";
export { default as Evidence } from "./Evidence.svelte";
export { default as Make } from "./Make.svelte";
export { default as DataView } from "./PuzzleSet.svelte";
