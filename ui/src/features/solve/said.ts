// What came of a puzzle, in words.

import type { SolvedView, ThinkingView } from "../../api";
import { count } from "../../lib/format";

export interface Outcome {
  title: string;
  text: string;
  good: boolean;
}

const cells = (number: number) => `${count(number)} ${number === 1 ? "cell" : "cells"}`;

/** How long it took, in words. */
export function timeOf(millis: number): string {
  return millis < 950 ? `${Math.max(1, Math.round(millis))} ms` : `${(millis / 1000).toFixed(1)} s`;
}

export function outcomeOf(solved: SolvedView, thoughts: ThinkingView[], blank: number, millis: number): Outcome {
  const last = thoughts.at(-1);
  const open = solved.puzzle.filter((cell) => cell === blank).length;
  const halts = solved.haltsAt ? thoughts[solved.haltsAt - 1] : undefined;
  const stops = solved.haltsAt && halts ? ` It would have stopped by itself at step ${solved.haltsAt} (${halts.halt.toFixed(2)}).` : " It was never sure enough to stop by itself.";
  if (!last) return { title: "Stopped", text: "Stopped before the first step was done.", good: false };
  if (solved.solvedAt) {
    return { title: `Solved at step ${solved.solvedAt}`, text: `${cells(open)} filled, no rule broken, ${timeOf(millis)}.${stops}`, good: true };
  }
  const wrong = solved.solution?.filter((cell, at) => cell !== last.guess[at]).length;
  const text = wrong === undefined ? `${cells(last.conflicts.length)} in conflict after ${thoughts.length} steps.` : `${count(wrong)} of ${cells(open)} wrong after ${thoughts.length} steps, ${count(last.conflicts.length)} in conflict.`;
  return { title: "Not solved", text: `${text}${stops}`, good: false };
}

/** The last step that changed anything, from 1. */
export function lastChange(thoughts: ThinkingView[]): number {
  return thoughts.reduce((last, { changed }, at) => (changed.length > 0 ? at + 1 : last), 0);
}
