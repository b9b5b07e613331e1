// What a model shows of itself: one form each.

import type { Exhibit } from "../../api";

export type { Exhibit, ExhibitView as Shown } from "../../api";

/** The pixels as a canvas takes them. Nothing where they are no rectangle. */
export function imageOf({ width, pixels }: Extract<Exhibit, { kind: "image" }>): { width: number; height: number; rgba: Uint8ClampedArray<ArrayBuffer> } | undefined {
  const height = pixels.length / 3 / width;
  if (!Number.isInteger(height) || height === 0) return undefined;
  const rgba = new Uint8ClampedArray(width * height * 4).fill(255);
  pixels.forEach((value, at) => (rgba[Math.floor(at / 3) * 4 + (at % 3)] = value));
  return { width, height, rgba };
}
