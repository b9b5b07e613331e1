// A puzzle that is typed, pasted or read: symbols in cells.

import type { Board } from "../../api";

/** What may stand between the cells of a puzzle that is pasted. */
const BETWEEN = /[\s|+\-─│┼━┃╋,;]/g;

/** A grid without anything in it. */
export const empty = ({ rows, columns, blank }: Board): number[] => Array.from({ length: rows * columns }, () => blank);

/** The symbol that a key types, if the board has it. */
export function symbolOf({ symbols, blank }: Board, key: string): number | undefined {
  if (key === "0" || key === "." || key === "_") return blank;
  const at = symbols.findIndex((symbol, at) => at !== blank && symbol !== "" && symbol === key.toUpperCase());
  return at < 0 ? undefined : at;
}

/** A text as a grid, or what is wrong with it. */
export function pasted(board: Board, text: string): { cells: number[] } | { problem: string } {
  const letters = [...text.replace(BETWEEN, "")];
  const wanted = board.rows * board.columns;
  const cells = letters.map((letter) => symbolOf(board, letter));
  const strange = cells.findIndex((cell) => cell === undefined);
  if (letters.length !== wanted) return { problem: `The text has ${letters.length} ${letters.length === 1 ? "cell" : "cells"}, and this grid has ${wanted}. Use a dot or 0 for an empty cell.` };
  if (strange >= 0) {
    const [row, column] = [Math.floor(strange / board.columns) + 1, (strange % board.columns) + 1];
    const most = board.symbols.at(-1) ?? "";
    return { problem: `“${letters[strange]}” in row ${row}, column ${column} is no symbol of this grid. It takes 1 to ${most}, and a dot or 0 for an empty cell.` };
  }
  return { cells: cells as number[] };
}

/** A grid as a text, row by row. */
export function textOf({ symbols, blank }: Board, cells: readonly number[]): string {
  return cells.map((cell) => (cell === blank ? "." : symbols[cell] || ".")).join("");
}

/** The same with a line for each row, to be read. */
export function linesOf(board: Board, cells: readonly number[]): string {
  const text = [...textOf(board, cells)];
  return Array.from({ length: board.rows }, (_, row) => text.slice(row * board.columns, (row + 1) * board.columns).join("")).join("\n");
}

/** The cells whose symbol stands twice in a row, column or box. */
export function conflicts({ rows, columns, box_rows: boxRows, box_columns: boxColumns, blank }: Board, cells: readonly number[]): number[] {
  const seen = new Map<string, number[]>();
  cells.forEach((symbol, cell) => {
    if (symbol <= blank) return;
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const groups = [`r${row}`, `c${column}`];
    if (boxRows > 0) groups.push(`b${Math.floor(row / boxRows)} ${Math.floor(column / boxColumns)}`);
    for (const group of groups) {
      const key = `${group} ${symbol}`;
      seen.set(key, [...(seen.get(key) ?? []), cell]);
    }
  });
  const twice = new Set([...seen.values()].filter((cells) => cells.length > 1).flat());
  return Array.from({ length: rows * columns }, (_, cell) => cell).filter((cell) => twice.has(cell));
}
