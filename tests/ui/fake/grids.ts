// Mazes and tasks of ARC, and models that solve them step by step.

import type { Board, PairView, PuzzleView, QuestionView, SolvedView, ThinkingView } from "../../../ui/src/api";
import { lackOf } from "../../../ui/src/features/solve/puzzle";
import { refuse } from "./scene";

const SIZE = 12;
const LETTERS = ["", "#", " ", "S", "G", "o"];
const FREE = 2;
const PATH = 5;

export const mazeBoard: Board = { kind: "maze", rows: SIZE, columns: SIZE, box_rows: 0, box_columns: 0, symbols: LETTERS, blank: FREE };
export const arcBoard: Board = { kind: "arc", rows: 30, columns: 30, box_rows: 0, box_columns: 0, symbols: ["", "", ..."0123456789"], blank: 0 };

/** One maze; others are this one mirrored. Dots are its shortest path. */
const MAZE = ["S..#....#   ", "##.# ##.#.##", "   . #...#.#", " #...###....", " ### #  # ##", "   # # #   .", "##   # # #.G", "   #   # #  ", " #### #### #", "      #     ", " #### # ### ", "    #   #   "].map((row) => [...row]);

function cellsOf(mirrored: boolean): { cells: number[]; solution: number[] } {
  const letters = MAZE.flatMap((row) => (mirrored ? [...row].reverse() : row));
  const cells = letters.map((letter) => (letter === "." ? FREE : Math.max(LETTERS.indexOf(letter), FREE * Number(letter === " ")))).map((cell) => (cell < 1 ? FREE : cell));
  return { cells, solution: solved(cells) };
}

/** A maze with its shortest path. */
function solved(cells: number[]): number[] {
  const [start, goal] = [cells.indexOf(3), cells.indexOf(4)];
  const from = new Map<number, number>([[start, start]]);
  const next = [start];
  for (let cell = next.shift(); cell !== undefined; cell = next.shift()) {
    const column = cell % SIZE;
    for (const other of [cell - SIZE, ...(column > 0 ? [cell - 1] : []), ...(column < SIZE - 1 ? [cell + 1] : []), cell + SIZE]) {
      if (other < 0 || other >= cells.length || cells[other] === 1 || from.has(other)) continue;
      from.set(other, cell);
      next.push(other);
    }
  }
  const answer = [...cells];
  if (!from.has(goal)) return answer;
  for (let cell = from.get(goal)!; cell !== start; cell = from.get(cell)!) answer[cell] = PATH;
  return answer;
}

const textOf = (cells: number[]) => cells.map((cell) => LETTERS[cell]).join("");

export function mazePuzzles(from: number, count: number): PuzzleView[] {
  return Array.from({ length: count }, (_, at) => ({ number: from + at + 1, ...cellsOf((from + at) % 2 === 1) }));
}

export function randomMaze(seed: number): QuestionView {
  const { cells } = cellsOf(seed % 2 === 1);
  return { number: null, text: textOf(cells), cells, task: null, warnings: [] };
}

export function readMaze(text: string): QuestionView {
  const letters = [...text.replaceAll("\n", "")];
  if (letters.length !== SIZE * SIZE) refuse(`the maze has ${letters.length} cells, and the model’s have ${SIZE} rows of ${SIZE}: ${SIZE * SIZE}`);
  const cells = letters.map((letter) => (letter === "." ? FREE : LETTERS.indexOf(letter)));
  const lack = lackOf(mazeBoard, cells);
  if (lack) refuse(lack);
  return { number: null, text, cells, task: null, warnings: [] };
}

export function solveMaze(text: string, steps: number, hear: (thought: ThinkingView) => void): SolvedView {
  const { cells } = readMaze(text);
  const solution = solved(cells);
  const path = solution.flatMap((cell, at) => (cell === PATH ? [at] : []));
  let before = cells;
  for (let step = 1; step <= steps; step += 1) {
    const found = Math.min(path.length, Math.ceil((path.length * step) / 5));
    const astray = step < 4 ? cells.flatMap((cell, at) => (cell === FREE && !path.includes(at) && at % (5 + step) === 0 ? [at] : [])) : [];
    const guess = cells.map((cell, at) => (path.indexOf(at) >= 0 && path.indexOf(at) < found ? PATH : astray.includes(at) ? PATH : cell));
    hear({ guess, confidence: guess.map(() => 0.7), changed: guess.flatMap((cell, at) => (cell === before[at] ? [] : [at])), conflicts: astray, halt: step < 5 ? 0.1 * step : 0.96, votes: null });
    before = guess;
  }
  const done = steps >= 5;
  return { puzzle: cells, solution, solvedAt: done ? 5 : null, haltsAt: done ? 5 : null, looks: 1, way: { length: done ? path.length + 1 : null, shortest: path.length + 1 }, answers: [], warnings: [] };
}

/** The rule of both: what is 1 becomes the colour of the corner. */
const TASKS: { name: string; train: PairView[]; test: PairView[] }[] = [2, 8].map((colour, at) => {
  const pair = (size: number, seed: number): PairView => {
    const cell = (row: number, column: number) => Number((row * 7 + column * 5 + seed) % 3 === 0);
    const input = Array.from({ length: size }, (_, row) => Array.from({ length: size + at }, (_, column) => (row + column === 0 ? colour : cell(row, column))));
    return { input, output: input.map((row) => row.map((cell) => (cell === 1 ? colour : cell))) };
  };
  return { name: ["aa11bb22", "cc33dd44"][at]!, train: [pair(3, 1), pair(5, 2), pair(4, 4)], test: at === 0 ? [pair(9, 3)] : [pair(6, 3), pair(7, 5)] };
});

function canvas(rows: number[][]): number[] {
  const cells = Array.from({ length: 900 }, () => 0);
  rows.forEach((row, y) => row.forEach((colour, x) => (cells[y * 30 + x] = colour + 2)));
  return cells;
}

export function arcPuzzles(from: number, count: number): PuzzleView[] {
  const pairs = TASKS.flatMap(({ train }) => train);
  return pairs.slice(from, from + count).map(({ input, output }, at) => ({ number: from + at + 1, cells: canvas(input), solution: canvas(output!) }));
}

export const isTask = (text: string): boolean => text.startsWith("{");

export function heldTask(number: number): QuestionView {
  const task = TASKS[(number - 1) % TASKS.length]!;
  return { number: null, text: JSON.stringify(task), cells: canvas(task.test[0]!.input), task: { ...task, isKnown: true }, warnings: [] };
}

export function readTask(text: string): QuestionView {
  const named = TASKS.findIndex(({ name }) => name === text);
  if (named >= 0) return heldTask(named + 1);
  if (!isTask(text)) refuse(`there is no task “${text}” among those that the model learned from: 2 tasks, such as aa11bb22, cc33dd44`);
  const { name = "", train, test } = JSON.parse(text) as { name?: string; train: PairView[]; test?: PairView[] };
  if (!test || test.length === 0) return refuse("the task has no test input");
  const ragged = test[0]!.input.findIndex((row) => row.length !== test[0]!.input[0]!.length);
  if (ragged > 0) return refuse(`the task, test pair 1, input: row ${ragged + 1} has ${test[0]!.input[ragged]!.length} cells, and the first has ${test[0]!.input[0]!.length}`);
  const isKnown = TASKS.some((task) => task.name === name);
  const warnings = isKnown ? [] : ["The model did not learn from this task. It has a vector for each task that it learned from and none for this one, so it starts from the mean of all. Published models of this kind solve no task that is new to them."];
  return { number: null, text, cells: canvas(test[0]!.input), task: { name, isKnown, train, test: test.map(({ input, output }) => ({ input, output: output ?? null })) }, warnings };
}

export function solveTask(text: string, part: number, steps: number, votes: number, hear: (thought: ThinkingView) => void): SolvedView {
  const { task, warnings } = readTask(text);
  const { input, output } = task!.test[part]!;
  const right = output ?? input;
  const wrong = right.map((row, y) => row.map((colour, x) => ((x + y) % 4 === 3 ? 0 : colour)));
  let before = Array.from({ length: 900 }, () => 0);
  for (let step = 1; step <= steps; step += 1) {
    const guess = canvas(step < 3 ? wrong.slice(0, 1 + step) : step < 5 ? wrong : right);
    hear({ guess, confidence: guess.map(() => 0.8), changed: guess.flatMap((cell, at) => (cell === before[at] ? [] : [at])), conflicts: [], halt: step < 5 ? 0.05 * step : 0.9, votes: Math.min(votes, step) });
    before = guess;
  }
  const answers = [
    { rows: right, votes: Math.max(1, votes - 2), sure: 0.9, isRight: output ? true : null },
    { rows: wrong, votes: 2, sure: 0.4, isRight: output ? false : null },
  ];
  return { puzzle: canvas(input), solution: output ? canvas(output) : null, solvedAt: output && steps >= 5 ? 5 : null, haltsAt: steps >= 5 ? 5 : null, looks: votes, way: null, answers: answers.slice(0, votes > 2 ? 2 : 1), warnings };
}
