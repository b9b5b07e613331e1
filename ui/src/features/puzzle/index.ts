// Models that fill in grids by thinking in steps.

import { api, type RunView } from "../../api";
import { count } from "../../lib/format";
import { intervalText, metricOf, percent } from "../../lib/share";
import type { Tile } from "../kind";
import PuzzleSign from "./PuzzleSign.svelte";

export const task = "puzzle";
export const unit = "puzzles";
export const shown = { title: "Held-out puzzles", none: "No puzzles yet. The model tries some as it learns." };

export const tiles: Tile[] = [
  {
    name: "puzzles",
    title: "Puzzles",
    text: "A tiny network that thinks in steps",
    Sign: PuzzleSign,
    filled: {},
    fits: () => true,
  },
];

/** The measures that a chart begins with: shares of puzzles or cells. */
export const shares = [
  { measure: "exact_accuracy", title: "Solved" },
  { measure: "token_accuracy", title: "Cells" },
  { measure: "halting_accuracy", title: "Self-check" },
];

/** A measure at the end of a run, which may count more puzzles, or the last one during it. */
const measureOf = ({ metrics }: RunView, name: string) => metricOf(metrics, `${name}_at_end`) ?? metricOf(metrics, name);
const solvedOf = (run: RunView) => measureOf(run, "exact_accuracy");

export function verdict(run: RunView): string[] {
  const tasks = measureOf(run, "pass@2");
  if (tasks?.value != null && tasks.of) return [`Solves ${percent(tasks.value)} of ${count(tasks.of)} new tasks with two answers (${intervalText(tasks.value, tasks.of)})`];
  const solved = solvedOf(run);
  if (solved?.value == null || !solved.of) return run.bestLoss === null ? ["Finished", "no held-out puzzles"] : [];
  const right = Math.round(solved.value * solved.of);
  return [`Solves ${count(right)} of ${count(solved.of)} new puzzles: ${percent(solved.value)} (${intervalText(solved.value, solved.of)})`];
}

export function meaning(run: RunView): string {
  const [solved, knows] = [measureOf(run, "pass@2") ?? solvedOf(run), measureOf(run, "halting_accuracy")];
  if (solved?.value == null) return "";
  if (solved.value === 0) return "None yet: it needs more steps to learn from.";
  const sure = knows?.value == null ? "" : ` It knows whether it solved a puzzle ${percent(knows.value)} of the time.`;
  return `In brackets: the range of the true share, with 95 % confidence.${sure}`;
}

/** How far it is while it learns. */
export function progress(run: RunView): string {
  const solved = solvedOf(run);
  return solved?.value == null || !solved.of ? "" : `Solves ${percent(solved.value)} of ${count(solved.of)} held-out puzzles so far.`;
}

/** The figures of a run that take the place of its losses. */
export function figures(run: RunView) {
  const share = (name: string, text: string, between = false) => {
    const found = measureOf(run, name);
    const rest = between && found?.value != null && found.of ? intervalText(found.value, found.of) : "";
    return { value: found?.value == null ? "–" : percent(found.value), rest, text };
  };
  if (measureOf(run, "pass@2")) return [share("pass@2", "new tasks, two answers", true), share("pass@1", "new tasks, one answer"), share("exact_accuracy", "of all looks right")];
  if (measureOf(run, "valid_path")) return [share("exact_accuracy", "new mazes solved", true), share("valid_path", "answers that are a path"), share("shortest_path", "shortest paths")];
  return [share("exact_accuracy", "new puzzles solved", true), share("token_accuracy", "cells right"), share("halting_accuracy", "knows if it is right")];
}

/** Puzzles in files, with the form of their grids. */
export const data = {
  find: (path: string) => api.puzzles([path], false, 0, 0, 0),
};

export { form } from "./form";
export { uses } from "./uses";
