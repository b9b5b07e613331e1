// What waits for the user: runs that were cut off, failed or stopped before their end.

import type { RunView } from "../../api";
import { count } from "../../lib/format";
import { withoutPath } from "../../lib/words";

export interface Need {
  run: RunView;
  /** What happened, in a sentence. */
  text: string;
  /** Whether the app offers to continue it by itself. */
  offered: boolean;
}

/** As many as are shown; all of them are on the page of runs. */
const MAX = 4;

export function needsOf(runs: RunView[], offered: RunView[]): Need[] {
  const ids = new Set(offered.map(({ id }) => id));
  const open = runs.filter(({ id, status, place, started }) => !ids.has(id) && place === null && started !== null && ["failed", "interrupted", "stopped"].includes(status));
  return [...offered.map((run) => ({ run, text: textOf(run), offered: true })), ...open.map((run) => ({ run, text: textOf(run), offered: false }))].slice(0, MAX);
}

function textOf({ status, step, steps, problem, saved }: RunView): string {
  const place = `Step ${count(step)} of ${count(steps)}`;
  if (status === "failed") return problem ? withoutPath(problem).text : `Failed at step ${count(step)}.`;
  if (status === "stopped") return `${place}${saved ? ", saved" : ""}.`;
  return `${place}. The app or the computer went down.`;
}
