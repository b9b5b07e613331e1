// A grid of symbols as it is drawn: how many lines it has, and where its boxes are.

import type { BoardKind, Board as Told, Drawn } from "../api";

/** The form of a grid. Without boxes, a box has no rows. */
export interface Shape {
  rows: number;
  columns: number;
  boxRows: number;
  boxColumns: number;
  /** How its cells are drawn. */
  drawn: Drawn;
}

const DRAWN: Record<BoardKind, Drawn> = { sudoku: "symbols", maze: "maze", arc: "colours" };

/** The form of the grids that the app tells of. */
export function shapeOf({ kind, rows, columns, box_rows: boxRows, box_columns: boxColumns }: Pick<Told, "kind" | "rows" | "columns" | "box_rows" | "box_columns">): Shape {
  return { rows, columns, boxRows, boxColumns, drawn: DRAWN[kind] };
}

/** The form of some rows of colours. */
export function shapeOfRows(rows: number, columns: number): Shape {
  return { rows, columns, boxRows: 0, boxColumns: 0, drawn: "colours" };
}

/** What stands in each cell. An empty one has nothing. */
export function symbolsOf({ symbols, blank }: Pick<Told, "symbols" | "blank">, cells: readonly number[]): string[] {
  return cells.map((cell) => (cell === blank ? "" : (symbols[cell] ?? "")));
}

/** Where a cell is, in words. */
export function placeOf({ columns }: Shape, cell: number): string {
  return `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
}

/** Whether a line is thick to the left of a cell and above it: there a box begins. */
export function edgesOf({ columns, boxRows, boxColumns }: Shape, cell: number): { left: boolean; top: boolean } {
  const [row, column] = [Math.floor(cell / columns), cell % columns];
  return { left: column > 0 && boxColumns > 0 && column % boxColumns === 0, top: row > 0 && boxRows > 0 && row % boxRows === 0 };
}
