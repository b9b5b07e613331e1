// Runs side by side.

import { untrack } from "svelte";
import { api, type RunView } from "../../api";
import { SHAPES, type Shape } from "../../components/paint";
import { best, Columns } from "./columns";
import { settingsOf, type Setting } from "./plan";
import { kindOfRun, toldBy, unitOf } from "./series";
import { isHeld, standing } from "./standing";

/** How a run is told from the others: by more than its colour. */
export interface Mark {
  colour: string;
  dash: number[];
  shape: Shape;
}

export interface Side {
  id: string;
  mark: Mark;
  /** Nothing until it is read. */
  run?: RunView;
  settings: Setting[];
  columns?: Columns;
  /** The best of what was measured on held-out data beside the loss, by name. */
  best?: Record<string, number | undefined>;
  error?: unknown;
}

/** More than this can't be told apart. */
export const MAX = 6;
const COLOURS = ["--bronze", "--blue", "--purple", "--straw", "--ink", "--steel"];
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 3, 2, 3, 2, 3]];
const MARKS: Mark[] = COLOURS.map((colour, at) => ({ colour, dash: DASHES[at] ?? [], shape: SHAPES[at] ?? "circle" }));

/** Rows that are added before the page may do something else. */
const ROWS = 5000;
/** How often runs that are running are read again, in milliseconds. */
const LOOK = 10_000;

export class Sides {
  all = $state.raw<Side[]>([]);
  tick = $state(0);

  constructor(ids: string[]) {
    for (const id of ids) this.add(id);
  }

  /** Adds a run, with a mark that no other has. */
  add(id: string) {
    const { all } = this;
    const mark = MARKS.find((each) => all.every((side) => side.mark !== each));
    if (!mark || all.some((side) => side.id === id)) return;
    this.all = [...all, { id, mark, settings: [] }];
    void this.#read(id);
  }

  remove(id: string) {
    this.all = this.all.filter((side) => side.id !== id);
  }

  /** Starts to read runs that are running again and again. Returns how to stop. */
  follow(): () => void {
    const timer = setInterval(() => {
      if (document.hidden) return;
      for (const { id, run } of untrack(() => this.all)) if (run && isHeld(standing(run))) void this.#read(id);
    }, LOOK);
    return () => clearInterval(timer);
  }

  async #read(id: string) {
    try {
      const [run, events, plan] = await Promise.all([api.run(id), api.runEvents(id), api.runPlan(id)]);
      const columns = new Columns(run.steps);
      const told = toldBy(events);
      for (let from = 0; from === 0 || from < told.steps.length; from += ROWS) {
        if (from > 0) await new Promise((next) => setTimeout(next));
        columns.take(told, from, Math.min(from + ROWS, told.steps.length));
      }
      const measured = columns.measures.map(({ name, higherIsBetter }) => [name, best(columns.heldOut(name).values, higherIsBetter)]);
      this.#put(id, { run, settings: settingsOf(plan, kindOfRun(run)), columns, best: Object.fromEntries(measured) as Side["best"] & object });
    } catch (error) {
      this.#put(id, { error });
    }
  }

  #put(id: string, more: Partial<Side>) {
    this.all = this.all.map((side) => (side.id === id ? { ...side, ...more } : side));
    this.tick += 1;
  }
}

/** What runs count in, together. */
export function unitOfSides(sides: Side[]): string {
  const units = new Set(sides.flatMap(({ run }) => (run ? [unitOf(run)] : [])));
  return units.size === 1 ? [...units].join() : "units";
}
