// Every page but the first, by its name.

export { default as activity } from "./features/activity/Activity.svelte";
export { default as bench } from "./features/bench/Bench.svelte";
export { default as chat } from "./features/chat/Chat.svelte";
export { default as compare } from "./features/runs/Compare.svelte";
export { default as data } from "./features/data/Data.svelte";
export { default as device } from "./features/device/Device.svelte";
export { default as models } from "./features/models/Models.svelte";
export { default as predict } from "./features/predict/Predict.svelte";
export { default as probes } from "./features/probe/Probes.svelte";
export { default as repository } from "./features/hub/Repository.svelte";
export { default as run } from "./features/runs/Run.svelte";
export { default as runs } from "./features/runs/Runs.svelte";
export { default as serve } from "./features/serve/Serve.svelte";
export { default as settings } from "./features/settings/Settings.svelte";
export { default as solve } from "./features/solve/Solve.svelte";
export { default as train } from "./features/train/Train.svelte";
