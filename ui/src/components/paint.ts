// What a chart draws on its canvas, and how much of it.

import { countBelow } from "../lib/ordered";

/** Values that a chart can ask for what its pixels show of them. NaN is a gap. */
export interface Values {
  readonly values: number[];
  /** The places that show from `first` up to and without `end` with about `most` pixels, in order. */
  pick(first: number, end: number, most: number): number[];
}

/** Something to draw. The arrays may grow in place. */
export interface Line {
  /** In order. */
  xs: number[];
  /** What one of `xs` is on the axis. 1 when it is not said. */
  unit?: number;
  ys: Values;
  /** A line in the background, a line, dots, or a line with dots. */
  look: "thin" | "line" | "dots" | "dotted";
  /** The token of its colour. */
  colour: string;
  /** Lengths of dashes and gaps, in pixels. */
  dash?: number[];
  shape?: Shape;
  /** Up to where it would go on: a dotted line hints at that. */
  until?: number;
  /** Writes its last value at its end. */
  write?: (value: number) => string;
}

export const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "ring"] as const;
export type Shape = (typeof SHAPES)[number];

/** The part of a line that is seen. */
export interface Seen {
  line: Line;
  picked: number[];
}

/** From a value to a pixel of the canvas. */
export interface Frame {
  ctx: CanvasRenderingContext2D;
  /** Pixels of the canvas for one of the page. */
  ratio: number;
  x: (value: number) => number;
  y: (value: number) => number;
  left: number;
  top: number;
  width: number;
  height: number;
  colour: (token: string) => string;
  font: string;
}

/** Dots are at least so many pixels apart on average. */
const DOTS_APART = 12;

/** What is seen of lines from `from` to `to` on so many pixels. */
export function look(lines: Line[], from: number, to: number, pixels: number): Seen[] {
  return lines.map((line) => {
    const { xs, unit = 1 } = line;
    // One more on either side: lines continue beyond the edge.
    const first = Math.max(countBelow(xs, from / unit) - 1, 0);
    const end = Math.min(countBelow(xs, to / unit) + 2, xs.length, line.ys.values.length);
    if (end <= first) return { line, picked: [] };
    const covered = (Math.min(xs[end - 1]! * unit, to) - Math.max(xs[first]! * unit, from)) / (to - from);
    // Noise is drawn densely enough to leave no gaps between the lowest and the highest values.
    const apart = line.look === "dots" || line.look === "dotted" ? DOTS_APART : line.look === "thin" ? 0.5 : 1;
    const picked = line.ys.pick(first, end, Math.max((covered * pixels) / apart, 4));
    // Whichever values of a block are shown, a line ends with its last.
    if (picked.at(-1) !== end - 1) picked.push(end - 1);
    return { line, picked };
  });
}

/** The lowest and highest value seen. Of the noise of thin lines, the furthest hundredth is left out. */
export function extent(seen: Seen[], positive: boolean): [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (const { line, picked } of seen) {
    const values = Float64Array.from(picked, (at) => line.ys.values[at]!).filter((value) => value > (positive ? 0 : -Infinity));
    if (values.length === 0) continue;
    values.sort();
    const out = line.look === "thin" ? Math.floor(values.length / 100) : 0;
    low = Math.min(low, values[out]!);
    high = Math.max(high, values[values.length - 1 - out]!);
  }
  return low <= high ? [low, high] : undefined;
}

export function paint(frame: Frame, seen: Seen[]) {
  const { ctx, ratio } = frame;
  clipped(frame, 0, () => {
    ctx.lineJoin = "round";
    for (const { line, picked } of seen) {
      if (line.look !== "dots") stroke(frame, line, picked);
      if (line.until) hint(frame, line, line.until);
    }
  });
  // One at the end of the axis is whole.
  clipped(frame, 5 * ratio, () => {
    for (const { line, picked } of seen) if (line.look === "dots" || line.look === "dotted") dots(frame, line, picked);
  });
  for (const { line, picked } of seen) write(frame, line, picked);
}

/** Draws what lies in the frame, or so many pixels beside it. */
function clipped({ ctx, left, top, width, height, ratio }: Frame, beside: number, draw: () => void) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left - beside, top - 5 * ratio, width + 2 * beside, height + 10 * ratio);
  ctx.clip();
  draw();
  ctx.restore();
}

/** Hints that a line goes on, level, as far as its end is seen. */
function hint({ ctx, ratio, x, y, colour }: Frame, { xs, unit = 1, ys }: Line, until: number) {
  const at = lastKnown(xs, ys);
  if (at < 0 || xs[at]! * unit >= until) return;
  ctx.beginPath();
  ctx.moveTo(x(xs[at]! * unit) + 6 * ratio, y(ys.values[at]!));
  ctx.lineTo(x(until), y(ys.values[at]!));
  ctx.strokeStyle = colour("--ink-3");
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([1.5 * ratio, 4 * ratio]);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Where the last value stands that is known, or -1. */
function lastKnown(xs: number[], { values }: Values): number {
  let at = Math.min(xs.length, values.length) - 1;
  while (at >= 0 && values[at] !== values[at]) at -= 1;
  return at;
}

function stroke(frame: Frame, line: Line, picked: number[]) {
  const { ctx, ratio, x, y } = frame;
  const { xs, unit = 1, ys } = line;
  ctx.beginPath();
  let drawn = false;
  for (const at of picked) {
    const value = ys.values[at]!;
    if (value !== value) drawn = false;
    else if (drawn) ctx.lineTo(x(xs[at]! * unit), y(value));
    else {
      ctx.moveTo(x(xs[at]! * unit), y(value));
      drawn = true;
    }
  }
  ctx.strokeStyle = frame.colour(line.colour);
  ctx.lineWidth = (line.look === "thin" ? 1 : 2) * ratio;
  ctx.globalAlpha = line.look === "thin" ? 0.7 : 1;
  ctx.setLineDash((line.dash ?? []).map((length) => length * ratio));
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

function dots(frame: Frame, line: Line, picked: number[]) {
  const { ctx, ratio, x, y } = frame;
  const { xs, unit = 1, ys } = line;
  ctx.beginPath();
  for (const at of picked) {
    const value = ys.values[at]!;
    if (value === value) trace(ctx, line.shape ?? "circle", x(xs[at]! * unit), y(value), 3.2 * ratio);
  }
  const colour = frame.colour(line.colour);
  ctx.fillStyle = line.look === "dotted" && line.shape !== "ring" ? colour : frame.colour("--surface");
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * ratio;
  ctx.fill();
  ctx.stroke();
}

/** Adds a shape to the path, about `r` from its middle to its edge. */
function trace(ctx: CanvasRenderingContext2D, shape: Shape, x: number, y: number, r: number) {
  const corners: Partial<Record<Shape, [number, number][]>> = {
    square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]],
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  };
  const path = corners[shape];
  if (path) {
    path.forEach(([dx, dy], at) => ctx[at === 0 ? "moveTo" : "lineTo"](x + dx * r, y + dy * r));
    ctx.closePath();
  } else if (shape === "cross") {
    for (const [dx, dy] of [[1, 1], [1, -1]] as const) {
      ctx.moveTo(x - dx * r, y - dy * r);
      ctx.lineTo(x + dx * r, y + dy * r);
    }
  } else {
    ctx.moveTo(x + r, y);
    ctx.arc(x, y, r, 0, 2 * Math.PI);
  }
}

/** Writes the last value of a line beside its end, or above it where there is no room beside it. */
function write(frame: Frame, line: Line, picked: number[]) {
  if (!line.write || picked.length === 0) return;
  const { ctx, ratio, x, y, left, width } = frame;
  const at = lastKnown(line.xs, line.ys);
  const end = x((line.xs[at] ?? NaN) * (line.unit ?? 1));
  const value = line.ys.values[at] ?? NaN;
  if (value !== value || !(end <= left + width + 1 && end >= left)) return;
  // Behind what hints that it goes on, and behind a dot at its end.
  const beside = Math.max(end, line.until ? Math.min(x(line.until), left + width) : 0) + 9 * ratio;
  const text = line.write(value);
  ctx.save();
  ctx.font = `600 ${11 * ratio}px ${frame.font}`;
  ctx.fillStyle = frame.colour("--ink");
  ctx.strokeStyle = frame.colour("--surface");
  ctx.lineWidth = 4 * ratio;
  ctx.lineJoin = "round";
  ctx.textBaseline = "middle";
  const fits = beside + ctx.measureText(text).width <= ctx.canvas.width;
  ctx.textAlign = fits ? "left" : "right";
  const place = [fits ? beside : end, y(value) - (fits ? 0 : 14 * ratio)] as const;
  ctx.strokeText(text, ...place);
  ctx.fillText(text, ...place);
  ctx.restore();
}
