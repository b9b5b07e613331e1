// What can follow a run in which a published network stayed as it is.

import type { Filled, RunView } from "../../api";
import type { Further } from "../kind";

/** What the second run has of the first: the same pictures, of which the same are held out. */
const KEPT = ["data.files", "data.held_out", "seed"];

/** All of the network learns, from the head that was found. */
export function further({ id, method }: RunView): Further | undefined {
  if (method !== "features") return undefined;
  return {
    text: "Go further…",
    about: "Plan a run in which all of the network learns, from what this one found",
    filled: (settings: Filled) => ({
      task: "picture",
      model: id,
      "picture.method": "fine_tune",
      ...Object.fromEntries(Object.entries(settings).filter(([field]) => KEPT.includes(field))),
    }),
  };
}
