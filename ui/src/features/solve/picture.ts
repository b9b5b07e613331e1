// A replay as a picture: the puzzle, and what was made of it after each step that changed something. A maze and a task are drawn as on
// the page.

import type { Board, ThinkingView } from "../../api";
import { edgesOf, shapeOf, symbolsOf } from "../../components/board";
import { COLOURS, crosses, ends, extent, holding, squares, way } from "../../components/cells";

/** Pixels of the picture for one of the page. */
const RATIO = 2;
const SIZE = 190;
const APART = 22;
const EDGE = 28;
const CAPTION = 22;
const COLUMNS = 4;
/** The most grids of a picture: of more steps, those that changed most. */
const MAX = 12;

interface Frame {
  title: string;
  cells: readonly number[];
  changed: readonly number[];
  wrong: readonly number[];
}

/** The grids of the picture, in order: the puzzle, the steps that changed something, and the last. */
export function framesOf(puzzle: readonly number[], thoughts: readonly ThinkingView[]): Frame[] {
  const steps = thoughts.map((thinking, at) => ({ thinking, step: at + 1 }));
  const telling = steps.filter(({ thinking, step }) => thinking.changed.length > 0 || step === 1);
  const most = [...telling].sort((a, b) => b.thinking.changed.length - a.thinking.changed.length).slice(0, MAX - 2);
  const last = telling.at(-1);
  const kept = telling.filter((each) => most.includes(each) || each === last);
  return [
    { title: "Puzzle", cells: puzzle, changed: [], wrong: [] },
    ...kept.map(({ thinking, step }) => ({ title: `Step ${step} · halting ${thinking.halt.toFixed(2)}`, cells: thinking.guess, changed: step === 1 ? [] : thinking.changed, wrong: thinking.conflicts })),
  ];
}

/** The bytes of a PNG. */
export async function pictureOf(board: Board, puzzle: readonly number[], thoughts: readonly ThinkingView[], colour: (token: string) => string, font: string): Promise<Uint8Array> {
  const frames = framesOf(puzzle, thoughts);
  const columns = Math.min(COLUMNS, frames.length);
  const height = (SIZE * board.rows) / board.columns;
  const [across, down] = [SIZE + APART, height + CAPTION + APART];
  const canvas = document.createElement("canvas");
  canvas.width = RATIO * (2 * EDGE + columns * across - APART);
  canvas.height = RATIO * (2 * EDGE + Math.ceil(frames.length / columns) * down - APART);
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("could not draw the picture: there is no canvas");
  ctx.scale(RATIO, RATIO);
  ctx.fillStyle = colour("--surface");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  frames.forEach((frame, at) => {
    ctx.save();
    ctx.translate(EDGE + (at % columns) * across, EDGE + Math.floor(at / columns) * down);
    draw(ctx, board, frame, puzzle, colour, font);
    ctx.restore();
  });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("could not draw the picture: the canvas is empty");
  return new Uint8Array(await blob.arrayBuffer());
}

function draw(ctx: CanvasRenderingContext2D, board: Board, frame: Frame, puzzle: readonly number[], colour: (token: string) => string, font: string) {
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.font = `500 12px ${font}`;
  ctx.fillStyle = colour("--ink-2");
  ctx.fillText(frame.title, 0, 6);
  ctx.translate(0, CAPTION);
  ctx.textAlign = "center";
  if (board.kind === "sudoku") drawSymbols(ctx, board, frame, puzzle, colour, font);
  else drawPicture(ctx, board, frame, colour, font);
}

function drawSymbols(ctx: CanvasRenderingContext2D, board: Board, frame: Frame, puzzle: readonly number[], colour: (token: string) => string, font: string) {
  const shape = shapeOf(board);
  const cell = SIZE / board.columns;
  symbolsOf(board, frame.cells).forEach((symbol, at) => {
    const [x, y] = [(at % board.columns) * cell, Math.floor(at / board.columns) * cell];
    const [isWrong, isGiven] = [frame.wrong.includes(at), puzzle[at] !== board.blank];
    if (isWrong || frame.changed.includes(at)) {
      ctx.fillStyle = colour(isWrong ? "--wrong" : "--changed");
      ctx.fillRect(x, y, cell, cell);
    }
    ctx.font = `${isGiven ? 650 : 400} ${Math.round(cell * 0.58)}px ${font}`;
    ctx.fillStyle = colour(isWrong ? "--bad" : isGiven ? "--ink" : "--blue");
    ctx.fillText(symbol, x + cell / 2, y + cell / 2 + 1);
    const edges = edgesOf(shape, at);
    ctx.fillStyle = colour(edges.left ? "--grid-strong" : "--line");
    if (x > 0) ctx.fillRect(x, y, edges.left ? 1.5 : 0.75, cell);
    ctx.fillStyle = colour(edges.top ? "--grid-strong" : "--line");
    if (y > 0) ctx.fillRect(x, y, cell, edges.top ? 1.5 : 0.75);
  });
  outline(ctx, colour, SIZE, cell * board.rows);
}

function outline(ctx: CanvasRenderingContext2D, colour: (token: string) => string, width: number, height: number) {
  ctx.strokeStyle = colour("--grid-strong");
  ctx.lineWidth = 1.5;
  ctx.strokeRect(0, 0, width, height);
}

/** A maze, or a grid of colours. What is wrong has a cross. */
function drawPicture(ctx: CanvasRenderingContext2D, board: Board, frame: Frame, colour: (token: string) => string, font: string) {
  const letters = symbolsOf(board, frame.cells);
  const isMaze = board.kind === "maze";
  const size = isMaze ? board : extent(letters, board.columns);
  const cell = SIZE / Math.max(size.columns, size.rows, 1);
  const fill = (path: string, token: string) => {
    ctx.fillStyle = colour(token);
    ctx.fill(new Path2D(path));
  };
  const stroke = (path: string, token: string, width: number) => {
    ctx.strokeStyle = colour(token);
    ctx.lineWidth = width;
    ctx.lineCap = "round";
    ctx.lineJoin = "round";
    ctx.stroke(new Path2D(path));
  };
  ctx.save();
  ctx.scale(cell, cell);
  if (isMaze) {
    fill(squares(frame.changed, board.columns), "--changed");
    fill(squares(frame.wrong, board.columns), "--wrong");
    fill(squares(holding(letters, "#"), board.columns), "--wall");
    stroke(way(letters, board.columns), "--blue", 0.34);
  } else {
    for (const each of COLOURS) fill(squares(holding(letters, each), board.columns), `--arc-${each}`);
  }
  ctx.restore();
  for (const { letter, x, y } of isMaze ? ends(letters, board.columns) : []) {
    ctx.font = `650 ${Math.round(cell * 0.9)}px ${font}`;
    ctx.fillStyle = colour("--ink");
    ctx.fillText(letter, x * cell, y * cell);
  }
  ctx.save();
  ctx.scale(cell, cell);
  stroke(crosses(frame.wrong, board.columns), "--bad", 0.13);
  ctx.restore();
  outline(ctx, colour, cell * size.columns, cell * size.rows);
}
