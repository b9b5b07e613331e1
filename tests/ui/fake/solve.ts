// Puzzles, and a model that fills them in: it begins with mistakes and mends some of them with each step.

import type { Channel } from "@tauri-apps/api/core";
import type { Board, EventsView, PuzzlesView, PuzzleView, SolvedView, ThinkingView } from "../../../ui/src/api";
import { conflicts, textOf } from "../../../ui/src/features/solve/puzzle";
import { arcPuzzles, heldTask, isTask, mazeBoard, mazePuzzles, randomMaze, readMaze, readTask, solveMaze, solveTask, arcBoard } from "./grids";
import recordedPuzzles from "./answers/puzzles.json";
import { addSet } from "./data";
import { HOME, refuse, type Some, wait } from "./scene";

const DIGITS = "123456789";
/** The steps of thinking the model was trained with. */
const STEPS = 16;

const tokens = (text: string) => [...text].map((letter) => (letter === "." ? 1 : Number(letter) + 1));
const sizeOf = (cells: number) => Math.sqrt(cells);

function boardOf(size: number): Board {
  const boxRows = { 4: 2, 6: 2, 9: 3 }[size] ?? 0;
  return { kind: "sudoku", rows: size, columns: size, box_rows: boxRows, box_columns: size / boxRows, symbols: ["", ".", ...DIGITS.slice(0, size)], blank: 1 };
}

const all = (recordedPuzzles as [string, string][]).map(([cells, solution], at): PuzzleView => ({ number: at + 1, cells: tokens(cells), solution: tokens(solution) }));
const ofSize = (size: number) => all.filter(({ cells }) => cells.length === size * size).map((puzzle, at) => ({ ...puzzle, number: at + 1 }));

let size = 9;
let kind: Board["kind"] = "sudoku";
let isOpen = false;
let isStopped = false;
let builds = 0;

/** The same numbers in the same order. */
function dice(seed: number) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

function thinking(puzzle: PuzzleView, board: Board, step: number, before: number[], of: number): ThinkingView {
  const roll = dice(puzzle.number * 7919 + 17);
  const solvedBy = 9;
  const guess = puzzle.cells.map((cell, at) => {
    const [difficulty, wrong] = [roll(), roll()];
    if (cell !== board.blank) return cell;
    const right = puzzle.solution[at]!;
    if (difficulty * solvedBy < step) return right;
    return 2 + Math.floor(wrong * board.rows + (step % 2 ? 0 : difficulty * 3)) % board.rows;
  });
  const settled = Math.min(1, step / solvedBy);
  return {
    guess,
    confidence: guess.map((cell, at) => (puzzle.cells[at] !== board.blank ? 1 : cell === puzzle.solution[at] ? 0.6 + 0.39 * settled : 0.41)),
    changed: guess.flatMap((cell, at) => (cell !== before[at] ? [at] : [])),
    conflicts: conflicts(board, guess).filter((at) => puzzle.cells[at] === board.blank),
    halt: 0.02 + 0.96 * Math.max(0, settled - 0.12) ** (of > STEPS ? 3 : 4),
    votes: null,
  };
}

/** What a run of puzzles shows of itself after a step: three puzzles, solved better the later it is. */
export function puzzlesShown(step: number, of: number): EventsView["exhibits"] {
  const board = boardOf(9);
  return ofSize(9).slice(0, 3).map((puzzle, at) => {
    // The third is too hard for it.
    const skill = Math.min(1, (1.3 * step) / of) * (at === 2 ? 0.42 : 1);
    const guesses: string[] = [];
    const halts: number[] = [];
    let before = puzzle.cells;
    for (let each = 1; each <= STEPS; each += 1) {
      const { guess, halt } = thinking(puzzle, board, each * skill, before, STEPS);
      guesses.push(textOf(board, guess));
      halts.push(skill < 0.9 ? 0.15 * halt : halt);
      before = guess;
    }
    return { step, exhibit: { kind: "puzzle", title: `Puzzle ${at + 1}`, drawn: "symbols", columns: 9, box_rows: 3, box_columns: 3, given: textOf(board, puzzle.cells), target: textOf(board, puzzle.solution), guesses, halts } };
  });
}

/** What a run of puzzles measured. */
export function puzzlesMeasured(steps: number): EventsView["evaluations"] {
  return Array.from({ length: 17 }, (_, at) => {
    const done = at / 16;
    const solved = 0.786 / (1 + Math.exp(-11 * (done - 0.38))) - 0.006 * (at === 0 ? 1 : 0);
    const share = (name: string, label: string, value: number, of: number | null) => ({ name, label, value: Math.max(0, value), higherIsBetter: true, of });
    return {
      step: Math.round(done * steps),
      loss: 2.39 - 2.02 * done ** 0.6,
      metrics: [share("exact_accuracy", "exact accuracy", solved, 500), share("halting_accuracy", "halting accuracy", 0.9 + 0.092 * done, 500), share("token_accuracy", "token accuracy", 0.32 + 0.65 * done ** 0.5, null)],
      best: at > 0,
    };
  });
}

export const solveAnswers = {
  puzzles: (files, heldOut, from, count, looks): PuzzlesView | null => {
    if (/maze/.test(files[0] ?? "")) return { board: mazeBoard, train: 1000, heldOut: 100, puzzles: mazePuzzles(from, count), looks: mazePuzzles(0, looks) };
    if (/arc/.test(files[0] ?? "")) return { board: arcBoard, train: 6, heldOut: 2, puzzles: arcPuzzles(from, count), looks: arcPuzzles(0, looks) };
    const found = /sudoku-(\d)x/.exec(files[0] ?? "");
    if (!found) return null;
    const puzzles = ofSize(Number(found[1]));
    const shown = (heldOut ? [...puzzles].reverse() : puzzles).slice(0, count).map((puzzle, at) => ({ ...puzzle, number: from + at + 1 }));
    return { board: boardOf(Number(found[1])), train: 1000, heldOut: 500, puzzles: shown, looks: puzzles.slice(1, looks + 1).map((puzzle) => ({ ...puzzle, number: 1 })) };
  },

  buildSudoku: async (size, train, heldOut, seed, progress) => {
    const mine = ++builds;
    for (const share of [0, 0.5, 1]) {
      (progress as unknown as Channel<number>).onmessage(Math.round(share * (train + heldOut)));
      await wait(40);
      if (mine !== builds) return null;
    }
    return addSet(`${HOME}/data/sudoku-${size}x${size}-${train}-${heldOut}-seed-${seed}`, `Sudoku ${size} × ${size}`);
  },
  stopBuild: () => void (builds += 1),

  openSolver: async (name) => {
    await wait(80);
    if (/gone/.test(name)) refuse("the checkpoint was saved by an earlier version, and does not say what its grids are", "resume the run for a few steps; what it saves then can be opened");
    isOpen = true;
    kind = /maze/.test(name) ? "maze" : /arc/.test(name) ? "arc" : "sudoku";
    if (kind === "maze") return { board: mazeBoard, steps: 8, weights: 1_200_000, heldOut: 100, warnings: [] };
    if (kind === "arc") return { board: arcBoard, steps: 8, weights: 7_100_000, heldOut: 2, warnings: [] };
    size = /4x4/.test(name) ? 4 : 9;
    return { board: boardOf(size), steps: size === 4 ? 8 : STEPS, weights: size === 4 ? 803_000 : 5_028_866, heldOut: 500, warnings: [] };
  },
  closeSolver: () => void ((isStopped = true), (isOpen = false)),

  readPuzzle: (text) => (kind === "maze" ? readMaze(text) : readTask(text)),
  readPuzzleFile: (path) => (/bad/.test(path) ? refuse("the task, test pair 1, input: row 2 has 1 cell, and the first has 2") : heldTask(1)),
  randomMaze: (seed) => randomMaze(seed),

  solve: async (text, part, steps, votes, thoughts): Promise<SolvedView> => {
    if (!isOpen) refuse("no puzzle model is open");
    isStopped = false;
    const hear = (thought: ThinkingView) => (thoughts as unknown as Channel<ThinkingView>).onmessage(thought);
    if (kind === "maze") return solveMaze(text, steps, hear);
    if (isTask(text)) return solveTask(text, part, steps, votes, hear);
    const board = boardOf(sizeOf(text.length));
    const cells = tokens(text);
    const known = all.find((puzzle) => puzzle.cells.length === cells.length && cells.every((cell, at) => cell === 1 || cell === puzzle.solution[at]));
    if (!known) refuse("the puzzle has no solution");
    const puzzle = { ...known!, cells };
    let before = cells;
    let solvedAt: number | null = null;
    let haltsAt: number | null = null;
    for (let step = 1; step <= steps && !isStopped; step += 1) {
      await wait(2);
      const thought = thinking(puzzle, board, step, before, steps);
      before = thought.guess;
      if (thought.guess.every((cell, at) => cell === puzzle.solution[at])) solvedAt ??= step;
      else solvedAt = null;
      if (thought.halt > 0.5) haltsAt ??= step;
      thoughts.onmessage(thought);
    }
    const given = cells.filter((cell) => cell !== 1).length;
    const warnings = given < 17 && size === 9 ? ["This puzzle has more than one solution. The model learned from puzzles with one; any grid that keeps the rules counts as solved."] : [];
    return { puzzle: cells, solution: puzzle.solution, solvedAt, haltsAt, looks: votes, way: null, answers: [], warnings };
  },
  stopSolving: () => void (isStopped = true),

  heldOutPuzzle: (number) => {
    if (kind === "maze") return { ...randomMaze(number), number };
    if (kind === "arc") return { ...heldTask(number), number };
    const puzzles = ofSize(size);
    const { cells } = puzzles[(number - 1) % puzzles.length]!;
    return { number, text: textOf(boardOf(size), cells), cells, task: null, warnings: [] };
  },

  countSolved: async (steps, progress) => {
    (progress as unknown as Channel<number>).onmessage(32);
    await wait(30);
    return { of: 200, marks: steps.map((step, at) => ({ steps: step, solved: 157 + [0, 4, 7, 7][at]! })) };
  },
} satisfies Some;
