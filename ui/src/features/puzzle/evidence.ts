// Puzzles that a run shows: what was given, what is right, and what was guessed after a step of thinking.

import type { Shown } from "../kind";
import type { Exhibit } from "../../api";
import type { Shape } from "../../components/board";
import { extent } from "../../components/cells";
import { counted } from "../../lib/format";

export type PuzzleShown = Extract<Exhibit, { kind: "puzzle" }>;

/** The puzzles that were shown after a step of training. */
export function puzzlesAt(shown: Shown[], step: number | undefined): PuzzleShown[] {
  return shown.filter((each) => each.step === step).flatMap(({ exhibit }) => (exhibit.kind === "puzzle" ? [exhibit] : []));
}

export function shapeOfShown({ columns, box_rows: boxRows, box_columns: boxColumns, given, drawn }: PuzzleShown): Shape {
  return { columns, rows: Math.ceil([...given].length / columns), boxRows, boxColumns, drawn: drawn ?? "symbols" };
}

/** Which cells are given. A grid of colours is found whole. */
export function givenOf({ given, drawn }: PuzzleShown): boolean[] {
  return cellsOf(given).map((cell) => cell !== "" && drawn !== "colours");
}

/** What a puzzle is like, in a few words. */
export function aboutOf(puzzle: PuzzleShown): string {
  const target = cellsOf(puzzle.target);
  if (puzzle.drawn === "maze") return counted(target.filter((cell) => cell === "o").length + 1, "step");
  if (puzzle.drawn === "colours") {
    const { rows, columns } = extent(target, puzzle.columns);
    return `${rows} × ${columns}`;
  }
  return `${givenOf(puzzle).filter(Boolean).length} given`;
}

/** What stands in each cell of a text. */
export const cellsOf = (text: string): string[] => [...text].map((letter) => (letter === "." ? "" : letter));

export interface Step {
  cells: string[];
  changed: number[];
  wrong: number[];
  halt: number;
}

/** What a puzzle was after a step of thinking, from 1. */
export function stepOf({ given, target, guesses, halts }: PuzzleShown, step: number): Step {
  const at = Math.min(Math.max(step, 1), guesses.length) - 1;
  const [now, before, right] = [[...(guesses[at] ?? given)], [...(at > 0 ? (guesses[at - 1] ?? given) : given)], [...target]];
  const those = (is: (cell: number) => boolean) => now.flatMap((_, cell) => (is(cell) ? [cell] : []));
  return {
    cells: cellsOf(now.join("")),
    changed: at === 0 ? [] : those((cell) => now[cell] !== before[cell]),
    wrong: those((cell) => now[cell] !== right[cell]),
    halt: halts[at] ?? 0,
  };
}

/** The first step, from 1, after which the model would have stopped. */
export function haltsAt({ halts }: Pick<PuzzleShown, "halts">): number | undefined {
  const at = halts.findIndex((halt) => (halt ?? 0) > 0.5);
  return at < 0 ? undefined : at + 1;
}

/** A line through the probabilities of halting, in a box of 100 by 24. */
export function spark(halts: readonly (number | null)[]): string {
  const x = (at: number) => (halts.length > 1 ? (100 * at) / (halts.length - 1) : 0);
  return halts.map((halt, at) => `${at === 0 ? "M" : "L"}${x(at).toFixed(2)} ${(23 - 22 * (halt ?? 0)).toFixed(2)}`).join("");
}
