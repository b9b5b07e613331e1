// What is said of puzzles.

import type { Board, PuzzleView } from "../../api";
import type { Metric } from "../kind";

/** What the grids of a set are called. */
export const TITLES: Record<Board["kind"], string> = { sudoku: "Sudoku", maze: "Mazes", arc: "ARC tasks" };

/** The letters of a maze that are walls and those of its path. */
const [WALL, PATH] = [1, 5];
/** Where a cell of a grid of colours has none. */
const NONE = 2;

/** What is said below a puzzle: of a maze how long its path is, of a task how large its grids are. */
export function about({ kind, columns, blank }: Board, { cells, solution }: PuzzleView): string {
  if (kind === "sudoku") return `${cells.filter((cell) => cell !== blank).length} given`;
  if (kind === "maze") return `${solution.filter((cell) => cell === PATH).length + 1} steps`;
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

/** A share in percent, with a place after the point where that says something. */
export function percent(share: number): string {
  const value = 100 * share;
  return `${value === 0 || value >= 99.95 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** Where a share of `of` may really be, of 95 in 100 such samples: Wilson’s interval. */
export function interval(share: number, of: number): [number, number] {
  const z = 1.96;
  const middle = (share + (z * z) / (2 * of)) / (1 + (z * z) / of);
  const half = (z * Math.sqrt((share * (1 - share)) / of + (z * z) / (4 * of * of))) / (1 + (z * z) / of);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** The same in percent: `74.8–82.0`. */
export function intervalText(share: number, of: number): string {
  return interval(share, of)
    .map((end) => percent(end).replace(" %", ""))
    .join("–");
}

export const metricOf = (metrics: readonly Metric[], name: string): Metric | undefined => metrics.find((metric) => metric.name === name);
