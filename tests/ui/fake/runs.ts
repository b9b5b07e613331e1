// Runs: one of every status, and what can be done with them.

import type { Channel } from "@tauri-apps/api/core";
import type { FileView, Filled, RunNews, RunView } from "../../../ui/src/api";
import files from "./answers/run-files.json";
import log from "./answers/run-log.json";
import listed from "./answers/runs.json";
import { eventsAfter, follow, lossAt, unfollow } from "./events";
import { planOf } from "./plan";
import { HOME, lastOf, now, points, rate, recorded, refuse, scene, type Some, Things } from "./scene";

const runs = new Things<RunView>("run", ({ id }) => id, listed);
/** The run that is running here, paused or not. Another that is paused is held by a terminal. */
let going = runs.all.find(({ status }) => status === "running");
/** When it was last started, and the step it began at. */
let since = Date.now();
let from = points;
let offered: string[] = [];

if (going && scene === "offered") {
  const open = runs.all.filter((run) => run === going || run.place !== null);
  for (const run of open) Object.assign(run, { status: "interrupted", place: null, secondsLeft: null });
  offered = open.map(({ id }) => id);
  going = undefined;
} else if (going) {
  going.steps = Math.max(2000, Math.round(points * 1.25 + rate * 600));
}

/** Brings the run that is running to where it is by now. */
function catchUp() {
  if (going?.status !== "running") return;
  const { steps, step: before, seconds } = going;
  const step = Math.min(from + Math.floor(((Date.now() - since) / 1000) * rate), steps);
  const perStep = before > 0 ? seconds / before : 0.1;
  Object.assign(going, { step, loss: lossAt(step), seconds: step * perStep, secondsLeft: Math.max(60, 60 * Math.round((steps - step) / rate / 60)), changed: now() });
  if (step === steps) end(going, "finished");
}

function find(id: string): RunView {
  catchUp();
  return runs.find(id);
}

const line = () => runs.all.filter(({ place }) => place !== null).sort((a, b) => (a.place ?? 0) - (b.place ?? 0));

export function visibleRuns(): RunView[] {
  catchUp();
  return structuredClone(runs.all);
}

export const goingRun = () => visibleRuns().find(({ id }) => id === going?.id) ?? null;
export const waitingRuns = () => structuredClone(line());
export const offeredRuns = () => offered.map((id) => structuredClone(find(id)));
export function forgetOffered() {
  offered = [];
}

/** Puts a run into the line, or starts it when the line is empty. */
function add(run: RunView) {
  if (going && going !== run) {
    run.place ??= line().length + 1;
    return;
  }
  going = run;
  Object.assign(run, { status: "running", place: null, problem: null, hint: null, forceHelps: false, device: "Apple M3 Max", started: run.started ?? now() });
  since = Date.now();
  from = run.step;
}

/** Takes a run out of the line. The next one starts. */
function end(run: RunView, status: RunView["status"]) {
  if (run.place === null) Object.assign(run, { status, secondsLeft: null, saved: run.step > 0 });
  run.place = null;
  if (going === run) {
    going = undefined;
    const [next] = line();
    if (next) add(next);
  }
  line().forEach((each, at) => (each.place = at + 1));
}

/** Starts a run as it was filled in. */
export function beginRun(filled: Filled, steps: number): string {
  const { name = "New run", method = "lora" } = filled;
  const data = (filled["data.files"] ?? "").replace(/[["\]]/g, "").split(", ").map(lastOf);
  const like = recorded<RunView[]>(listed).find((run) => run.method === method) as RunView;
  const fresh = { status: "interrupted", step: 0, loss: null, smoothedLoss: null, bestLoss: null, bestStep: null, busy: false, firstLoss: null, firstHeldOutLoss: null, seconds: 0, started: null, changed: null, saved: false, place: null } as const;
  const id = `2026-11-21-${name.toLowerCase().replace(/\W+/g, "-")}-${runs.all.length}e5f`;
  add(runs.add({ ...like, ...fresh, metrics: [], id, name, steps, data }));
  return id;
}

export const starterRun = () => beginRun({ name: "starter", method: "scratch", "data.files": "[starter.jsonl]" }, 600);

export const runAnswers = {
  runs: () => visibleRuns(),
  run: (id) => structuredClone(find(id)),
  runEvents: (id) => eventsAfter(find(id), 0),
  followRun: (id, after, news) => {
    find(id);
    return follow(() => visibleRuns().find((run) => run.id === id), after, news as Channel<RunNews>);
  },
  unfollowRun: (follower) => void unfollow(follower),

  runPlan: (id) => {
    const { name, method, steps } = find(id);
    const own: Filled = { name, steps: String(steps) };
    return planOf({ method, model: "/", "data.files": "[/]" }).choices.map(({ field, value, why }) => ({ field, value: own[field] ?? value, why }));
  },

  runSettings: (id): Filled => {
    const { name, method, steps, data, base } = find(id);
    const settings = { name, method, steps: String(steps), "data.files": `[${data.map((file) => `/Users/mira/Documents/${file}`).join(", ")}]` };
    return base ? { ...settings, model: base, "lora.rank": "16" } : settings;
  },

  runFiles: (id) => (find(id).saved ? files : files.slice(0, 4)) satisfies FileView[],
  runLog: (id) => (find(id).step > 0 ? log.join("\n") : ""),
  pauseRun: (id) => void (find(id).status = "paused"),

  stopRun: (id) => {
    const run = find(id);
    end(run, run.step > 0 ? "stopped" : "interrupted");
  },

  resumeRun: (id, force) => {
    const run = find(id);
    // It is refused again as long as nobody insists.
    if (force || !run.forceHelps) add(run);
    else run.changed = now();
  },

  deleteRun: (id) => {
    const run = find(id);
    if (going === run || run.place !== null) refuse("the run is running or waiting", "stop it first");
    runs.remove(id);
    return 254_905_600;
  },
} satisfies Some;
