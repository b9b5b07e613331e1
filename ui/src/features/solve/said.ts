// What came of a puzzle, in words.

import type { Board, SolvedView, ThinkingView } from "../../api";
import { count, counted } from "../../lib/format";

export interface Outcome {
  title: string;
  text: string;
  good: boolean;
}


/** How long it took, in words. */
export function timeOf(millis: number): string {
  return millis < 950 ? `${Math.max(1, Math.round(millis))} ms` : `${(millis / 1000).toFixed(1)} s`;
}

export function outcomeOf(solved: SolvedView, thoughts: ThinkingView[], { kind, blank }: Pick<Board, "kind" | "blank">, millis: number): Outcome {
  if (thoughts.length === 0) return { title: "Stopped", text: "Stopped before the first step was done.", good: false };
  const halts = solved.haltsAt ? thoughts[solved.haltsAt - 1] : undefined;
  const stops = solved.haltsAt && halts ? ` It would have stopped by itself at step ${solved.haltsAt} (${halts.halt.toFixed(2)}).` : " It was never sure enough to stop by itself.";
  const time = timeOf(millis);
  const { title, text, good } = kind === "arc" ? ofVotes(solved, time) : kind === "maze" ? ofWay(solved, time) : ofCells(solved, thoughts, blank, time);
  return { title, text: `${text}${stops}`, good };
}

function ofCells(solved: SolvedView, thoughts: ThinkingView[], blank: number, time: string): Outcome {
  const last = thoughts.at(-1)!;
  const open = solved.puzzle.filter((cell) => cell === blank).length;
  if (solved.solvedAt) return { title: `Solved at step ${solved.solvedAt}`, text: `${counted(open, "cell")} filled, no rule broken, ${time}.`, good: true };
  const wrong = solved.solution?.filter((cell, at) => cell !== last.guess[at]).length;
  const after = `after ${counted(thoughts.length, "step")}`;
  const text = wrong === undefined ? `${counted(last.conflicts.length, "cell")} in conflict ${after}.` : `${count(wrong)} of ${counted(open, "cell")} wrong ${after}, ${count(last.conflicts.length)} in conflict.`;
  return { title: "Not solved", text, good: false };
}

function ofWay({ solvedAt, way }: SolvedView, time: string): Outcome {
  const [length, shortest] = [way?.length ?? null, counted(way?.shortest ?? 0, "step")];
  if (solvedAt && length !== null) return { title: `Solved at step ${solvedAt}`, text: `A path of ${counted(length, "step")}, as short as the shortest, ${time}.`, good: true };
  if (length !== null) return { title: "A longer path", text: `The path has ${counted(length, "step")}; the shortest has ${shortest}.`, good: false };
  return { title: "No path", text: `The marked cells don’t lead from the start to the goal. The shortest path has ${shortest}.`, good: false };
}

function ofVotes({ solvedAt, answers, looks }: SolvedView, time: string): Outcome {
  const [first, second] = answers;
  if (!first) return { title: "No answer", text: "", good: false };
  const said = `${first.votes} of ${counted(looks, "look")}`;
  if (solvedAt && first.isRight) return { title: `Solved at step ${solvedAt}`, text: `The right answer came from ${said}, ${time}.`, good: true };
  if (second?.isRight) return { title: "Second answer is right", text: `The right answer came from ${second.votes} of ${counted(looks, "look")}, and a wrong one from ${first.votes}.`, good: true };
  if (first.isRight === null) return { title: "Answered", text: `${said} gave the first answer, ${time}. The task does not say whether it is right.`, good: true };
  return { title: "Not solved", text: `Neither answer is right. ${said} gave the first.`, good: false };
}

/** The last step that changed anything, from 1. */
export function lastChange(thoughts: ThinkingView[]): number {
  return thoughts.reduce((last, { changed }, at) => (changed.length > 0 ? at + 1 : last), 0);
}
