// A grid of symbols as it is drawn: how many lines it has, and where its boxes are.

import type { Board as Told } from "../api";

/** The form of a grid. Without boxes, a box has no rows. */
export interface Shape {
  rows: number;
  columns: number;
  boxRows: number;
  boxColumns: number;
}

/** The form of the grids that the app tells of. */
export function shapeOf({ rows, columns, box_rows: boxRows, box_columns: boxColumns }: Pick<Told, "rows" | "columns" | "box_rows" | "box_columns">): Shape {
  return { rows, columns, boxRows, boxColumns };
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
