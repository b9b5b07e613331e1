// Puzzles: typed, pasted, filled in by a model, and looked at step by step.

import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, describe, expect, test } from "vitest";

import type { Board, SolvedView, ThinkingView } from "../../ui/src/api";
import { edgesOf, placeOf, shapeOf, symbolsOf } from "../../ui/src/components/board";
import { haltsAt, puzzlesAt, spark, stepOf, type PuzzleShown } from "../../ui/src/features/puzzle/evidence";
import { interval, intervalText, percent } from "../../ui/src/features/puzzle/words";
import * as puzzle from "../../ui/src/features/puzzle";
import { conflicts, empty, linesOf, pasted, symbolOf, textOf } from "../../ui/src/features/solve/puzzle";
import { lastChange, outcomeOf, timeOf } from "../../ui/src/features/solve/said";
import { framesOf } from "../../ui/src/features/solve/picture";
import Data from "../../ui/src/features/data/Data.svelte";
import Run from "../../ui/src/features/runs/Run.svelte";
import { route } from "../../ui/src/routes.svelte";
import Solve from "../../ui/src/features/solve/Solve.svelte";
import Train from "../../ui/src/features/train/Train.svelte";
import { draft } from "../../ui/src/features/train/draft.svelte";
import { api, type RunView } from "../../ui/src/api";
import { install } from "./fake";

const board: Board = { kind: "sudoku", rows: 4, columns: 4, box_rows: 2, box_columns: 2, symbols: ["", ".", "1", "2", "3", "4"], blank: 1 };
const thinking = (guess: number[], changes: Partial<ThinkingView> = {}): ThinkingView => ({ guess, confidence: guess.map(() => 1), changed: [], conflicts: [], halt: 0, ...changes });

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

describe("what came of a puzzle", () => {
  const solved: SolvedView = { puzzle: [2, 1], solution: [2, 3], solvedAt: 2, haltsAt: 2, warnings: [] };
  const steps = [thinking([2, 2], { changed: [1], conflicts: [0, 1], halt: 0.1 }), thinking([2, 3], { changed: [1], halt: 0.9 }), thinking([2, 3])];

  test("is said in a sentence, with the step at which it would have stopped", () => {
    expect(outcomeOf(solved, steps, 1, 41)).toEqual({ title: "Solved at step 2", text: "1 cell filled, no rule broken, 41 ms. It would have stopped by itself at step 2 (0.90).", good: true });
    const lost = { ...solved, solvedAt: null, haltsAt: null };
    expect(outcomeOf(lost, steps.slice(0, 1), 1, 5).text).toBe("1 of 1 cell wrong after 1 steps, 2 in conflict. It was never sure enough to stop by itself.");
    expect(outcomeOf({ ...lost, solution: null }, steps.slice(0, 1), 1, 5).text).toContain("2 cells in conflict after 1 steps.");
    expect(outcomeOf(solved, [], 1, 5).title).toBe("Stopped");
    expect([timeOf(0.2), timeOf(41), timeOf(2345)]).toEqual(["1 ms", "41 ms", "2.3 s"]);
  });

  test("is a picture of the steps that changed something", () => {
    expect(lastChange(steps)).toBe(2);
    expect(framesOf(solved.puzzle, steps).map(({ title }) => title)).toEqual(["Puzzle", "Step 1 · halting 0.10", "Step 2 · halting 0.90"]);
    const many = Array.from({ length: 40 }, (_, at) => thinking([2, 3], { changed: [1], halt: at / 40 }));
    expect(framesOf(solved.puzzle, many).length).toBeLessThanOrEqual(12);
  });
});

describe("what a run of puzzles shows", () => {
  const shown: PuzzleShown = { kind: "puzzle", title: "Puzzle 1", columns: 2, box_rows: 0, box_columns: 0, given: "1...", target: "1234", guesses: ["1233", "1234"], halts: [0.2, 0.8] };

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
    expect(asked[1].slice(1, 3)).toEqual([32, 8]);
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
    // The chart begins with what is solved; what is the same in every run is asked for.
    expect(screen.queryByRole("radio", { name: "Gradient norm" })).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "More charts" }));
    expect(screen.getByRole("radio", { name: "Gradient norm" })).toBeTruthy();
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
