// A puzzle that is typed, drawn, pasted or read: symbols in cells.

import type { Board } from "../../api";
import { placeOf, shapeOf } from "../../components/board";
import { counted } from "../../lib/format";

/** What may stand between the cells of a puzzle that is pasted. */
const BETWEEN = /[\s|+\-─│┼━┃╋,;]/g;

/** The symbols of a maze. */
export const WALL = 1;
export const FREE = 2;
export const START = 3;
export const GOAL = 4;

/** A grid without anything in it. */
export const empty = ({ rows, columns, blank }: Board): number[] => Array.from({ length: rows * columns }, () => blank);

/** The symbol that a key types, if the board has it. */
export function symbolOf({ symbols, blank }: Board, key: string): number | undefined {
  if (key === "0" || key === "." || key === "_") return blank;
  const at = symbols.findIndex((symbol, at) => at !== blank && symbol !== "" && symbol === key.toUpperCase());
  return at < 0 ? undefined : at;
}

/** The cell that a key leads to, which at an edge is the same one. Nothing for a key that leads nowhere. */
export function ledTo(key: string, at: number, { rows, columns }: Pick<Board, "rows" | "columns">): number | undefined {
  const [column, row] = [at % columns, Math.floor(at / columns)];
  const cells: Record<string, number> = {
    ArrowLeft: column > 0 ? at - 1 : at,
    ArrowRight: column < columns - 1 ? at + 1 : at,
    ArrowUp: row > 0 ? at - columns : at,
    ArrowDown: row < rows - 1 ? at + columns : at,
    Home: at - column,
    End: at - column + columns - 1,
    PageUp: column,
    PageDown: (rows - 1) * columns + column,
  };
  return cells[key];
}

/** A text as a Sudoku, or what is wrong with it. */
export function pasted(board: Board, text: string): { cells: number[] } | { problem: string } {
  const letters = [...text.replace(BETWEEN, "")];
  const wanted = board.rows * board.columns;
  const cells = letters.map((letter) => symbolOf(board, letter));
  const strange = cells.findIndex((cell) => cell === undefined);
  if (letters.length !== wanted) return { problem: `The text has ${counted(letters.length, "cell")}, and this grid has ${wanted}. Use a dot or 0 for an empty cell.` };
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

/** The cells beside a cell. */
function beside(cell: number, { rows, columns }: Pick<Board, "rows" | "columns">): number[] {
  const [row, column] = [Math.floor(cell / columns), cell % columns];
  return [...(row > 0 ? [cell - columns] : []), ...(column > 0 ? [cell - 1] : []), ...(column < columns - 1 ? [cell + 1] : []), ...(row < rows - 1 ? [cell + columns] : [])];
}

/** What a maze that is drawn still lacks, in a sentence. Nothing where it can be solved. */
export function lackOf(board: Board, cells: readonly number[]): string {
  const [start, goal] = [cells.indexOf(START), cells.indexOf(GOAL)];
  if (start < 0) return goal < 0 ? "Place a start and a goal." : "Place a start.";
  if (goal < 0) return "Place a goal.";
  const seen = new Set([start]);
  const next = [start];
  for (let cell = next.pop(); cell !== undefined; cell = next.pop()) {
    for (const other of beside(cell, board)) {
      if (cells[other] === WALL || seen.has(other)) continue;
      seen.add(other);
      next.push(other);
    }
  }
  const shape = shapeOf(board);
  return seen.has(goal) ? "" : `No way leads from the start in ${placeOf(shape, start)} to the goal in ${placeOf(shape, goal)}. Open a wall.`;
}

/** A maze in which a cell has this symbol. There is one start and one goal, and neither is painted over. */
export function drawn(cells: readonly number[], cell: number, symbol: number): number[] {
  const isEnd = (it: number | undefined) => it === START || it === GOAL;
  if (isEnd(cells[cell]) && !isEnd(symbol)) return [...cells];
  // Where one end is put on the other, the other is gone.
  return cells.map((before, at) => (at === cell ? symbol : isEnd(symbol) && before === symbol ? FREE : before));
}

/** The cells that a line from one to another crosses: a fast pointer leaves some out. */
export function between(from: number, to: number, columns: number): number[] {
  const [x, y] = [from % columns, Math.floor(from / columns)];
  const [dx, dy] = [(to % columns) - x, Math.floor(to / columns) - y];
  const steps = Math.max(Math.abs(dx), Math.abs(dy), 1);
  return Array.from({ length: steps }, (_, step) => {
    const share = (step + 1) / steps;
    return Math.round(y + dy * share) * columns + Math.round(x + dx * share);
  });
}
