// The list of runs, in the order and with the words that were asked for.

import type { RunView } from "../../api";
import { standing, type Standing } from "./standing";

export type Key = "name" | "what" | "loss" | "step" | "time" | "when" | "status";

/** What there is to sort by. Nothing comes last, whichever way. */
const VALUE: Record<Key, (run: RunView) => string | number | null> = {
  name: ({ name }) => name.toLowerCase(),
  what: ({ what }) => what.toLowerCase(),
  loss: ({ bestLoss, loss }) => bestLoss ?? loss,
  step: ({ step, steps }) => step / Math.max(steps, 1),
  time: ({ seconds }) => seconds,
  when: ({ changed }) => changed,
  status: (run) => standing(run),
};

/** Whether a column is first shown from its end: the latest, the longest. */
export const startsDown = (key: Key) => key === "when" || key === "time" || key === "step";

export function sorted(runs: RunView[], key: Key, down: boolean): RunView[] {
  const value = VALUE[key];
  return [...runs].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    const order = typeof one === "string" ? one.localeCompare(String(other), "en", { numeric: true }) : one - Number(other);
    return down ? -order : order;
  });
}

/** The runs with all the words in their name, what they are or their data, and with this status. */
export function filtered(runs: RunView[], words: string, status: Standing | "any"): RunView[] {
  const typed = words.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => {
    const text = `${run.name} ${run.what} ${run.data.join(" ")} ${run.device ?? ""}`.toLowerCase();
    return (status === "any" || standing(run) === status) && typed.every((word) => text.includes(word));
  });
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
