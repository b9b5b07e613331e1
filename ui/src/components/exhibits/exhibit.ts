// What a model shows of itself: one form each, and one component for each form.

export interface Mark {
  row: number;
  column: number;
  meaning: "given" | "right" | "wrong";
}

export interface Text {
  kind: "text";
  title: string;
  text: string;
}

export interface Grid {
  kind: "grid";
  title: string;
  rows: string[][];
  marks: Mark[];
}

export interface Picture {
  kind: "image";
  title: string;
  /** What the model sees in it, and what it shows, if that is known. */
  label: string;
  expected: string | null;
  /** Pixels in a row, and red, green and blue of each. */
  width: number;
  pixels: number[];
}

export interface Figures {
  kind: "table";
  title: string;
  columns: string[];
  rows: string[][];
}

export type Exhibit = Text | Grid | Picture | Figures;

/** Something that a model showed at a step. */
export interface Shown {
  step: number;
  exhibit: Exhibit;
}

/** The pixels as a canvas takes them. Nothing where they are no rectangle. */
export function imageOf({ width, pixels }: Picture): { width: number; height: number; rgba: Uint8ClampedArray<ArrayBuffer> } | undefined {
  const height = pixels.length / 3 / width;
  if (!Number.isInteger(height) || height === 0) return undefined;
  const rgba = new Uint8ClampedArray(width * height * 4).fill(255);
  pixels.forEach((value, at) => (rgba[Math.floor(at / 3) * 4 + (at % 3)] = value));
  return { width, height, rgba };
}
