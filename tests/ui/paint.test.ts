// What a chart draws, and where it is cut.

import { expect, test } from "vitest";

import { look, paint, type Frame, type Line } from "../../ui/src/components/paint";

/** A canvas that keeps what is asked of it. */
function canvas() {
  const calls: [string, ...number[]][] = [];
  const ctx = new Proxy({ canvas: { width: 400 } } as Record<string, unknown>, {
    get: (known, name: string) => known[name] ?? ((...given: number[]) => calls.push([name, ...given])),
  });
  return { ctx: ctx as unknown as CanvasRenderingContext2D, calls };
}

test("the last dot at the end of an axis is whole, and nothing is drawn further out than 5 pixels", () => {
  const { ctx, calls } = canvas();
  const ratio = 2;
  const frame: Frame = { ctx, ratio, x: (value) => 20 + value, y: (value) => 20 + value, left: 20, top: 20, width: 100, height: 50, colour: (token) => token, font: "Inter" };
  const ys = { values: [10, 20, 30], pick: () => [0, 1, 2] };
  const line: Line = { xs: [0, 50, 100], ys, look: "dotted", colour: "--blue" };
  paint(frame, look([line], 0, 100, 100));

  // Lines end with the frame.
  expect(calls.filter(([name]) => name === "rect")).toEqual([["rect", 20, 10, 100, 70], ["rect", 10, 10, 120, 70]]);
  expect(calls.filter(([name]) => name === "clip" || name === "restore").map(([name]) => name)).toEqual(["clip", "restore", "clip", "restore"]);
  const arcs = calls.filter(([name]) => name === "arc");
  expect(arcs.map(([, x]) => x)).toEqual([20, 70, 120]);
  // Half of its edge lies outside it.
  const [, x = 0, , r = 0] = arcs.at(-1) ?? ["arc"];
  expect(x + r + (1.5 * ratio) / 2).toBeLessThanOrEqual(120 + 5 * ratio);
});
