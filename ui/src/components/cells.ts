// Cells of a grid as paths, for an SVG or a canvas. A cell is one unit wide, and the first has its corner at 0, 0.

const ENDS = "SG";
const MARKS = `o${ENDS}`;

const at = (cell: number, columns: number): [number, number] => [cell % columns, Math.floor(cell / columns)];

/** A square for each cell. */
export function squares(cells: readonly number[], columns: number): string {
  return cells
    .map((cell) => {
      const [x, y] = at(cell, columns);
      return `M${x} ${y}h1v1h-1z`;
    })
    .join("");
}

/** A square within each cell, which leaves the middle as it is. */
export function frames(cells: readonly number[], columns: number): string {
  return cells
    .map((cell) => {
      const [x, y] = at(cell, columns);
      return `M${x + 0.08} ${y + 0.08}h.84v.84h-.84z`;
    })
    .join("");
}

/** A cross in each cell. */
export function crosses(cells: readonly number[], columns: number): string {
  return cells
    .map((cell) => {
      const [x, y] = at(cell, columns);
      return `M${x + 0.25} ${y + 0.25}l.5 .5m0 -.5l-.5 .5`;
    })
    .join("");
}

/** The way through a maze: a dot in each marked cell, and a line to those beside it. */
export function way(cells: readonly string[], columns: number): string {
  const isMarked = (cell: number) => MARKS.includes(cells[cell] || " ");
  return cells
    .map((_, cell) => {
      if (!isMarked(cell)) return "";
      const [x, y] = at(cell, columns);
      const begin = `M${x + 0.5} ${y + 0.5}`;
      const dot = cells[cell] === "o" ? `${begin}h.001` : "";
      const joins = (other: number) => isMarked(other) && (cells[cell] === "o" || cells[other] === "o");
      const right = x + 1 < columns && joins(cell + 1) ? `${begin}h1` : "";
      const down = cell + columns < cells.length && joins(cell + columns) ? `${begin}v1` : "";
      return dot + right + down;
    })
    .join("");
}

/** The cells that hold one of these. */
export function holding(cells: readonly string[], letters: string): number[] {
  return cells.flatMap((letter, cell) => (letter !== "" && letters.includes(letter) ? [cell] : []));
}

/** The start and the goal, with where they are. */
export function ends(cells: readonly string[], columns: number): { letter: string; x: number; y: number }[] {
  return holding(cells, ENDS).map((cell) => {
    const [x, y] = at(cell, columns);
    return { letter: cells[cell]!, x: x + 0.5, y: y + 0.5 };
  });
}

/** How many rows and columns of a grid of colours have something. The rest of its cells are none. */
export function extent(cells: readonly string[], columns: number): { rows: number; columns: number } {
  const filled = cells.flatMap((letter, cell) => (letter === "" ? [] : [at(cell, columns)]));
  return { columns: Math.max(0, ...filled.map(([x]) => x + 1)), rows: Math.max(0, ...filled.map(([, y]) => y + 1)) };
}

/** Colours in rows as letters of a grid. */
export function lettersOf(rows: readonly (readonly number[])[]): { cells: string[]; rows: number; columns: number } {
  return { cells: rows.flat().map(String), rows: rows.length, columns: rows[0]?.length ?? 0 };
}

/** The colours of ARC, each of which has a digit. */
export const COLOURS = "0123456789";

/** Whether a digit on a colour is light. */
export const isLight = (colour: string): boolean => !"45678".includes(colour);
