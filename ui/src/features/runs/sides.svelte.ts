// Runs side by side.

import { untrack } from "svelte";
import { api, type PlanLineView, type RunView } from "../../api";
import { SHAPES, type Shape } from "../../components/paint";
import { best, Columns, highest, mean } from "./columns";
import { rateOf, toldBy, unitOf } from "./series";
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
  plan: PlanLineView[];
  columns?: Columns;
  figures?: Figures;
  error?: unknown;
}

/** What a run came to. */
export interface Figures {
  heldOut: number | null;
  loss: number | null;
  seconds: number | null;
  /** Units in a second. */
  rate: number | undefined;
  peak: number | null | undefined;
  /** The best of what else was measured on held-out data, by name. */
  best: Record<string, number | undefined>;
}

/** More than this can't be told apart. */
export const MOST = 6;
const COLOURS = ["--bronze", "--blue", "--purple", "--straw", "--ink", "--steel"];
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 3, 2, 3, 2, 3]];
const MARKS: Mark[] = COLOURS.map((colour, at) => ({ colour, dash: DASHES[at] ?? [], shape: SHAPES[at] ?? "circle" }));

/** Lines of several runs cross; they are drawn calmer than the line of one. */
const SMOOTHING = 1 / 60;
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
    this.all = [...all, { id, mark, plan: [] }];
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
      const columns = new Columns(run.steps, SMOOTHING);
      const told = toldBy(events);
      for (let from = 0; from === 0 || from < told.steps.length; from += ROWS) {
        if (from > 0) await new Promise((next) => setTimeout(next));
        columns.take(told, from, Math.min(from + ROWS, told.steps.length));
      }
      this.#put(id, { run, plan, columns, figures: figures(run, columns) });
    } catch (error) {
      this.#put(id, { error });
    }
  }

  #put(id: string, more: Partial<Side>) {
    this.all = this.all.map((side) => (side.id === id ? { ...side, ...more } : side));
    this.tick += 1;
  }
}

function figures(run: RunView, columns: Columns): Figures {
  return {
    heldOut: run.bestLoss,
    loss: columns.smooth("loss").last() ?? run.loss,
    seconds: run.seconds,
    rate: mean(columns.of("rate").values) ?? rateOf(run) ?? undefined,
    peak: run.peakMemoryBytes ?? highest(columns.of("memory").values),
    best: Object.fromEntries(columns.measures.map(({ name, higherIsBetter }) => [name, best(columns.heldOut(name).values, higherIsBetter)])),
  };
}

/** What runs count in, together. */
export function unitOfSides(sides: Side[]): string {
  const units = new Set(sides.flatMap(({ run }) => (run ? [unitOf(run)] : [])));
  return units.size === 1 ? [...units].join() : "units";
}
