// What happens in a run: the same in every run, told again step by step.

import type { Channel } from "@tauri-apps/api/core";
import type { EventsView, RunNews, RunView } from "../../../ui/src/api";
import told from "./answers/events.json";
import { carsShown, hundredShown, picturesMeasured, picturesShown } from "./pictures";
import { puzzlesMeasured, puzzlesShown } from "./solve";

/** An event's number is its step times this, and what is told is whole steps. */
const PER_STEP = 4;
/** The most steps of a message, and the time between two, as the app does it. */
const MAX = 5000;
const PACE = 33;
/** Once, the loss was not finite here, and the run went back 12 steps. */
const ROLLED_BACK_AT = 212;

/** What runs of other kinds than the recorded one measured and showed. */
const OTHERS: Record<string, (run: RunView) => Pick<EventsView, "evaluations" | "exhibits">> = {
  puzzle: ({ steps }) => ({ evaluations: puzzlesMeasured(steps), exhibits: [0, 800, steps].flatMap((step) => puzzlesShown(step, steps)) }),
  picture: ({ id, steps }) => ({ evaluations: picturesMeasured(steps), exhibits: /hundred/.test(id) ? hundredShown(steps) : /cars/.test(id) ? carsShown(steps) : [0, Math.round(steps / 2), steps].flatMap((step) => picturesShown(step, steps)) }),
};

/** A run that is longer than the one that was recorded begins it anew. */
const at = (values: number[], step: number) => values[(step - 1) % values.length] ?? 0;
const range = (from: number, to: number) => Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => from + index);
export const lossAt = (step: number) => at(told.losses, Math.max(step, 1));

/** What happened after the event with a number, up to a step. */
export function eventsAfter(run: RunView, after: number, to = run.step): EventsView {
  const from = Math.floor(after / PER_STEP) + 1;
  // What was seen before the first step is told with it.
  const isNew = ({ step }: { step: number }) => step >= (from === 1 ? 0 : from) && step <= to;
  const millis = (1000 * run.seconds) / Math.max(run.step, 1);
  const timeOf = (step: number) => new Date(Date.now() - (run.step - step) * millis).toISOString();
  const steps = range(from, to).flatMap((step) => (step === ROLLED_BACK_AT ? [step, ...range(step - 11, step)] : [step]));
  const other = OTHERS[run.task]?.(run);
  const isLost = (step: number) => run.loss === null && step === run.step;
  return {
    last: Math.max(after, to * PER_STEP),
    steps,
    losses: steps.map((step) => (isLost(step) ? null : lossAt(step))),
    learningRates: steps.map((step) => at(told.learningRates, step)),
    gradientNorms: steps.map((step) => (isLost(step) ? null : at(told.gradientNorms, step))),
    unitsPerSecond: steps.map((step) => (run.unitsPerSecond ?? 2140) * at(told.wobble, step)),
    memoryBytes: steps.map((step) => (run.memoryBytes ?? 9.1e9) * at(told.wobble, step)),
    millis: steps.map((step) => millis / at(told.wobble, step)),
    evaluations: (other?.evaluations ?? told.evaluations).filter(isNew),
    exhibits: (other?.exhibits ?? (told.exhibits as EventsView["exhibits"])).filter(isNew),
    sentences: told.sentences.filter(isNew).map(({ step, text, bad }) => ({ time: timeOf(step), step, text, saved: / saved, /.test(text), bad })),
  };
}

let follower = 0;

/** Tells what happened in a run, then what happens. Whoever followed before hears no more. Returns the follower's number. */
export function follow(look: () => RunView | undefined, after: number, channel: Channel<RunNews>): number {
  follower += 1;
  const me = follower;
  let last = after;
  let told = "";
  const turn = () => {
    if (me !== follower) return;
    const run = look();
    if (!run) return;
    const to = Math.min(Math.floor(last / PER_STEP) + MAX, run.step);
    const events = eventsAfter(run, last, to);
    const state = `${run.status} ${run.step} ${run.steps} ${run.name} ${run.status === "running" || run.changed}`;
    if (events.steps.length > 0 || state !== told) {
      told = state;
      last = events.last;
      channel.onmessage({ run: { ...run, place: null }, events });
    }
    setTimeout(turn, PACE);
  };
  setTimeout(turn, 0);
  return me;
}

/** Tells a follower no more. */
export function unfollow(number: number) {
  if (number === follower) follower += 1;
}
