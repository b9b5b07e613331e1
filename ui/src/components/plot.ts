// The canvas of a chart with its axes and its pointer.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { logTicks, ticks } from "../lib/scale";
import { paint, type Seen } from "./paint";

/** What a plot shows. It is asked for each time, since it changes all the time. */
export interface Shown {
  /** What is seen of the lines. */
  seen: Seen[];
  /** The part of the axes that is shown. */
  view: [number, number];
  range: [number, number];
  wholeX: boolean;
  formatX: (value: number) => string;
  formatY: (values: number[]) => string[];
}

export interface Hooks {
  /** Where the pointer stands when it is held at `left`. */
  snapped: (left: number) => number;
  /** The pointer moved. */
  point: () => void;
  /** A part was chosen by dragging. */
  select: (from: number, to: number) => void;
  /** All of it is to be shown again. */
  reset: () => void;
}

/** The colours as the canvas needs them. A token has a light and a dark side; this gives the one that shows. */
export class Colours {
  readonly #host: HTMLElement;
  readonly #known = new Map<string, string>();

  constructor(host: HTMLElement) {
    this.#host = host;
  }

  of = (token: string): string => {
    const known = this.#known.get(token);
    if (known !== undefined) return known;
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    this.#host.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    this.#known.set(token, value);
    return value;
  };

  forget() {
    this.#known.clear();
  }
}

export function plotIn(host: HTMLElement, height: number, log: boolean, colours: Colours, shown: () => Shown, hooks: Hooks): uPlot {
  const { fontFamily: font } = getComputedStyle(host);
  const axis: uPlot.Axis = { stroke: () => colours.of("--ink-3"), ticks: { show: false }, font: `11px ${font}` };
  const brush = (u: uPlot) => {
    const { seen, view, range } = shown();
    const { left, top, width, height } = u.bbox;
    const up = (value: number) => (log ? Math.log10(value) : value);
    const [low, high] = [up(range[0]), up(range[1])];
    const x = (value: number) => left + ((value - view[0]) / (view[1] - view[0])) * width;
    const y = (value: number) => top + (1 - (up(value) - low) / (high - low)) * height;
    paint({ ctx: u.ctx, ratio: uPlot.pxRatio, x, y, left, top, width, height, colour: colours.of, font }, seen);
  };
  const select = (u: uPlot) => {
    const { left, width } = u.select;
    if (width > 0) hooks.select(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  };
  return new uPlot(
    {
      width: host.clientWidth,
      height,
      // A value that is written at the end of a line stands there.
      padding: [12, () => (shown().seen.some(({ line }) => line.write) ? 48 : 16), 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        move: (_, left, top) => [hooks.snapped(left), top],
        bind: {
          dblclick: () => () => {
            hooks.reset();
            return null;
          },
        },
      },
      scales: { x: { time: false, range: () => shown().view }, y: { distr: log ? 3 : 1, range: () => shown().range } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 28,
          splits: (u, _, low, high) => ticks(low, high, Math.max(2, Math.floor(u.width / 180)), shown().wholeX),
          values: (_, values) => values.map((value) => shown().formatX(value)),
        },
        {
          ...axis,
          grid: { stroke: () => colours.of("--line"), width: 1 },
          size: 46,
          splits: (_, __, low, high) => (log ? logTicks : ticks)(low, high, 7),
          filter: (_, values) => values,
          values: (_, values) => shown().formatY(values),
        },
      ],
      // The lines are drawn by `brush`; this one has the axes follow.
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [brush], setCursor: [hooks.point], setSelect: [select] },
    },
    data(shown()),
    host,
  );
}

/** The data that has the axes follow what is shown. */
export function data({ view, range }: Shown): uPlot.AlignedData {
  return [[...view], [...range]];
}
