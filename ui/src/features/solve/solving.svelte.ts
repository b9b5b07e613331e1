// A puzzle and the model that fills it in: what was typed, and what was thought of it step by step.

import { api, type MarksView, type SolvedView, type SolverView, type ThinkingView } from "../../api";
import { conflicts, empty, pasted, textOf } from "./puzzle";

/** How much longer than it was trained to a model can think. */
export const LONGER = [1, 2, 4, 8];
/** How many looks vote. */
export const VOTES = 8;

export class Solving {
  solver = $state.raw<SolverView>();
  opening = $state(false);
  /** Why there is no model, and what went wrong with a puzzle. */
  unopened = $state.raw<unknown>();
  error = $state.raw<unknown>();

  cells = $state.raw<number[]>([]);
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
  readonly typed = $derived(this.board ? conflicts(this.board, this.cells) : []);
  readonly isEmpty = $derived(this.cells.every((cell) => cell === this.board?.blank));
  readonly shown = $derived(this.at > 0 ? this.thoughts[this.at - 1] : undefined);

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
    this.#forget();
    this.cells = cells;
    this.heldOut = heldOut;
  }

  set(cell: number, symbol: number) {
    if (this.cells[cell] === symbol && this.thoughts.length === 0) return;
    this.put(this.cells.map((before, at) => (at === cell ? symbol : before)));
  }

  clear() {
    if (this.board) this.put(empty(this.board));
  }

  paste(text: string) {
    if (!this.board) return;
    const read = pasted(this.board, text);
    if ("cells" in read) this.put(read.cells);
    else this.error = new Error(read.problem);
  }

  /** Takes the next puzzle that the run never learned from. */
  async take(name: string) {
    await this.#do(async () => {
      const { cells, number } = await api.heldOutPuzzle(name, (this.heldOut ?? Math.floor(Math.random() * (this.solver?.heldOut ?? 1))) + 1);
      this.put(cells, number);
    });
  }

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
      const solved = await api.solve(textOf(this.board!, this.cells), this.steps, this.votes ? VOTES : 1, hear);
      if (turn !== this.#turn) return;
      this.millis = performance.now() - since;
      this.solved = solved;
    });
    this.busy = false;
  }

  /** Counts how many held-out puzzles are solved with how many steps. */
  async count(name: string) {
    const { solver } = this;
    if (!solver || this.counting !== undefined) return;
    this.counting = 0;
    await this.#do(async () => {
      const marks = await api.countSolved(name, LONGER.map((times) => times * solver.steps), (count) => (this.counting = count));
      if (marks) this.marks = marks;
    });
    this.counting = undefined;
  }

  stop() {
    void api.stopSolving().catch(() => undefined);
  }

  async #do(act: () => Promise<void>) {
    this.error = undefined;
    try {
      await act();
    } catch (problem) {
      this.error = problem;
    }
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
