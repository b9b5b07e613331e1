// What the app tells of a run, as the pages of runs take it: series and measures by name, and what the model shows. This is
// the only file here that knows how the app says it.

import type { EventsView, RunView } from "../../api";
import type { Kind, Metric, Shown, Use } from "../kind";
import { kindOf } from "../kinds";

/** What is new in a run. */
export interface Told {
  steps: number[];
  /** Milliseconds of each step. */
  millis: (number | null)[];
  /** Values of each step, by name. `loss`, `learning_rate`, `gradient_norm`, `memory` and `rate` are drawn in their own way. */
  series: Record<string, (number | null)[]>;
  /** Looks at held-out data. */
  evaluations: { step: number; metrics: Metric[] }[];
  shown: Shown[];
}

export function toldBy(events: EventsView): Told {
  const { steps, millis, losses, learningRates, gradientNorms, unitsPerSecond, memoryBytes } = events;
  return {
    steps,
    millis,
    series: {
      loss: losses,
      learning_rate: learningRates,
      gradient_norm: gradientNorms,
      rate: unitsPerSecond,
      // No device uses no memory: 0 says that nobody knows.
      memory: memoryBytes.map((bytes) => bytes || null),
    },
    evaluations: events.evaluations.map(({ step, loss, metrics }) => ({ step, metrics: [{ name: "loss", label: "Loss", value: loss, higherIsBetter: false, of: null }, ...metrics] })),
    shown: events.exhibits,
  };
}

export const kindOfRun = ({ task }: RunView): Kind => kindOf(task);

/** What is counted while it learns. */
export const unitOf = (run: RunView): string => run.unit || kindOfRun(run).unit;

/** So many of these in a second. */
export const rateOf = (run: RunView): number | null => run.unitsPerSecond;

/** Whether what it has learned so far can be written for other programs. */
export const canExport = (run: RunView): boolean => run.saved && kindOfRun(run).canExport === true;

/** What can be done with what it has learned so far. */
export const usesOf = (run: RunView): Use[] => (run.saved ? kindOfRun(run).uses.filter(({ name, takes = name, early }) => run.uses.includes(takes) && (early !== undefined || run.status === "finished")) : []);

/** The same with the export, for which a page has a dialog: what is offered wherever a run is. */
export const offersOf = (run: RunView, onexport: () => void): Use[] => [
  ...usesOf(run),
  ...(canExport(run) ? [{ name: "export", text: "Export…", short: "Export", open: onexport }] : []),
];
