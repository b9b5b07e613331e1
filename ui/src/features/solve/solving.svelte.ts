// A puzzle and the model that solves it: what was given, and what was thought of it step by step.

import { api, type MarksView, type QuestionView, type SolvedView, type SolverView, type ThinkingView } from "../../api";
import { conflicts, drawn, empty, lackOf, pasted, textOf } from "./puzzle";

/** How much longer than it was trained to a model can think. */
export const LONGER = [1, 2, 4, 8];
/** How many looks vote. */
export const VOTES = 8;
/** How many changes can be taken back. */
const MAX_PAST = 200;

export class Solving {
  /** What the puzzle was before each change. */
  #past = $state.raw<number[][]>([]);

  solver = $state.raw<SolverView>();
  opening = $state(false);
  /** Why there is no model, and what went wrong with a puzzle. */
  unopened = $state.raw<unknown>();
  error = $state.raw<unknown>();

  cells = $state.raw<number[]>([]);
  /** The task of ARC, and which of its test inputs is shown, from 0. */
  question = $state.raw<QuestionView>();
  part = $state(0);
  /** The number of the held-out puzzle that is shown, if it is one. */
  heldOut = $state<number>();
  steps = $state(0);
  votes = $state(false);

  /** What was thought after each step, of the puzzle as it is. */
  thoughts = $state.raw<ThinkingView[]>([]);
  solved = $state.raw<SolvedView>();
  busy = $state(false);
  /** How long it took. */
  millis = $state(0);
  /** The step that is shown, from 1; 0 is the puzzle. */
  at = $state(0);

  marks = $state.raw<MarksView>();
  /** How many held-out puzzles were thought about, while they are counted. */
  counting = $state<number>();

  readonly board = $derived(this.solver?.board);
  readonly kind = $derived(this.board?.kind);
  readonly typed = $derived(this.board && this.kind === "sudoku" ? conflicts(this.board, this.cells) : []);
  readonly isEmpty = $derived(this.kind === "arc" ? !this.question : this.cells.every((cell) => cell === this.board?.blank));
  /** What a maze lacks. */
  readonly lack = $derived(this.board && this.kind === "maze" ? lackOf(this.board, this.cells) : "");
  readonly isReady = $derived(!this.isEmpty && this.typed.length === 0 && this.lack === "");
  readonly shown = $derived(this.at > 0 ? this.thoughts[this.at - 1] : undefined);
  readonly pair = $derived(this.question?.task?.test[this.part]);
  /** Whether a change can be taken back. */
  readonly canUndo = $derived(this.#past.length > 0);

  #left = false;
  #turn = 0;

  async open(name: string) {
    this.opening = true;
    this.unopened = undefined;
    try {
      const solver = await api.openSolver(name);
      if (this.#left) return;
      this.solver = solver;
      this.steps = solver.steps;
      // The answers of a task are counted over its looks, as they are in its measures.
      this.votes = solver.board.kind === "arc";
      this.cells = empty(solver.board);
    } catch (problem) {
      this.unopened = problem;
    } finally {
      this.opening = false;
    }
  }

  close() {
    this.#left = true;
    void api.closeSolver().catch(() => undefined);
  }

  /** Another puzzle: what was thought of the one before is forgotten. */
  put(cells: number[], heldOut?: number) {
    this.keep();
    this.#become(cells, heldOut);
  }

  /** Notes how the puzzle is, so that it can be again. */
  keep() {
    this.#past = [...this.#past, this.cells].slice(-MAX_PAST);
  }

  undo() {
    const before = this.#past.at(-1);
    if (!before || this.busy) return;
    this.#past = this.#past.slice(0, -1);
    this.#become(before);
  }

  set(cell: number, symbol: number) {
    if (this.cells[cell] === symbol && this.thoughts.length === 0) return;
    this.put(this.cells.map((before, at) => (at === cell ? symbol : before)));
  }

  /** Draws cells of a maze. What was there is noted where a stroke begins, by `keep`. */
  draw(cells: readonly number[], symbol: number) {
    this.#become(cells.reduce((all, cell) => drawn(all, cell, symbol), this.cells));
  }

  clear() {
    if (this.board) this.put(empty(this.board));
  }

  async paste(text: string) {
    if (!this.board) return;
    if (this.kind !== "sudoku") return this.#take(() => api.readPuzzle(text));
    const read = pasted(this.board, text);
    if ("cells" in read) this.put(read.cells);
    else this.error = new Error(read.problem);
  }

  /** Takes a puzzle from a file. */
  readonly file = (path: string) => this.#take(() => api.readPuzzleFile(path));

  /** Makes a maze that was not there before. */
  readonly random = () => this.#take(() => api.randomMaze(Math.floor(Math.random() * 2 ** 32)));

  /** Takes the next puzzle that the run never learned from. */
  readonly take = () => this.#take(() => api.heldOutPuzzle((this.heldOut ?? Math.floor(Math.random() * (this.solver?.heldOut ?? 1))) + 1));

  async solve() {
    if (!this.board || this.busy) return;
    this.#forget();
    const turn = this.#turn;
    this.busy = true;
    const since = performance.now();
    await this.#do(async () => {
      const hear = (thinking: ThinkingView) => {
        if (turn !== this.#turn) return;
        this.thoughts = [...this.thoughts, thinking];
        this.at = this.thoughts.length;
      };
      const text = this.question?.text ?? textOf(this.board!, this.cells);
      const solved = await api.solve(text, this.part, this.steps, this.votes ? VOTES : 1, hear);
      if (turn !== this.#turn) return;
      this.millis = performance.now() - since;
      this.solved = solved;
    });
    this.busy = false;
  }

  /** Shows another test input of the task. */
  choose(part: number) {
    this.#forget();
    this.part = part;
  }

  /** Counts how many held-out puzzles are solved with how many steps. */
  async count() {
    const { solver } = this;
    if (!solver || this.counting !== undefined) return;
    this.counting = 0;
    await this.#do(async () => {
      const marks = await api.countSolved(
        LONGER.map((times) => times * solver.steps),
        (count) => (this.counting = count),
      );
      if (marks) this.marks = marks;
    });
    this.counting = undefined;
  }

  stop() {
    void api.stopSolving().catch(() => undefined);
  }

  /** Takes a puzzle that the app reads. What is wrong with it leaves what is there. */
  async #take(read: () => Promise<QuestionView>) {
    await this.#do(async () => {
      const question = await read();
      this.put(question.cells, question.number ?? undefined);
      this.question = question.task ? question : undefined;
    });
  }

  async #do(act: () => Promise<void>) {
    this.error = undefined;
    try {
      await act();
    } catch (problem) {
      this.error = problem;
    }
  }

  #become(cells: number[], heldOut?: number) {
    this.#forget();
    this.question = undefined;
    this.part = 0;
    this.cells = cells;
    this.heldOut = heldOut;
  }

  #forget() {
    this.#turn += 1;
    if (this.busy) this.stop();
    this.thoughts = [];
    this.solved = undefined;
    this.error = undefined;
    this.at = 0;
  }
}
