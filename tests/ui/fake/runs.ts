// Runs: one of every status, and what can be done with them.

import type { RunStatus, RunView } from "../../../ui/src/api/bindings";
import { type Curve, eventsAfter, every, follow, heldOutAt, lossAt, unfollow } from "./events";
import { planOf, planLines } from "./choices";
import { ago, filled, HOME, points, rate, refuse, scene, type Some } from "./scene";

interface Made {
  view: RunView;
  curve: Curve;
  /** When it was last started, and the step it began at. */
  since: number;
  from: number;
}

const curve = (seed: number, from = 2.83, to = 1.05): Curve => ({ seed, from, to, learningRate: 2e-4, millis: 480 });

function make(id: string, name: string, status: RunStatus, step: number, steps: number, shape: Curve, more: Partial<RunView>): Made {
  const began = step > 0;
  const seconds = (step * shape.millis) / 1000;
  const best = began ? heldOutAt(shape, Math.floor(step / every(steps)) * every(steps), steps) : null;
  const view: RunView = {
    id,
    name,
    task: "language",
    unit: "tokens",
    uses: ["chat"],
    what: "adapter for SmolLM2-1.7B-Instruct",
    method: "lora",
    data: ["support.jsonl"],
    base: `${HOME}/models/SmolLM2-1.7B-Instruct`,
    status,
    place: null,
    step,
    steps,
    firstLoss: began ? lossAt(shape, 1, steps) : null,
    loss: began ? lossAt(shape, step, steps) : null,
    bestLoss: step >= every(steps) ? best : null,
    problem: null,
    hint: null,
    forceHelps: false,
    started: began ? ago(seconds / 60 + 1) : null,
    changed: began ? ago(1) : null,
    seconds,
    secondsLeft: status === "running" ? ((steps - step) * shape.millis) / 1000 : null,
    unitsPerSecond: began ? 2140 : null,
    memoryBytes: began ? 9.1e9 : null,
    peakMemoryBytes: began ? 9.6e9 : null,
    device: began ? "Apple M3 Max" : null,
    parameters: 1_711_376_384,
    trainableParameters: 18_087_936,
    saved: step >= every(steps),
    damage: [],
    ...more,
  };
  return { view, curve: shape, since: Date.now(), from: step };
}

const scratch: Partial<RunView> = {
  what: "a new model",
  method: "scratch",
  base: null,
  data: ["shakespeare.txt"],
  parameters: 3_147_264,
  trainableParameters: 3_147_264,
  unitsPerSecond: 48_210,
  memoryBytes: 8.1e8,
  peakMemoryBytes: 9.4e8,
};
const old = (days: number, minutes = 40): Partial<RunView> => ({ started: ago(days * 1440 + minutes), changed: ago(days * 1440) });

function first(): Made[] {
  const goingSteps = points === 1284 && rate === 3 ? 2000 : Math.round(points * 1.25 + rate * 600);
  const offered = scene === "offered";
  const long =
    "Letters of my grandmother to her sister, 1931 to 1958, with all of the corrections that were made in the second reading and the notes";
  return [
    make("2026-11-21-support-tone-7f3a", "Support tone", offered ? "interrupted" : "running", points, goingSteps, { ...curve(11), rolledBackAt: 212 }, {}),
    make("2026-11-21-sums-step-by-step-18bc", "Sums, step by step", "interrupted", 0, 700, curve(23), { place: offered ? null : 1, data: ["train.jsonl"] }),
    make("2026-11-21-letters-aa01", long, "interrupted", 0, 1500, curve(31), {
      place: offered ? null : 2,
      method: "full",
      what: "all of a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged",
      data: ["letters-1931.jsonl", "letters-1932-to-1939.jsonl", "letters-1940-to-1958.jsonl"],
    }),
    make("2026-11-20-support-tone-3e90", "Support tone", "finished", 2000, 2000, curve(12, 2.81, 1.19), { ...old(1) }),
    make("2026-11-19-shakespeare-c41d", "Shakespeare, small", "finished", 5000, 5000, { ...curve(41, 6.91, 1.47), millis: 104, learningRate: 2e-3 }, { ...scratch, ...old(2) }),
    make("2026-11-18-questions-55f2", "Questions by kind", "paused", 310, 900, curve(51, 3.9, 0.6), { data: ["TREC_10.label"], ...old(3) }),
    make("2026-11-17-shakespeare-b2e7", "Shakespeare at a high rate", "failed", 812, 5000, { ...curve(61, 6.91, 1.6), millis: 104, breaks: true }, {
      ...scratch,
      ...old(4),
      loss: null,
      problem: "the loss is not a number at step 812; the last checkpoint is of step 626",
      hint: "lower the learning rate, or compute in f32",
    }),
    make("2026-11-15-tone-of-voice-0d3c", "Tone of voice", "stopped", 640, 2000, curve(71), { ...old(6) }),
    make("2026-11-12-diary-9e11", "Diary", "interrupted", 128, 1500, curve(81, 3.3, 1.9), { data: ["diary.txt"], ...old(9) }),
    make("2026-11-08-desk-77b0", "Answers of the desk", "failed", 640, 2000, curve(83), {
      ...old(13),
      problem:
        "`support.jsonl` is not what it was when the run began: it had 4,102,884 bytes, written 2026-11-08T14:02:11Z, and has 4,318,090 now: `/Users/mira/Documents/support.jsonl`",
      hint: "bring back what it was, or name the right file in the run's `run.yaml`",
      forceHelps: true,
    }),
    make("2026-11-02-first-model-11aa", "starter", "finished", 600, 600, { ...curve(91, 5.5, 0.31), millis: 90, learningRate: 2e-3 }, { ...scratch, data: ["starter.jsonl"], ...old(19) }),
  ];
}

let runs: Made[] = filled ? first() : [];
/** The run that is running here, paused or not. Another that is paused is held by a terminal. */
let going = runs.find((made) => made.view.status === "running");
let offered: string[] = scene === "offered" ? runs.slice(0, 3).map((run) => run.view.id) : [];

/** The run as it is now: the one that is running has done more since. */
function now(made: Made): RunView {
  const { view } = made;
  if (view.status === "running") {
    view.step = Math.min(made.from + Math.floor(((Date.now() - made.since) / 1000) * rate), view.steps);
    view.loss = lossAt(made.curve, view.step, view.steps);
    view.seconds = (view.step * made.curve.millis) / 1000;
    view.secondsLeft = (view.steps - view.step) / rate;
    view.changed = new Date().toISOString();
    if (view.step === view.steps) end(made, "finished");
  }
  return { ...view };
}

function found(id: string): Made {
  return runs.find((made) => made.view.id === id) ?? refuse(`there is no run \`${id}\``, "it may have been renamed or deleted");
}

export const visibleRuns = () => runs.map(now);
export const goingRun = () => (going ? now(going) : null);
export const waitingRuns = () =>
  visibleRuns()
    .filter((run) => run.place !== null)
    .sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
export const offeredRuns = () => offered.map((id) => now(found(id)));
export function forgetOffered() {
  offered = [];
}

/** Puts a run into the line, or starts it when the line is empty. */
function add(made: Made) {
  if (going && going !== made) {
    made.view.place ??= waitingRuns().length + 1;
    return;
  }
  going = made;
  Object.assign(made.view, { status: "running", place: null, problem: null, hint: null, forceHelps: false, device: "Apple M3 Max" });
  made.view.unitsPerSecond ??= 2140;
  made.view.started ??= ago(0);
  made.since = Date.now();
  made.from = made.view.step;
}

/** Takes a run out of the line. The next one starts. */
function end(made: Made, status: RunStatus) {
  if (made.view.place === null) Object.assign(made.view, { status, secondsLeft: null, saved: made.view.step > 0 });
  made.view.place = null;
  if (going === made) {
    going = undefined;
    const next = runs.filter((each) => each.view.place !== null).sort((a, b) => (a.view.place ?? 0) - (b.view.place ?? 0))[0];
    if (next) add(next);
  }
  waitingRuns().forEach((run, at) => (found(run.id).view.place = at + 1));
}

function begin(name: string, steps: number, more: Partial<RunView>): string {
  const made = make(`2026-11-21-${name.toLowerCase().replace(/\W+/g, "-")}-${runs.length}e5f`, name, "interrupted", 0, steps, curve(100 + runs.length), more);
  runs = [made, ...runs];
  add(made);
  return made.view.id;
}

export function starterRun(): string {
  return begin("starter", 600, { ...scratch, data: ["starter.jsonl"] });
}

/** Starts a run as it was filled in. */
export function beginRun(settings: Record<string, string>): string {
  const plan = planOf(settings);
  return begin(plan.name, plan.steps, { method: plan.method, what: plan.method === "scratch" ? "a new model" : `adapter for ${plan.model}`, data: [plan.data] });
}

const LOG = `loading /Users/mira/Documents/support.jsonl
5986 rows, 3 left out
metal: 28.9 GB, 21.4 GB free
step 212: out of memory with 4 x 1024 tokens; back to step 200 with 2 x 1024
thermal state: fair
`;

export const runAnswers = {
  runs: () => visibleRuns(),
  run: (id) => now(found(id)),

  runEvents: (id) => {
    const made = found(id);
    return eventsAfter(now(made), made.curve, 0);
  },

  followRun: (id, after, news) => {
    const made = found(id);
    return follow(() => runs.find((each) => each === made) && now(made), made.curve, after, news);
  },

  unfollowRun: (follower) => void (unfollow(follower)),

  runPlan: (id) => {
    const { view } = found(id);
    return planLines({ method: view.method, name: view.name, steps: String(view.steps) });
  },

  runSettings: (id) => {
    const { view } = found(id);
    const settings = { name: view.name, method: view.method, steps: String(view.steps), "data.files": `[${view.data.map((name) => `/Users/mira/Documents/${name}`).join(", ")}]` };
    return view.base ? { ...settings, model: view.base, "lora.rank": "16" } : settings;
  },

  runFiles: (id) => {
    const { view } = found(id);
    const last = Math.floor(view.step / every(view.steps)) * every(view.steps);
    const size = view.method === "lora" ? 217_104_384 : 37_801_216;
    const checkpoint = (step: number, newest: boolean) => ({
      name: `checkpoints/step-${String(step).padStart(6, "0")}`,
      bytes: size,
      what: newest ? "a checkpoint: newest, best, the one that is talked to" : "a checkpoint: one of the last 2",
    });
    const known = [
      { name: "run.yaml", bytes: 4102, what: "the plan, with its reasons" },
      { name: "events.jsonl", bytes: 202 * view.step + 310, what: "what happened, by number" },
      { name: "sources.json", bytes: 902, what: "what it learns from and starts from, by sum" },
      { name: "log.txt", bytes: LOG.length, what: "what the engine wrote beside it" },
    ];
    if (!view.saved) return known;
    return [...known, checkpoint(Math.max(last - every(view.steps), every(view.steps)), false), checkpoint(last, true)];
  },

  runLog: (id) => (found(id).view.step > 0 ? LOG : ""),

  pauseRun: (id) => {
    const made = found(id);
    now(made);
    made.view.status = "paused";
  },

  stopRun: (id) => {
    const made = found(id);
    now(made);
    end(made, made.view.step > 0 ? "stopped" : "interrupted");
  },

  resumeRun: (id, force) => {
    const made = found(id);
    // It is refused again as long as nobody insists.
    if (force || !made.view.forceHelps) add(made);
    else made.view.changed = new Date().toISOString();
  },

  extendRun: (id, steps) => {
    const made = found(id);
    if (steps <= made.view.steps) refuse(`\`steps\` is ${steps}, and the run has ${made.view.steps} already`, "name a later step", "steps");
    made.view.steps = steps;
    add(made);
  },

  orderRuns: (ids) => void (ids.forEach((id, at) => (found(id).view.place = at + 1))),

  renameRun: (id, name) => {
    if (!name.trim()) refuse("`name` is empty", "give the run a name", "name");
    found(id).view.name = name;
    return id;
  },

  deleteRun: (id) => {
    const made = found(id);
    if (going === made || made.view.place !== null) refuse("the run is running or waiting", "stop it first");
    runs = runs.filter((each) => each !== made);
    return 254_905_600;
  },
} satisfies Some;
