// Pictures as the app sends them, and as a canvas takes them.

import type { HeatMap } from "../api";

/** Red, green and blue of each pixel, row by row, as base64. */
export interface Pixels {
  /** Pixels of a row. */
  width: number;
  pixels: string;
}

export interface Raster {
  width: number;
  height: number;
  rgba: Uint8ClampedArray<ArrayBuffer>;
}

/** Bytes from base64. None where it is something else. */
export function bytesOf(base64: string): Uint8Array {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** Base64 of bytes, piece by piece: a call takes only so many arguments. */
export function base64Of(bytes: Uint8Array): string {
  const PIECE = 0x8000;
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}

/** The pixels as a canvas takes them. Nothing where they are no rectangle. */
export function rasterOf({ width, pixels }: Pixels): Raster | undefined {
  const bytes = bytesOf(pixels);
  const height = bytes.length / 3 / width;
  if (!Number.isInteger(height) || height === 0) return undefined;
  const rgba = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let from = 0, to = 0; from < bytes.length; from += 3, to += 4) rgba.set(bytes.subarray(from, from + 3), to);
  return { width, height, rgba };
}

export type Colour = readonly [number, number, number];

/** A colour as `#rrggbb`. */
export function colourOf(hex: string): Colour {
  const value = Number.parseInt(hex.trim().slice(1), 16) || 0;
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** How much of what speaks strongest is seen of the colour above a picture. */
const STRONGEST = 0.78;
/** Points along the longer side of what glows, so that places have no edges. */
const POINTS = 56;
/** How far a place reaches, in places: so far that a slope between two has no dent. */
const REACH = 0.62;

/** Strengths of places, from 0 to 1, at more points between them. */
function between(strengths: Uint8Array, rows: number, columns: number, times: number): Float64Array {
  const [height, width] = [rows * times, columns * times];
  /** Which places weigh how much at each point of a side. */
  const weights = (places: number) =>
    Array.from({ length: places * times }, (_, point) => {
      const at = (point + 0.5) / times - 0.5;
      const near = Array.from({ length: 5 }, (_, step) => Math.round(at) - 2 + step).filter((place) => place >= 0 && place < places);
      const weighed = near.map((place) => ({ place, weight: Math.exp(-((place - at) ** 2) / (2 * REACH * REACH)) }));
      const all = weighed.reduce((sum, { weight }) => sum + weight, 0);
      return weighed.map(({ place, weight }) => ({ place, weight: weight / all }));
    });
  const [down, across] = [weights(rows), weights(columns)];
  const points = new Float64Array(height * width);
  down.forEach((above, y) =>
    across.forEach((beside, x) => {
      let sum = 0;
      for (const row of above) for (const column of beside) sum += row.weight * column.weight * strengths[row.place * columns + column.place]!;
      points[y * width + x] = sum;
    }),
  );
  const most = Math.max(...points);
  return points.map((value) => (most > 0 ? value / most : 0));
}

/** A map as a picture above a picture: what speaks for it glows, from the first colour to the last, and what does not is clear. */
export function glowOf({ rows, columns, strengths }: HeatMap, stops: readonly Colour[]): Raster | undefined {
  const bytes = bytesOf(strengths);
  const last = stops.length - 1;
  if (bytes.length !== rows * columns || bytes.length === 0 || last < 0) return undefined;
  const times = Math.max(1, Math.floor(POINTS / Math.max(rows, columns)));
  const points = between(bytes, rows, columns, times);
  const rgba = new Uint8ClampedArray(points.length * 4);
  points.forEach((heat, at) => {
    const place = heat * last;
    const below = Math.min(Math.floor(place), Math.max(last - 1, 0));
    const [one, other] = [stops[below]!, stops[Math.min(below + 1, last)]!];
    const mixed = one.map((value, channel) => value + (other[channel]! - value) * (place - below));
    rgba.set([...mixed, 255 * STRONGEST * heat], 4 * at);
  });
  return { width: columns * times, height: rows * times, rgba };
}
