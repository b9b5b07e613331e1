// The list of runs, in the order and with the words that were asked for.

import type { RunView } from "../../api";
import { sortedBy } from "../../lib/ordered";
import { hasWords } from "../../lib/words";
import { standing, type Standing } from "./standing";

export type Key = "name" | "what" | "loss" | "step" | "time" | "when" | "status";

/** What there is to sort by. */
const VALUE: Record<Key, (run: RunView) => string | number | null> = {
  name: ({ name }) => name.toLowerCase(),
  what: ({ what }) => what.toLowerCase(),
  loss: ({ bestLoss, smoothedLoss }) => bestLoss ?? smoothedLoss,
  step: ({ step, steps }) => step / Math.max(steps, 1),
  time: ({ seconds }) => seconds,
  when: ({ changed }) => changed,
  status: (run) => standing(run),
};

/** Whether a column is first shown from its end: the latest, the longest. */
export const startsDown = (key: Key) => key === "when" || key === "time" || key === "step";

export function sorted(runs: RunView[], key: Key, down: boolean): RunView[] {
  return sortedBy(runs, VALUE[key], down);
}

/** The runs with all the words in their name, what they are or their data, and with this status. */
export function filtered(runs: RunView[], words: string, status: Standing | "any"): RunView[] {
  const isMeant = (run: RunView) => status === "any" || standing(run) === status;
  return runs.filter((run) => isMeant(run) && hasWords(`${run.name} ${run.what} ${run.data.join(" ")} ${run.device ?? ""}`, words));
}

/** The ids with one moved by so many places. */
export function moved(ids: string[], id: string, by: number): string[] {
  const from = ids.indexOf(id);
  const to = from + by;
  if (from < 0 || to < 0 || to >= ids.length) return ids;
  const order = ids.filter((each) => each !== id);
  order.splice(to, 0, id);
  return order;
}
