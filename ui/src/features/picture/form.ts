// What the form has to know of pictures: the ways to learn them, and the fields that belong to each.

import type { Filled } from "../../api";
import type { KindForm, Need } from "../kind";
import { read } from "../train/filled";

/** How data for language is read; pictures are read in one way. */
const READING = ["data.format", "data.columns", "data.encoding", "data.rows", "data.skip_bad_rows"];
/** What learns without steps that follow gradients does not have. */
const OF_STEPS = ["epochs", "steps", "batch", "learning_rate", "schedule", "optimizer", "clip_norm", "picture.label_smoothing", "picture.augment", "picture.workers"];
/** What no run of pictures has. */
const NEVER = ["ema", "gradient_checkpointing"];

export type Method = "features" | "fine_tune" | "scratch";

/** The ways to learn, each for so many pictures. */
export const METHODS: readonly { value: Method; text: string; about: string }[] = [
  { value: "features", text: "A few photos", about: "A trained network looks; a small layer learns in seconds." },
  { value: "fine_tune", text: "Fine-tune", about: "A trained network learns on, from 50 photos a class." },
  { value: "scratch", text: "From scratch", about: "A new network, from a thousand pictures or more." },
];

/** What a new network can be, a recipe each. */
export const RECIPES: readonly { value: string; text: string; about: string }[] = [
  { value: "airbench94", text: "Fast", about: "airbench94: right on 94 % of CIFAR-10 after ten passes." },
  { value: "small", text: "Small", about: "Three convolutions: minutes on any computer." },
  { value: "seed", text: "Plain", about: "A small network with SGD and momentum, batches of 128, as it is often taught." },
  { value: "resnet18", text: "ResNet-18", about: "Better and slower, in fifteen passes. Needs a GPU." },
  { value: "resnet18-long", text: "ResNet-18, long", about: "The best here, in 200 passes. Needs a GPU." },
];

/** The way that was chosen, or follows from the rest: without a network to begin with, a new one. */
export function methodOf(filled: Filled): Method {
  const method = read(filled["picture.method"]);
  if (method === "features" || method === "fine_tune" || method === "scratch") return method;
  return read(filled["model"]) ? "features" : "scratch";
}

const isIn = (field: string, sections: readonly string[]) => sections.some((section) => field === section || field.startsWith(`${section}.`));

function belongs(field: string, filled: Filled): boolean {
  const method = methodOf(filled);
  if (isIn(field, [...READING, ...NEVER])) return false;
  if (field === "model") return method !== "scratch";
  if (field === "picture.recipe") return method === "scratch";
  return method !== "features" || !isIn(field, OF_STEPS);
}

function needs(filled: Filled): Need[] {
  if (methodOf(filled) === "scratch" || read(filled["model"])) return [];
  return [{ field: "model", name: "a network", text: "to begin with, or train one from scratch." }];
}

export const form: KindForm = {
  own: ["picture.method", "model", "picture.recipe", "picture.flip", "picture.augment"],
  texts: ["model", "picture.recipe"],
  lists: ["picture.mean", "picture.std"],
  lines: {},
  paths: ["model"],
  labels: { "picture.recipe": "Recipe" },
  telling: ["device", "dtype.compute", "batch.rows", "batch.accumulate", "picture.architecture", "picture.side", "picture.flip", "learning_rate", "steps"],
  lighter: "A smaller batch, smaller pictures or a smaller network need less memory.",
  source: { pick: "folder", add: "Add folder…", none: "Pictures come in a folder that has a folder for each class, such as roses and tulips." },
  // It stands in a section of its own.
  method: () => "",
  belongs,
  home: (field, filled) => (READING.includes(field) && !(field in filled) ? "data.files" : undefined),
  needs,
};
