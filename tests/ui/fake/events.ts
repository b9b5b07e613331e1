// What happens in a run: a loss that falls through noise, looks at held-out data, samples, sentences.
//
// Everything follows from the step, so that nothing is kept and a page that asks again sees the same.

import type { Channel } from "@tauri-apps/api/core";
import type { EventsView, RunNews, RunView } from "../../../ui/src/api/bindings";
import { ago, chance, noise } from "./scene";

/** An event's number is its step times this, and what is told is whole steps. */
const PER_STEP = 4;
/** The most steps of a message, and the time between two, as the app does it. */
const MOST = 5000;
const PACE = 33;

/** What a run's curve looks like. */
export interface Curve {
  seed: number;
  /** Where the loss begins and where it would end. */
  from: number;
  to: number;
  learningRate: number;
  millis: number;
  /** Once, memory ran out here, and the run went back 12 steps. */
  rolledBackAt?: number;
  /** The last step has no loss. */
  breaks?: boolean;
}

export function lossAt({ seed, from, to }: Curve, step: number, steps: number): number {
  const done = step / (0.13 * steps);
  return to + (from - to) * Math.exp(-done) + noise(seed, step) * 0.032 * (to + (from - to) * Math.exp(-done / 2));
}

export function heldOutAt(curve: Curve, step: number, steps: number): number {
  const { from, to } = curve;
  const late = Math.max(0, step / steps - 0.7);
  return to * 1.06 + (from - to) * Math.exp(-step / (0.14 * steps)) + late * late * 0.6 + noise(curve.seed + 9, step) * 0.01;
}

/** How often held-out data is looked at. */
export const every = (steps: number) => Math.max(1, Math.ceil(steps / 16));

function learningRate(curve: Curve, step: number, steps: number): number {
  const warmup = Math.max(5, Math.round(steps * 0.03));
  if (step <= warmup) return (curve.learningRate * step) / warmup;
  const done = (step - warmup) / Math.max(steps - warmup, 1);
  return curve.learningRate * (0.1 + 0.45 * (1 + Math.cos(Math.PI * Math.min(done, 1))));
}

function nothing(after: number): EventsView {
  return {
    last: after,
    steps: [],
    losses: [],
    learningRates: [],
    gradientNorms: [],
    unitsPerSecond: [],
    memoryBytes: [],
    millis: [],
    evaluations: [],
    exhibits: [],
    sentences: [],
  };
}

function addStep(view: EventsView, run: RunView, curve: Curve, step: number, again = 0) {
  const millis = curve.millis * (1 + 0.04 * noise(curve.seed + 3, step));
  const breaks = curve.breaks && step === run.step;
  view.steps.push(step);
  view.losses.push(breaks ? null : lossAt({ ...curve, seed: curve.seed + again }, step, run.steps));
  view.learningRates.push(learningRate(curve, step, run.steps));
  view.gradientNorms.push(breaks ? null : 0.35 + 1.4 * Math.exp(-step / (0.05 * run.steps)) + 0.15 * chance(curve.seed + 4, step));
  view.unitsPerSecond.push((run.unitsPerSecond ?? 2140) * (curve.millis / millis));
  view.memoryBytes.push((run.memoryBytes ?? 9.1e9) * (1 + 0.01 * noise(curve.seed + 5, step)));
  view.millis.push(millis);
}

const prompts = ["Where is my order?", "I was charged twice. What now?"];
const samples = [
  "Orders are typically processed within a number of business days. Please consult the website.",
  "Your order is on its way. Could you send me the order number?",
  "I'm sorry you're still waiting. Could you send me the order number? I'll look up where the parcel is and tell you when it will arrive.",
];

function addOccasions(view: EventsView, run: RunView, curve: Curve, step: number) {
  const minutes = ((run.step - step) * curve.millis) / 60_000;
  const say = (text: string, bad = false) => view.sentences.push({ time: ago(minutes), text, bad });
  if (step === 1) {
    const whole = Math.ceil((run.steps * curve.millis) / 60_000);
    say(`The run takes about ${whole} min 20 s and 9.6 GB of memory, of 21.4 GB free, measured in 12 steps.`);
    say(`Started on ${run.device ?? "Apple M3 Max"}; 4,399,104 of 138,914,112 parameters are trained.`);
  }
  if (step % every(run.steps) === 0) {
    const loss = heldOutAt(curve, step, run.steps);
    const earlier = Math.max(step - every(run.steps), 0);
    view.evaluations.push({ step, loss, metrics: [], best: step <= every(run.steps) || loss < heldOutAt(curve, earlier, run.steps) });
    say(`Step ${step} saved, 53 MB.`);
  }
  if (step % (2 * every(run.steps)) === 0 || step === 1) {
    const at = step === 1 ? 0 : step < run.steps / 3 ? 1 : 2;
    prompts.forEach((prompt, which) => {
      const text = which === 0 ? samples[at] : `That should not have happened, and I'm sorry. I have found both charges of ${40 + at} € and sent one of them back.`;
      view.exhibits.push({ step, exhibit: { kind: "text", title: prompt, text: text ?? "" } });
    });
  }
  if (step === curve.rolledBackAt) {
    say(`Step ${step}: the loss was not finite; back to step ${step - 12}, on with learning rate 2.0e-4.`, true);
    for (let redone = step - 11; redone <= step; redone += 1) addStep(view, run, curve, redone, 70);
  }
}

const ends: Partial<Record<RunView["status"], (run: RunView) => [string, boolean]>> = {
  finished: (run) => [`Done, ${run.steps} steps in 42 min 10 s.`, false],
  stopped: (run) => [`Stopped at step ${run.step}, saved.`, false],
  paused: (run) => [`Paused at step ${run.step}, saved.`, false],
  failed: (run) => [`${run.problem ?? "The run failed"}.`, true],
};

/** What happened after the event with a number, up to a step. */
export function eventsAfter(run: RunView, curve: Curve, after: number, to = run.step): EventsView {
  const view = nothing(after);
  for (let step = Math.floor(after / PER_STEP) + 1; step <= to; step += 1) {
    addStep(view, run, curve, step);
    addOccasions(view, run, curve, step);
    view.last = step * PER_STEP;
  }
  const end = ends[run.status]?.(run);
  if (end && to === run.step && after < run.step * PER_STEP) {
    const [text, bad] = end;
    view.sentences.push({ time: run.changed ?? ago(1), text, bad });
  }
  return view;
}

let follower = 0;

/** Tells what happened in a run, then what happens. Whoever followed before hears no more. Returns the follower's number. */
export function follow(look: () => RunView | undefined, curve: Curve, after: number, channel: Channel<RunNews>): number {
  follower += 1;
  const me = follower;
  let last = after;
  let told = "";
  const turn = () => {
    if (me !== follower) return;
    const run = look();
    if (!run) return;
    const to = Math.min(Math.floor(last / PER_STEP) + MOST, run.step);
    const events = eventsAfter(run, curve, last, to);
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
