// What is said of puzzles.

import type { Board, PuzzleView } from "../../api";
import { counted } from "../../lib/format";

/** What the grids of a set are called. */
export const TITLES: Record<Board["kind"], string> = { sudoku: "Sudoku", maze: "Mazes", arc: "ARC tasks" };

/** The letters of a maze that are walls and those of its path. */
const [WALL, PATH] = [1, 5];
/** Where a cell of a grid of colours has none. */
const NONE = 2;

/** What is said below a puzzle: of a maze how long its path is, of a task how large its grids are. */
export function about({ kind, columns, blank }: Board, { cells, solution }: PuzzleView): string {
  if (kind === "sudoku") return `${cells.filter((cell) => cell !== blank).length} given`;
  if (kind === "maze") return counted(solution.filter((cell) => cell === PATH).length + 1, "step");
  const size = (of: number[]) => {
    const filled = of.flatMap((cell, at) => (cell >= NONE ? [at] : []));
    return `${Math.max(0, ...filled.map((at) => Math.floor(at / columns) + 1))} × ${Math.max(0, ...filled.map((at) => (at % columns) + 1))}`;
  };
  return `${size(cells)} → ${size(solution)}`;
}

/** A mean over puzzles, in words: how many cells are given, or how much of a maze is wall. Nothing where that says little. */
export function meanOf({ kind, rows, columns, blank }: Board, puzzles: readonly PuzzleView[]): { value: string; rest: string; text: string } | undefined {
  const cells = puzzles.flatMap((puzzle) => puzzle.cells);
  if (cells.length === 0 || kind === "arc") return undefined;
  if (kind === "maze") return { value: `${Math.round((100 * cells.filter((cell) => cell === WALL).length) / cells.length)} %`, rest: "", text: "walls, about" };
  return { value: String(Math.round(cells.filter((cell) => cell !== blank).length / puzzles.length)), rest: `of ${rows * columns}`, text: "cells given, about" };
}
