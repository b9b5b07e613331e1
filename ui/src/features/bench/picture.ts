// A benchmark as a picture that says all that is needed to read it: what was measured, on what, when, and in which units.

import type { BenchView } from "../../api";
import { date } from "../../lib/format";
import { colourOf, groupsOf, shortNames, type Bar, type Group } from "./bars";
import { sizeOf } from "./words";

/** Pixels of the picture for one of the page. */
const RATIO = 2;
const WIDTH = 1120;
const EDGE = 36;
const APART = 44;
const COLUMN = (WIDTH - 2 * EDGE - APART) / 2;
/** The columns of a bar: what it is, which is as wide as the widest up to here, itself, and its rate. */
const LABEL = 240;
const VALUE = 108;
const TITLE = 26;
const ROW = 21;
const AXIS = 16;
const BETWEEN = 20;

/** What is drawn with. */
interface Pen {
  ctx: CanvasRenderingContext2D;
  colour: (token: string) => string;
  font: string;
  /** The width of the labels. */
  label: number;
}

type Align = "left" | "right" | "center";

const heightOf = ({ bars }: Group) => TITLE + bars.length * ROW + AXIS + BETWEEN;
const sum = (groups: Group[]) => groups.reduce((all, group) => all + heightOf(group), 0);

/** The groups in two columns, in order, so that the higher one is as low as can be. */
export function inColumns(groups: Group[]): [Group[], Group[]] {
  const cut = (left: number): [Group[], Group[]] => [groups.slice(0, left), groups.slice(left)];
  const heightAt = (left: number) => Math.max(...cut(left).map(sum));
  const cuts = groups.map((_, at) => at + 1);
  return cut(cuts.reduce((best, left) => (heightAt(left) < heightAt(best) ? left : best), cuts[0] ?? 0));
}

/** The bytes of a PNG. */
export async function pictureOf(bench: BenchView, colour: Pen["colour"], font: string): Promise<Uint8Array> {
  const columns = inColumns(groupsOf(bench.devices));
  const names = shortNames(bench.devices);
  const lines = headOf(bench);
  const head = EDGE + 34 + (lines.length + bench.devices.length) * 20 + 22;
  const height = head + Math.max(...columns.map(sum)) + EDGE - BETWEEN;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH * RATIO, height * RATIO];
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("could not draw the picture: there is no canvas");
  const pen: Pen = { ctx, colour, font, label: 0 };
  pen.label = Math.min(LABEL, 16 + Math.max(0, ...columns.flat().flatMap(({ bars }) => bars.map((bar) => widthOf(pen, bar)))));
  ctx.scale(RATIO, RATIO);
  ctx.fillStyle = colour("--surface");
  ctx.fillRect(0, 0, WIDTH, height);
  ctx.textBaseline = "middle";
  write(pen, "Anneal benchmark", EDGE, EDGE + 10, { size: 20, weight: 700 });
  let y = EDGE + 40;
  bench.devices.forEach(({ name }, at) => {
    square(pen, EDGE, y - 5, colourOf(at));
    const after = write(pen, names[at] ?? "", EDGE + 17, y, { weight: 600 });
    write(pen, name, after + 7, y, { token: "--ink-2" });
    y += 20;
  });
  for (const line of lines) {
    write(pen, line, EDGE, y, { token: "--ink-2" });
    y += 20;
  }
  columns.forEach((groups, at) => {
    let top = head;
    for (const group of groups) {
      drawGroup(pen, group, EDGE + at * (COLUMN + APART), top);
      top += heightOf(group);
    }
  });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("could not draw the picture: it is too large");
  return new Uint8Array(await blob.arrayBuffer());
}

/** What a reader has to know of it. */
function headOf(bench: BenchView): string[] {
  const when = date(new Date(bench.time), new Date(0));
  const facts = [when, bench.system, `Anneal ${bench.version}`, `size ${sizeOf(bench).toLowerCase()}`];
  if (bench.power) facts.push(bench.power);
  return [facts.join(" · "), "Bars: the median step. Whiskers: the middle half of the steps. More is faster."];
}

function drawGroup(pen: Pen, group: Group, x: number, y: number) {
  const { ctx, colour } = pen;
  const from = x + pen.label;
  const width = COLUMN - pen.label - VALUE;
  const at = (value: number) => from + (value / group.top) * width;
  const after = write(pen, group.title, x, y + 10, { weight: 600 });
  write(pen, group.about, after + 8, y + 10, { token: "--ink-2", size: 12, most: x + COLUMN - after - 8 });
  const top = y + TITLE;
  const bottom = top + group.bars.length * ROW;
  ctx.fillStyle = colour("--line");
  for (const { value } of group.ticks) ctx.fillRect(at(value) - 0.5, top, 1, bottom - top);
  group.bars.forEach((bar, row) => drawBar(pen, bar, x, top + row * ROW + ROW / 2, at));
  for (const { value, text } of group.ticks) write(pen, text, at(value), bottom + 9, { token: "--ink-3", size: 11, align: "center" });
  write(pen, group.unit, x + COLUMN, bottom + 9, { token: "--ink-3", size: 11, align: "right" });
}

function drawBar(pen: Pen, bar: Bar, x: number, y: number, at: (value: number) => number) {
  const { ctx, colour } = pen;
  const after = write(pen, bar.name, x, y, { size: 12, weight: 600 });
  write(pen, bar.detail, after + 5, y, { size: 12, most: x + pen.label - 10 - after - 5 });
  write(pen, bar.text, x + COLUMN, y, { size: 12, align: "right", token: bar.problem ? "--ink-2" : "--ink" });
  if (bar.problem) return;
  ctx.fillStyle = colour(colourOf(bar.device));
  ctx.beginPath();
  ctx.roundRect(at(0), y - 6, at(bar.value) - at(0), 12, 2);
  ctx.fill();
  for (const [token, width] of [["--surface", 3.5], ["--ink", 1.2]] as const) {
    ctx.strokeStyle = colour(token);
    ctx.lineWidth = width;
    ctx.lineCap = "square";
    ctx.beginPath();
    ctx.moveTo(at(bar.low), y);
    ctx.lineTo(at(bar.high), y);
    for (const end of [bar.low, bar.high]) {
      ctx.moveTo(at(end), y - 3.5);
      ctx.lineTo(at(end), y + 3.5);
    }
    ctx.stroke();
  }
}

function square({ ctx, colour }: Pen, x: number, y: number, token: string) {
  ctx.fillStyle = colour(token);
  ctx.beginPath();
  ctx.roundRect(x, y, 10, 10, 2);
  ctx.fill();
}

function widthOf({ ctx, font }: Pen, { name, detail }: Bar): number {
  ctx.font = `600 12px ${font}`;
  const { width } = ctx.measureText(name);
  ctx.font = `400 12px ${font}`;
  return width + 5 + ctx.measureText(detail).width;
}

interface Look {
  size?: number;
  weight?: number;
  token?: string;
  align?: Align;
  /** How wide it may be; what is wider is made narrower. */
  most?: number;
}

/** Writes, and returns where it ends. */
function write({ ctx, colour, font }: Pen, text: string, x: number, y: number, look: Look): number {
  const { size = 13, weight = 400, token = "--ink", align = "left", most } = look;
  ctx.font = `${weight} ${size}px ${font}`;
  ctx.fillStyle = colour(token);
  ctx.textAlign = align;
  ctx.fillText(text, x, y, most);
  return x + ctx.measureText(text).width;
}
