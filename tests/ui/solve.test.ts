// Puzzles: typed, pasted, filled in by a model, and looked at step by step.

import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, describe, expect, test } from "vitest";

import type { Board, SolvedView, ThinkingView } from "../../ui/src/api";
import { edgesOf, placeOf, shapeOf, symbolsOf } from "../../ui/src/components/board";
import { haltsAt, puzzlesAt, spark, stepOf, type PuzzleShown } from "../../ui/src/features/puzzle/evidence";
import * as puzzle from "../../ui/src/features/puzzle";
import { between, conflicts, drawn, empty, FREE, GOAL, lackOf, linesOf, pasted, START, symbolOf, textOf, WALL } from "../../ui/src/features/solve/puzzle";
import { lastChange, outcomeOf, timeOf } from "../../ui/src/features/solve/said";
import { framesOf } from "../../ui/src/features/solve/picture";
import { crosses, ends, extent, holding, way } from "../../ui/src/components/cells";
import PuzzleSet from "../../ui/src/features/puzzle/PuzzleSet.svelte";
import Evidence from "../../ui/src/features/puzzle/Evidence.svelte";
import { about, meanOf } from "../../ui/src/features/puzzle/words";
import { interval, intervalText, percent } from "../../ui/src/lib/share";
import Data from "../../ui/src/features/data/Data.svelte";
import Run from "../../ui/src/features/runs/Run.svelte";
import { route } from "../../ui/src/routes.svelte";
import { app } from "../../ui/src/status.svelte";
import Solve from "../../ui/src/features/solve/Solve.svelte";
import Train from "../../ui/src/features/train/Train.svelte";
import { draft } from "../../ui/src/features/train/draft.svelte";
import { api, type DataSetView, type RunView } from "../../ui/src/api";
import { install } from "./fake";

const board: Board = { kind: "sudoku", rows: 4, columns: 4, box_rows: 2, box_columns: 2, symbols: ["", ".", "1", "2", "3", "4"], blank: 1 };
const thinking = (guess: number[], changes: Partial<ThinkingView> = {}): ThinkingView => ({ guess, confidence: guess.map(() => 1), changed: [], conflicts: [], halt: 0, votes: null, ...changes });

beforeAll(() => install());

describe("a grid", () => {
  test("is read from what was pasted, whatever stands between its cells", () => {
    const drawn = "1 2 | 3 .\n. . | . .\n----+----\n0 0 | 0 0\n_ _ | _ 4\n";
    const read = pasted(board, drawn);
    expect("cells" in read && textOf(board, read.cells)).toBe("123............4");
    expect("cells" in read && linesOf(board, read.cells)).toBe("123.\n....\n....\n...4");
  });

  test("says what is wrong with what was pasted, by row and column", () => {
    expect(pasted(board, "123")).toEqual({ problem: "The text has 3 cells, and this grid has 16. Use a dot or 0 for an empty cell." });
    expect(pasted(board, "1...........9...")).toEqual({ problem: "“9” in row 4, column 1 is no symbol of this grid. It takes 1 to 4, and a dot or 0 for an empty cell." });
  });

  test("knows which cells break a rule: twice in a row, a column or a box", () => {
    const cells = empty(board);
    const put = (...pairs: [number, string][]) => pairs.reduce((all, [at, key]) => all.with(at, symbolOf(board, key)!), cells);
    expect(conflicts(board, put([0, "1"], [3, "1"]))).toEqual([0, 3]);
    expect(conflicts(board, put([0, "1"], [12, "1"]))).toEqual([0, 12]);
    expect(conflicts(board, put([0, "1"], [5, "1"]))).toEqual([0, 5]);
    expect(conflicts(board, put([0, "1"], [6, "1"], [15, "2"]))).toEqual([]);
    // One without boxes has none to break a rule in.
    expect(conflicts({ ...board, box_rows: 0 }, put([0, "1"], [5, "1"]))).toEqual([]);
  });

  test("takes keys as symbols, and has its boxes where they belong", () => {
    expect([symbolOf(board, "3"), symbolOf(board, "0"), symbolOf(board, "."), symbolOf(board, "7"), symbolOf(board, "Shift")]).toEqual([4, 1, 1, undefined, undefined]);
    const shape = shapeOf(board);
    expect(symbolsOf(board, [1, 2, 0])).toEqual(["", "1", ""]);
    expect(placeOf(shape, 6)).toBe("row 2, column 3");
    expect([edgesOf(shape, 2), edgesOf(shape, 8), edgesOf(shape, 0)]).toEqual([
      { left: true, top: false },
      { left: false, top: true },
      { left: false, top: false },
    ]);
  });
});

const maze: Board = { kind: "maze", rows: 3, columns: 3, box_rows: 0, box_columns: 0, symbols: ["", "#", " ", "S", "G", "o"], blank: FREE };
const cellsOfMaze = (text: string) => [...text].map((letter) => Math.max(maze.symbols.indexOf(letter), 1));

describe("a maze", () => {
  test("says what it lacks until it can be solved", () => {
    expect(lackOf(maze, empty(maze))).toBe("Place a start and a goal.");
    expect(lackOf(maze, cellsOfMaze("S        "))).toBe("Place a goal.");
    expect(lackOf(maze, cellsOfMaze("       G "))).toBe("Place a start.");
    expect(lackOf(maze, cellsOfMaze("S  ###  G"))).toBe("No way leads from the start in row 1, column 1 to the goal in row 3, column 3. Open a wall.");
    expect(lackOf(maze, cellsOfMaze("S  ## G  "))).toBe("");
  });

  test("is drawn on without losing its ends, of which there is one each", () => {
    const cells = cellsOfMaze("S       G");
    expect(drawn(cells, 4, WALL)[4]).toBe(WALL);
    expect(drawn(cells, 0, WALL)).toEqual(cells);
    expect(drawn(cells, 4, START)).toEqual(cellsOfMaze("    S   G"));
    expect(drawn(cells, 0, GOAL).filter((cell) => cell === GOAL)).toEqual([GOAL]);
    // A fast pointer leaves cells out.
    expect(between(0, 8, 3)).toEqual([4, 8]);
    expect(between(0, 2, 3)).toEqual([1, 2]);
  });

  test("is a picture of walls, a way and its ends", () => {
    const letters = [..."So#"].concat([..." o#"], [..." oG"]).map((letter) => (letter === " " ? "" : letter));
    expect(holding(letters, "#")).toEqual([2, 5]);
    expect(ends(letters, 3)).toEqual([{ letter: "S", x: 0.5, y: 0.5 }, { letter: "G", x: 2.5, y: 2.5 }]);
    expect(way(letters, 3)).toBe("M0.5 0.5h1M1.5 0.5h.001M1.5 0.5v1M1.5 1.5h.001M1.5 1.5v1M1.5 2.5h.001M1.5 2.5h1");
    expect(crosses([4], 3)).toBe("M1.25 1.25l.5 .5m0 -.5l-.5 .5");
    expect(extent(["1", "", "", ""], 2)).toEqual({ rows: 1, columns: 1 });
  });

  test("is told by the steps of its path, and a task by the sizes of its grids", () => {
    const shown = { number: 1, cells: cellsOfMaze("S###  G  "), solution: cellsOfMaze("S###o G  ") };
    expect(about(maze, shown)).toBe("2 steps");
    expect(meanOf(maze, [shown])).toEqual({ value: "33 %", rest: "", text: "walls, about" });
    const arc: Board = { ...maze, kind: "arc" };
    expect(about(arc, { number: 1, cells: [2, 3, 0, 0, 0, 0, 0, 0, 0], solution: [2, 0, 0, 3, 0, 0, 0, 0, 0] })).toBe("1 × 2 → 2 × 1");
    expect(meanOf(arc, [shown])).toBeUndefined();
  });
});

describe("what came of a puzzle", () => {
  const solved: SolvedView = { puzzle: [2, 1], solution: [2, 3], solvedAt: 2, haltsAt: 2, looks: 1, way: null, answers: [], warnings: [] };
  const steps = [thinking([2, 2], { changed: [1], conflicts: [0, 1], halt: 0.1 }), thinking([2, 3], { changed: [1], halt: 0.9 }), thinking([2, 3])];

  test("is said in a sentence, with the step at which it would have stopped", () => {
    expect(outcomeOf(solved, steps, board, 41)).toEqual({ title: "Solved at step 2", text: "1 cell filled, no rule broken, 41 ms. It would have stopped by itself at step 2 (0.90).", good: true });
    const lost = { ...solved, solvedAt: null, haltsAt: null };
    expect(outcomeOf(lost, steps.slice(0, 1), board, 5).text).toBe("1 of 1 cell wrong after 1 step, 2 in conflict. It was never sure enough to stop by itself.");
    expect(outcomeOf({ ...lost, solution: null }, steps.slice(0, 1), board, 5).text).toContain("2 cells in conflict after 1 step.");
    expect(outcomeOf(solved, [], board, 5).title).toBe("Stopped");
    expect([timeOf(0.2), timeOf(41), timeOf(2345)]).toEqual(["1 ms", "41 ms", "2.3 s"]);
  });

  test("is a path beside the shortest, or votes for an answer", () => {
    const end = (more: Partial<SolvedView>) => ({ ...solved, solvedAt: null, haltsAt: null, ...more });
    const ofMaze = (more: Partial<SolvedView>) => outcomeOf(end(more), steps, maze, 41);
    expect(ofMaze({ solvedAt: 2, way: { length: 8, shortest: 8 } })).toMatchObject({ title: "Solved at step 2", good: true });
    expect(ofMaze({ way: { length: 10, shortest: 8 } }).text).toContain("The path has 10 steps; the shortest has 8 steps.");
    expect(ofMaze({ way: { length: null, shortest: 8 } }).title).toBe("No path");
    const arc: Board = { ...maze, kind: "arc" };
    const vote = (votes: number, isRight: boolean | null) => ({ rows: [[1]], votes, sure: 0.5, isRight });
    const ofTask = (...answers: ReturnType<typeof vote>[]) => outcomeOf(end({ solvedAt: answers[0]?.isRight ? 2 : null, looks: 8, answers }), steps, arc, 41);
    expect(ofTask(vote(5, true))).toMatchObject({ title: "Solved at step 2", good: true });
    expect(ofTask(vote(5, false), vote(2, true)).title).toBe("Second answer is right");
    expect(ofTask(vote(5, false), vote(2, false))).toMatchObject({ title: "Not solved", good: false });
    expect(ofTask(vote(8, null)).text).toContain("The task does not say whether it is right.");
  });

  test("is a picture of the steps that changed something", () => {
    expect(lastChange(steps)).toBe(2);
    expect(framesOf(solved.puzzle, steps).map(({ title }) => title)).toEqual(["Puzzle", "Step 1 · halting 0.10", "Step 2 · halting 0.90"]);
    const many = Array.from({ length: 40 }, (_, at) => thinking([2, 3], { changed: [1], halt: at / 40 }));
    expect(framesOf(solved.puzzle, many).length).toBeLessThanOrEqual(12);
  });
});

describe("what a run of puzzles shows", () => {
  const shown: PuzzleShown = { kind: "puzzle", title: "Puzzle 1", drawn: "symbols", columns: 2, box_rows: 0, box_columns: 0, given: "1...", target: "1234", guesses: ["1233", "1234"], halts: [0.2, 0.8] };

  test("is the puzzle after each step of thinking, with what changed and what is wrong", () => {
    expect(stepOf(shown, 1)).toEqual({ cells: ["1", "2", "3", "3"], changed: [], wrong: [3], halt: 0.2 });
    expect(stepOf(shown, 2)).toEqual({ cells: ["1", "2", "3", "4"], changed: [3], wrong: [], halt: 0.8 });
    // A slider at a step that this one does not have shows its last.
    expect(stepOf(shown, 9)).toEqual(stepOf(shown, 2));
    expect([haltsAt(shown), haltsAt({ halts: [0.1] })]).toEqual([2, undefined]);
    expect(spark([0, 1])).toBe("M0.00 23.00L100.00 1.00");
    expect(puzzlesAt([{ step: 3, exhibit: shown }], 3)).toEqual([shown]);
    expect(puzzlesAt([{ step: 3, exhibit: shown }], 4)).toEqual([]);
  });

  test("is told with the range that the share of solved puzzles has", async () => {
    // Wilson’s interval of 393 of 500, as published tables have it.
    expect(interval(0.786, 500).map((end) => end.toFixed(4))).toEqual(["0.7479", "0.8197"]);
    expect(intervalText(0, 60)).toBe("0–6.0");
    expect([percent(1), percent(0.786), percent(0)]).toEqual(["100 %", "78.6 %", "0 %"]);
    const run = await api.run("2026-11-16-sudoku-9-9-5d21");
    expect(puzzle.verdict(run)).toEqual(["Solves 393 of 500 new puzzles: 78.6 % (74.8–82.0)"]);
    expect(puzzle.meaning(run)).toContain("It knows whether it solved a puzzle 99.2 % of the time.");
    const measured = (...metrics: [string, number][]) => ({ ...run, metrics: metrics.map(([name, value]) => ({ name, label: name, value, higherIsBetter: true, of: 40 })) });
    expect(puzzle.verdict(measured(["exact_accuracy", 0.1], ["pass@2", 0.25]))).toEqual(["Solves 25 % of 40 new tasks with two answers (14.2–40.2)"]);
    expect(puzzle.figures(measured(["exact_accuracy", 0.1], ["valid_path", 0.5], ["shortest_path", 0.1])).map(({ value, text }) => `${value} ${text}`)).toEqual(["10 % new mazes solved", "50 % answers that are a path", "10 % shortest paths"]);
    expect(puzzle.progress(run)).toBe("Solves 78.6 % of 500 held-out puzzles so far.");
    const bare: RunView = { ...run, metrics: [], bestLoss: null };
    expect([puzzle.verdict(bare), puzzle.meaning(bare), puzzle.progress(bare)]).toEqual([["Finished", "no held-out puzzles"], "", ""]);
  });
});

describe("the page that solves puzzles", () => {
  const cell = (row: number, column: number) => screen.getByRole("gridcell", { name: new RegExp(`^row ${row}, column ${column}:`) });
  const open = async () => {
    render(Solve, { name: "2026-11-16-sudoku-9-9-5d21" });
    await screen.findByRole("grid");
  };

  test("is typed into with arrows, digits and Space, and says at once what breaks a rule", async () => {
    await open();
    expect(screen.getByText("Give it a puzzle")).toBeTruthy();
    cell(1, 1).focus();
    await userEvent.keyboard("55");
    expect(document.activeElement?.getAttribute("data-cell")).toBe("2");
    expect(cell(1, 1).getAttribute("aria-label")).toBe("row 1, column 1: 5, given, breaks a rule");
    expect(screen.getByText("Two cells contradict each other")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Solve" }).hasAttribute("disabled")).toBe(true);
    await userEvent.keyboard("{ArrowLeft} {ArrowDown}{ArrowDown}{End}");
    expect(cell(1, 2).getAttribute("aria-label")).toBe("row 1, column 2: empty");
    expect(document.activeElement?.getAttribute("data-cell")).toBe("26");
    expect(screen.getByText("Ready")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Clear" }));
    expect(screen.getByText("Give it a puzzle")).toBeTruthy();
  });

  test("takes a held-out puzzle, solves it, and shows every step of it", async () => {
    await open();
    await userEvent.click(screen.getByRole("button", { name: "Held-out puzzle" }));
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    const table = screen.getByRole("table", { name: "Steps of thinking" });
    expect(within(table).getAllByRole("row").length).toBeGreaterThan(5);
    await userEvent.click(within(table).getByRole("button", { name: "Show step 2" }));
    expect((screen.getByRole("slider") as HTMLInputElement).value).toBe("2");
    expect(screen.getAllByRole("gridcell").some((each) => /guessed, \d+ % sure.*changed/.test(each.getAttribute("aria-label") ?? ""))).toBe(true);
    expect(screen.getByRole("button", { name: "Copy solution" })).toBeTruthy();
    // Another symbol is another puzzle, of which nothing was thought yet.
    cell(1, 1).focus();
    await userEvent.keyboard(" ");
    expect(screen.queryByRole("slider")).toBeNull();
  });

  test("thinks as long as it is told to, and says what more steps gain", async () => {
    await open();
    await userEvent.click(screen.getByRole("button", { name: "Measure what more steps gain" }));
    await screen.findByText("Solves 78.5 % of 200 held-out puzzles, 80.5 % with 32, 82 % with 64, 82 % with 128.");
    await userEvent.click(screen.getByRole("radio", { name: "32" }));
    await userEvent.click(screen.getByRole("checkbox", { name: /Vote over 8/ }));
    await userEvent.click(screen.getByRole("button", { name: "Held-out puzzle" }));
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    const asked = window.annealFake!.asked.findLast(([name]) => name === "solve")!;
    expect(asked[1].slice(1, 4)).toEqual([0, 32, 8]);
  });

  test("says what is wrong with a text that was pasted, and with a model that can’t be opened", async () => {
    await open();
    cell(1, 1).focus();
    await userEvent.paste("12");
    expect((await screen.findByRole("alert")).textContent).toContain("The text has 2 cells, and this grid has 81.");
    render(Solve, { name: "gone" });
    await screen.findByText(/was saved by an earlier version/);
  });
});

describe("the page that solves mazes", () => {
  const open = async () => {
    render(Solve, { name: "maze-12" });
    return screen.findByRole("application", { name: "Maze, 12 by 12" });
  };
  const asked = (name: string) => window.annealFake!.asked.findLast(([each]) => each === name)![1];

  test("has a maze drawn with keys, taken back, and solved when nothing is lacking", async () => {
    const place = await open();
    expect(screen.getByText("Give it a maze")).toBeTruthy();
    // Nothing of Sudoku is here.
    expect(screen.queryByText(/Type 1|guessed|given/)).toBeNull();
    place.focus();
    await userEvent.keyboard("s");
    expect(screen.getByText("Place a goal.")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Solve" }).hasAttribute("disabled")).toBe(true);
    await userEvent.keyboard("{ArrowDown}{Shift>}{ArrowRight}{ArrowRight}{/Shift}{ArrowDown} {End}g");
    expect(screen.getByText("Ready")).toBeTruthy();
    expect(screen.getByText("3 of 144 cells are walls.")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Undo" }));
    expect(screen.getByText("Place a goal.")).toBeTruthy();
    place.focus();
    await userEvent.keyboard("g");
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    expect(screen.getByRole("columnheader", { name: /Off path/ })).toBeTruthy();
    expect(String(asked("solve")[0])).toMatch(/^S\./);
  });

  test("has walls drawn by a stroke, and its ends moved", async () => {
    const place = await open();
    place.getBoundingClientRect = () => ({ left: 0, top: 0, width: 120, height: 120 }) as DOMRect;
    const at = (column: number, row: number) => ({ clientX: 10 * column + 5, clientY: 10 * row + 5, button: 0, pointerId: 1 });
    await fireEvent.pointerDown(place, at(0, 0));
    await fireEvent.pointerMove(place, at(4, 0));
    await fireEvent.pointerUp(place, at(4, 0));
    await userEvent.click(screen.getByRole("radio", { name: "Start" }));
    await fireEvent.pointerDown(place, at(0, 5));
    await fireEvent.pointerMove(place, at(0, 7));
    await fireEvent.pointerUp(place, at(0, 7));
    await userEvent.click(screen.getByRole("radio", { name: "Goal" }));
    await fireEvent.pointerDown(place, at(11, 11));
    await fireEvent.pointerUp(place, at(11, 11));
    expect(screen.getByText("5 of 144 cells are walls.")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    const text = String(asked("solve")[0]);
    expect([text.slice(0, 5), text.indexOf("S"), text.indexOf("G")]).toEqual(["#####", 84, 143]);
  });

  test("takes a random or held-out maze, and keeps what is there when a pasted one is wrong", async () => {
    const place = await open();
    await userEvent.click(screen.getByRole("button", { name: "Random" }));
    await screen.findByText("Ready");
    place.focus();
    await userEvent.paste("S#");
    expect((await screen.findByRole("alert")).textContent).toContain("the maze has 2 cells");
    await userEvent.click(screen.getByRole("button", { name: "Held-out maze" }));
    await screen.findByText(/^Held-out maze \d/);
    expect(screen.queryByRole("alert")).toBeNull();
  });
});

describe("the page that solves tasks of ARC", () => {
  const open = async () => {
    render(Solve, { name: "arc-1" });
    await screen.findByText("Give it a task");
  };

  test("takes a held-out task, shows its pairs, and answers with votes", async () => {
    await open();
    await userEvent.click(screen.getByRole("button", { name: "Held-out task" }));
    await screen.findByRole("img", { name: "Pair 1, input" });
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    const answers = screen.getByRole("group", { name: "Answers" });
    expect(within(answers).getByText("Right")).toBeTruthy();
    expect(within(answers).getByText(/^6 of 8 looks/)).toBeTruthy();
    expect(screen.getByRole("columnheader", { name: /Votes/ })).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Show step 2" }));
    expect(screen.getByRole("img", { name: "Answer after step 2" })).toBeTruthy();
  });

  test("finds a task by its id, one test input after the other", async () => {
    await open();
    await userEvent.type(screen.getByRole("textbox", { name: "Task id" }), "cc33dd44{Enter}");
    await userEvent.click(await screen.findByRole("radio", { name: "Test input 2" }));
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText(/^Solved at step/);
    const asked = window.annealFake!.asked.findLast(([name]) => name === "solve")![1];
    expect(asked.slice(1, 4)).toEqual([1, 8, 8]);
    await userEvent.clear(screen.getByRole("textbox", { name: "Task id" }));
    await userEvent.type(screen.getByRole("textbox", { name: "Task id" }), "zz{Enter}");
    expect((await screen.findByRole("alert")).textContent).toContain("there is no task “zz”");
    // What was there is still there.
    expect(screen.getByRole("img", { name: "Pair 1, input" })).toBeTruthy();
  });

  test("says of a new task that it is new before it is solved, and of a wrong one what is wrong", async () => {
    await open();
    const task = { train: [{ input: [[1]], output: [[2]] }], test: [{ input: [[3, 4]] }] };
    const clipboard = (text: string) => ({ clipboardData: { getData: () => text } });
    await fireEvent.paste(window, clipboard(JSON.stringify(task)));
    await screen.findByText(/^The model did not learn from this task/);
    await fireEvent.paste(window, clipboard(JSON.stringify({ ...task, test: [] })));
    expect((await screen.findByRole("alert")).textContent).toContain("the task has no test input");
    await userEvent.click(screen.getByRole("button", { name: "Solve" }));
    await screen.findByText("Answered");
  });

  test("takes a file that is dropped on it, which is data elsewhere", async () => {
    await open();
    expect(app.takes?.(["/tmp/task.json"])).toBe(true);
    await screen.findByRole("img", { name: "Pair 1, input" });
    expect(app.takes?.(["/tmp/model.gguf"])).toBe(false);
  });
});

describe("what a run of mazes or of tasks shows", () => {
  const shown = (more: Partial<PuzzleShown>): PuzzleShown => ({ kind: "puzzle", title: "Puzzle 1", drawn: "maze", columns: 3, box_rows: 0, box_columns: 0, given: "S..##.G..", target: "Soo##oGoo", guesses: ["S.o##.G..", "Soo##oGoo"], halts: [0.2, 0.8], ...more });

  test("is drawn as such, with the length of the path or the size of the answer", async () => {
    render(Evidence, { shown: [{ step: 4, exhibit: shown({}) }] });
    expect(screen.getByText(/^6 steps, stops at 2/)).toBeTruthy();
    expect(screen.getByRole("img", { name: "Puzzle 1 after step 2: all right" }).tagName).toBe("svg");
  });

  test("is a grid of colours that is found whole", async () => {
    render(Evidence, { shown: [{ step: 4, exhibit: shown({ drawn: "colours", title: "Task aa", given: "12.......", target: "1..2.....", guesses: ["11.......", "1..2....."] }) }] });
    expect(screen.getByText(/^2 × 1, stops at 2/)).toBeTruthy();
    await fireEvent.input(screen.getByRole("slider", { name: "Step of thinking" }), { target: { value: "1" } });
    expect(screen.getByRole("img", { name: "Task aa after step 1: 2 wrong" })).toBeTruthy();
  });
});

describe("the page of a run of puzzles", () => {
  test("has held-out puzzles, of which one slider shows every step, and figures that mean something", async () => {
    render(Run, { id: "2026-11-16-sudoku-9-9-5d21" });
    await screen.findByRole("heading", { name: "Held-out puzzles" });
    expect(screen.getByText("cells right").parentElement?.textContent).toBe("cells right96.9 %");
    expect(screen.queryByText("smoothed loss")).toBeNull();
    await screen.findByRole("img", { name: "Puzzle 1 after step 16: all right" });
    const slider = screen.getByRole("slider", { name: "Step of thinking" });
    await fireEvent.input(slider, { target: { value: "2" } });
    expect(screen.getAllByRole("img", { name: /^Puzzle \d after step 2: \d+ wrong$/ }).length).toBe(3);
    await userEvent.click(screen.getByRole("radio", { name: "Before training" }));
    expect(screen.getAllByText("Not solved").length).toBe(3);
    // The chart begins with what is solved; what is the same in every run comes after it.
    const charts = screen.getByRole<HTMLSelectElement>("combobox", { name: "What the chart shows" });
    expect(charts.value).toBe("Solved");
    await userEvent.selectOptions(charts, "Gradient norm");
    expect(screen.getByRole("heading", { name: "Gradient norm" })).toBeTruthy();
  });
});

describe("the page of data", () => {
  test("shows puzzles as grids, and trains on them as such", async () => {
    render(Data, { id: "sudoku-9x9-61aa" });
    await screen.findByRole("img", { name: "1 · 24 given" });
    expect(screen.getByText("Sudoku").parentElement?.textContent).toBe("Sudoku9 × 9");
    await userEvent.click(screen.getByRole("radio", { name: "Solutions" }));
    expect(screen.getByRole("img", { name: "1 · 24 given, solved" }).textContent).not.toMatch(/^$/);
    await userEvent.click(screen.getByRole("button", { name: "Train with it" }));
    expect(route.now).toMatchObject({ page: "train", filled: { task: "puzzle" } });
  });
});

describe("the puzzles of a data set", () => {
  const setAt = (path: string) => ({ set: { path } as DataSetView });

  test("are drawn as mazes with their paths", async () => {
    render(PuzzleSet, setAt("/data/maze-12"));
    const first = await screen.findByRole("img", { name: "1 · 21 steps" });
    expect(first.tagName).toBe("svg");
    expect(screen.getByText("Mazes").parentElement?.textContent).toBe("Mazes12 × 12");
    expect(screen.getByText("walls, about")).toBeTruthy();
    await userEvent.click(screen.getByRole("radio", { name: "Solutions" }));
    expect(screen.getByRole("img", { name: "1 · 21 steps, solved" })).toBeTruthy();
  });

  test("are pairs of grids in their colours", async () => {
    render(PuzzleSet, setAt("/data/arc"));
    const first = await screen.findByRole("img", { name: "1 · 3 × 3 → 3 × 3" });
    expect(first.querySelectorAll("text").length).toBe(9);
    expect(screen.getByText("pairs to learn from")).toBeTruthy();
    await userEvent.click(screen.getByRole("radio", { name: "Solutions" }));
    expect(screen.getByRole("img", { name: "1 · 3 × 3 → 3 × 3, solved" })).toBeTruthy();
  });
});

describe("the form of puzzles", () => {
  test("makes puzzles for whoever has none, and shows them as they are learned", async () => {
    render(Train, { filled: { task: "puzzle" } });
    await userEvent.click(await screen.findByRole("radio", { name: "6 × 6" }));
    expect((screen.getByLabelText("to learn from") as HTMLInputElement).value).toBe("1000");
    await userEvent.click(screen.getByRole("radio", { name: "9 × 9" }));
    await userEvent.click(screen.getByRole("button", { name: "Make puzzles" }));
    await waitFor(() => expect(draft.asked["data.files"]).toContain("sudoku-9x9-1000-500-seed-42"));
    await screen.findByText("1,000 to learn from · 500 held out");
    expect(screen.getAllByRole("img", { name: /given$/ }).length).toBe(5);
    expect(screen.getAllByRole("img", { name: "another look" }).length).toBe(4);
    await userEvent.click(screen.getByRole("checkbox", { name: /new look/ }));
    expect(draft.asked["data.augment"]).toBe("false");
    expect(screen.queryByRole("img", { name: "another look" })).toBeNull();
    await userEvent.click(screen.getByRole("radio", { name: /^Tiny/ }));
    expect(draft.asked).toMatchObject({ task: "puzzle", recipe: "lesson" });
  });
});
