// What happens in a run: a loss that falls through noise, looks at held-out data, exhibits, sentences.
//
// Everything follows from the step, so that nothing is kept and a page that asks again sees the same.

import type { Channel } from "@tauri-apps/api/core";
import type { EventsView, RunNews, RunView } from "../../../ui/src/api";
import exhibits from "./answers/exhibits.json";

/** An event's number is its step times this, and what is told is whole steps. */
const PER_STEP = 4;
/** The most steps of a message, and the time between two, as the app does it. */
const MOST = 5000;
const PACE = 33;
/** Once, the loss was not finite here, and the run went back 12 steps. */
const ROLLED_BACK_AT = 212;

/** Noise from -1 to 1 that depends on nothing but the step. */
function noise(step: number): number {
  const wave = Math.sin(step * 311.7) * 43_758.5453;
  return 2 * (wave - Math.floor(wave)) - 1;
}

/** The loss, which falls from the run's first towards its best. */
export function lossAt({ firstLoss, bestLoss, steps }: RunView, step: number): number {
  const from = firstLoss ?? 2.8;
  const to = bestLoss ?? 0.4 * from;
  return to + (from - to) * Math.exp(-step / (0.13 * steps)) + noise(step) * 0.03 * from;
}

/** How often held-out data is looked at. */
const every = (steps: number) => Math.max(1, Math.ceil(steps / 16));
const heldOutAt = (run: RunView, step: number) => 1.06 * lossAt(run, step) - noise(step) * 0.02;

function addStep(view: EventsView, run: RunView, step: number) {
  const isLost = run.loss === null && step === run.step;
  view.steps.push(step);
  view.losses.push(isLost ? null : lossAt(run, step));
  view.learningRates.push(2e-4 * Math.min(step / 40, 0.55 + 0.45 * Math.cos((Math.PI * step) / run.steps)));
  view.gradientNorms.push(isLost ? null : 0.5 + 1.4 * Math.exp(-step / (0.05 * run.steps)) + 0.1 * noise(step));
  view.unitsPerSecond.push((run.unitsPerSecond ?? 2140) * (1 + 0.04 * noise(step)));
  view.memoryBytes.push((run.memoryBytes ?? 9.1e9) * (1 + 0.01 * noise(step)));
  view.millis.push(((run.seconds || 0.48) / Math.max(run.step, 1)) * 1000);
}

function addOccasions(view: EventsView, run: RunView, step: number) {
  const time = new Date(Date.now() - ((run.step - step) / Math.max(run.step, 1)) * run.seconds * 1000).toISOString();
  const say = (text: string, bad = false) => view.sentences.push({ time, text, bad });
  if (step === 1) {
    say("The run takes about 15 min 20 s and 9.6 GB of memory, of 21.4 GB free, measured in 12 steps.");
    say(`Started on ${run.device ?? "Apple M3 Max"}; 4,399,104 of 138,914,112 parameters are trained.`);
  }
  if (step % every(run.steps) === 0) {
    view.evaluations.push({ step, loss: heldOutAt(run, step), metrics: [], best: step < 0.8 * run.steps });
    say(`Step ${step} saved, 53 MB.`);
  }
  if (step % (2 * every(run.steps)) === 0 || step === 1) {
    const at = step === 1 ? 0 : step < run.steps / 3 ? 1 : 2;
    for (const { title, texts } of exhibits) view.exhibits.push({ step, exhibit: { kind: "text", title, text: texts[at] ?? "" } });
  }
  if (step === ROLLED_BACK_AT) {
    say(`Step ${step}: the loss was not finite; back to step ${step - 12}, on with learning rate 2.0e-4.`, true);
    for (let again = step - 11; again <= step; again += 1) addStep(view, run, again);
  }
}

const ENDS: Partial<Record<RunView["status"], (run: RunView) => string>> = {
  finished: (run) => `Done, ${run.steps} steps in 42 min 10 s.`,
  stopped: (run) => `Stopped at step ${run.step}, saved.`,
  paused: (run) => `Paused at step ${run.step}, saved.`,
  failed: (run) => `${run.problem ?? "The run failed"}.`,
};

/** What happened after the event with a number, up to a step. */
export function eventsAfter(run: RunView, after: number, to = run.step): EventsView {
  const view: EventsView = { last: after, steps: [], losses: [], learningRates: [], gradientNorms: [], unitsPerSecond: [], memoryBytes: [], millis: [], evaluations: [], exhibits: [], sentences: [] };
  for (let step = Math.floor(after / PER_STEP) + 1; step <= to; step += 1) {
    addStep(view, run, step);
    addOccasions(view, run, step);
    view.last = step * PER_STEP;
  }
  const text = to === run.step && after < run.step * PER_STEP && ENDS[run.status]?.(run);
  if (text) view.sentences.push({ time: run.changed ?? new Date().toISOString(), text, bad: run.status === "failed" });
  return view;
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
    const to = Math.min(Math.floor(last / PER_STEP) + MOST, run.step);
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
