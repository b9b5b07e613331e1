// What the form has to know of probes.

import type { Filled } from "../../api";
import type { KindForm, Need } from "../kind";
import { read } from "../train/filled";

/** What only learning by gradients has. */
const OF_GRADIENTS = ["epochs", "steps", "batch", "learning_rate", "schedule", "optimizer", "clip_norm", "ema", "gradient_checkpointing", "memory_fallback", "evaluate", "sample"];

function needs(filled: Filled): Need[] {
  return read(filled["model"]) ? [] : [{ field: "model", name: "a model", text: "whose states are read." }];
}

export const form: KindForm = {
  own: ["model", "probe.position", "probe.suffix"],
  texts: ["model", "probe.suffix", "data.text_column", "data.label_column", "data.group_column"],
  lists: ["probe.sites", "probe.labels", "probe.penalties"],
  lines: {},
  paths: ["model"],
  labels: {},
  telling: ["device", "dtype.compute", "probe.position", "probe.suffix", "probe.sites", "steps"],
  unit: "none",
  lighter: "A smaller model needs less memory.",
  method: () => "",
  belongs: (field: string) => !OF_GRADIENTS.some((section) => field === section || field.startsWith(`${section}.`)),
  home: () => undefined,
  needs,
};
