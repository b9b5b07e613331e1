// What the form has to know of a language model: the ways to train one, and the fields that belong to each.

import type { Filled } from "../../api";
import type { KindForm, Need } from "../kind";
import { read } from "../train/filled";

export type Method = "lora" | "full" | "scratch";

/** The method that was chosen, or follows from the rest. */
export function methodOf(filled: Filled): Method {
  const { method = "" } = filled;
  if (method === "lora" || method === "full" || method === "scratch") return method;
  return Object.keys(filled).some((field) => field.startsWith("scratch.")) && !filled["model"] ? "scratch" : "lora";
}

function belongs(field: string, filled: Filled): boolean {
  const method = methodOf(filled);
  if (field === "model") return method !== "scratch";
  // One of the sizes takes the place of a shape.
  if (field.startsWith("scratch.config.") && !(field in filled) && !hasOwnShape(filled)) return false;
  const [section] = field.split(".");
  return (section !== "lora" && section !== "scratch") || section === method;
}

function needs(filled: Filled): Need[] {
  if (methodOf(filled) === "scratch" || read(filled["model"])) return [];
  return [{ field: "model", name: "a model", text: "to begin with, or train one from scratch." }];
}

/** Whether a new model has a shape of its own, in place of one of the sizes. */
export function hasOwnShape(filled: Filled): boolean {
  return Boolean(filled["scratch.config.model_type"]);
}

/** What is changed in the form to make a new model of a size, in place of a shape of its own. */
export function sizeOf(preset: string, filled: Filled): Filled {
  const own = Object.keys(filled).filter((field) => hasOwnShape(filled) && field.startsWith("scratch.config."));
  return { ...Object.fromEntries(own.map((field) => [field, ""])), "scratch.preset": preset };
}

export const form: KindForm = {
  own: ["method", "model", "lora.rank", "scratch.preset"],
  texts: ["model"],
  lists: ["lora.targets", "lora.layers"],
  lines: { "sample.prompts": "What it is to continue or answer, one in a line." },
  paths: ["model", "scratch.tokenizer"],
  labels: { lora: "Adapter", scratch: "New model", "scratch.config.model_type": "Architecture" },
  telling: [
    "device",
    "dtype.compute",
    "batch.rows",
    "batch.accumulate",
    "batch.length",
    "gradient_checkpointing",
    "learning_rate",
    "steps",
    "lora.rank",
    "scratch.preset",
    "data.learn",
    "data.files",
  ],
  lighter: "A smaller batch, shorter sequences, an adapter or a smaller model need less memory.",
  method: methodOf,
  belongs,
  home(field, filled) {
    if (field === "lora" || field === "scratch") return "method";
    return belongs(field, filled) || !form.own.includes(field) ? undefined : "method";
  },
  needs,
};
