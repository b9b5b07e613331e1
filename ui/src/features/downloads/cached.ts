// The shared cache as the page shows it.

import type { CachedRevisionView, CachedView, RunView } from "../../api";
import { count, counted } from "../../lib/format";
import { kindOfRun } from "../runs/series";

/** The largest first: who comes here mostly wants space. */
export function largestFirst(cached: CachedView[]): CachedView[] {
  return [...cached].sort((a, b) => b.bytes - a.bytes);
}

/** 4 models and 1 data set. */
export function contents(cached: CachedView[]): string {
  const models = cached.filter(({ kind }) => kind === "model").length;
  const sets = cached.length - models;
  const parts = [];
  if (models > 0) parts.push(counted(models, "model"));
  if (sets > 0) parts.push(counted(sets, "data set"));
  return parts.join(" and ");
}

/** The first letters of a commit, which tell it from others. */
export const shortCommit = (commit: string) => commit.slice(0, 7);

/** What a revision is called: its branches and tags, or else its commit. */
export function titleOf({ names, commit }: CachedRevisionView): string {
  return names.length > 0 ? names.join(", ") : shortCommit(commit);
}

/** What can't be used without a model, in words: of many runs, the first are named. */
export function neededWords(runs: RunView[]): string {
  const NAMED = 3;
  const names = runs.slice(0, NAMED).map(({ name }) => `“${name}”`).join(", ");
  const more = runs.length > NAMED ? ` and ${count(runs.length - NAMED)} more` : "";
  return runs.length === 1 ? `${names} can’t be used without it.` : `${count(runs.length)} runs can’t be used without it: ${names}${more}.`;
}

/** The runs that are nothing without the model that lies there. */
export function needing(runs: RunView[], { path }: { path: string }): RunView[] {
  return runs.filter((run) => run.base === path && kindOfRun(run).needsBase?.(run));
}
