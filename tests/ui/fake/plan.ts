// A run before it starts.

import type { FieldProblemView as FieldProblem, PlanView } from "../../../ui/src/api/bindings";
import { choices, planOf } from "./choices";
import { beginRun } from "./runs";
import { refuse, scene, type Some, wait } from "./scene";

type Settings = { [key in string]: string };

const WHOLE = ["steps", "batch.rows", "batch.length", "batch.accumulate", "lora.rank", "schedule.warmup_steps", "seed", "evaluate.every"];

function problems(settings: Settings): FieldProblem[] {
  const found: FieldProblem[] = [];
  const say = (name: string, text: string, hint: string | null = null) => found.push({ field: name, text: `\`${name}\` ${text}`, hint });
  if (!settings["data.files"]?.replace(/[[\]\s]/g, "")) say("data.files", "is missing: name at least one file");
  if ((settings.method === "lora" || settings.method === "full") && !settings.model) {
    say("model", "is missing: name the folder of a model, or set `method: scratch` to start from nothing");
  }
  for (const name of WHOLE) {
    const value = settings[name]?.trim();
    if (value && !/^\d+$/.test(value)) say(name, `is \`${value}\`, and has to be a whole number`);
    else if (value === "0" && !["seed", "evaluate.every", "schedule.warmup_steps"].includes(name)) say(name, "is 0, and has to be at least 1");
  }
  const rate = settings.learning_rate?.trim();
  if (rate && !(Number(rate) > 0 && Number(rate) <= 10)) say("learning_rate", `is ${rate}, and has to be above 0 and at most 10`);
  if (scene === "broken") {
    say("schedule.warmup_steps", "is 500, longer than the whole run of 300 steps", "shorten the warm-up, or do more steps");
    say("", "could not ask the device: the engine ended without a word", "look into the log");
  }
  return found;
}

function plan(settings: Settings): PlanView {
  const wrong = problems(settings);
  if (wrong.length > 0) return { problems: wrong, choices: [], warnings: [], steps: 0, stepUnits: 0, estimate: null, fit: null };
  const { method, steps } = planOf(settings);
  const rows = Number(settings["batch.rows"]) || 4;
  const accumulate = Number(settings["batch.accumulate"]) || 4;
  const small = method === "scratch";
  const full = method === "full";
  const kept = settings["gradient_checkpointing"] === "true" ? 0.2 : 1;
  const weights = small ? 12_589_056 : full ? 6_845_505_536 : 3_422_752_768;
  const optimizer = small ? 37_767_168 : full ? 20_536_516_608 : 289_406_976;
  const activations = (small ? 60_000_000 : 1_225_000_000) * rows * kept;
  const rest = small ? 400_000_000 : 1_000_000_000;
  const needed = weights + optimizer + activations + rest;
  return {
    problems: [],
    choices: choices(settings),
    warnings: [
      ...(small ? [] : ["the longest row has 1412 tokens and is cut to 1024"]),
      ...(steps > 8000 ? [`${steps} steps see the data ${Math.round(steps / 374)} times, which tends to memorize it`] : []),
    ],
    steps,
    stepUnits: rows * 1024 * accumulate,
    estimate: {
      parameters: small ? 3_147_264 : 1_711_376_384,
      trainableParameters: small ? 3_147_264 : full ? 1_711_376_384 : 18_087_936,
      weightsBytes: weights,
      optimizerBytes: optimizer,
      activationsBytes: activations,
      restBytes: rest,
      parts: Object.entries({
        weights,
        gradients: optimizer / 4,
        optimizer: optimizer / 2,
        attention: activations * 0.25,
        "feed-forward": activations * 0.45,
        "logits and head": activations * 0.3,
        "program and spare": rest,
      }).map(([name, bytes]) => ({ name, bytes })),
      freeBytes: FREE,
      roomBytes: ROOM,
      seconds: full ? null : steps * (small ? 0.104 : 0.48),
      rateFrom: full ? null : small ? "Shakespeare, small" : "Support tone",
    },
    fit: fit(needed, full, rows, accumulate),
  };
}

/** What is free on the device, and the share of it that a run may take. */
const FREE = 21_412_356_096;
const ROOM = 0.8 * FREE;

function fit(neededBytes: number, full: boolean, rows: number, accumulate: number): PlanView["fit"] {
  const fits = neededBytes <= ROOM;
  const base = { fits, neededBytes, freeBytes: FREE };
  if (fits) return { ...base, refusal: "", fixes: [] };
  const refusal = `the run needs about ${(neededBytes / 1e9).toFixed(1)} GB, and 21.4 GB are free`;
  const adapter = { fields: { method: "lora", "batch.rows": String(rows), "batch.accumulate": String(accumulate) }, message: "an adapter instead of all weights: can learn less", neededBytes: 9_612_159_744 };
  if (full) return { ...base, refusal, fixes: [adapter] };
  return {
    ...base,
    refusal,
    fixes: [
      { fields: { "batch.rows": "8", "batch.accumulate": String((rows * accumulate) / 8) }, message: `8 rows at once instead of ${rows}: learns the same`, neededBytes: 14_512_159_744 },
      { fields: { gradient_checkpointing: "true" }, message: "gradient checkpointing: 33 % slower", neededBytes: neededBytes * 0.2 },
      { fields: { "batch.length": "512", "data.max_length": "512" }, message: "rows of 512 instead of 1,024: cuts 48 rows", neededBytes: 14_700_000_000 },
    ],
  };
}

/** Refuses a request that has something wrong, as starting it does. */
function check(settings: Settings) {
  const [wrong] = problems(settings);
  if (wrong) refuse(wrong.text, wrong.hint, wrong.field || null);
}

let stopped = false;

export const planAnswers = {
  planRun: async (settings) => {
    await wait(40);
    return plan(settings);
  },

  tryRun: async (settings) => {
    check(settings);
    stopped = false;
    for (let turn = 0; turn < 15 && !stopped; turn += 1) await wait(100);
    if (stopped) refuse("the trial was stopped before it knew anything");
    const { steps, method } = planOf(settings);
    const millis = method === "scratch" ? 101 : 512;
    return { steps: 5, whole: true, millis, seconds: (millis / 1000) * steps, peakBytes: method === "scratch" ? 5.2e8 : 9.61e9 };
  },

  stopTrial: () => void (stopped = true),

  startRun: (settings, force) => {
    check(settings);
    const { fit } = plan(settings);
    if (fit && !fit.fits && !force) refuse(fit.refusal);
    return beginRun(settings);
  },

  readRunFile: (path) => {
    return {
      name: "Support tone",
      model: "/Users/mira/Library/Application Support/app.anneal.desktop/models/SmolLM2-1.7B-Instruct",
      method: "lora",
      "data.files": "[/Users/mira/Documents/support.jsonl]",
      steps: "2000",
      "lora.rank": "16",
    };
  },

  writeRunFile: (path, settings) => void (check(settings)),
} satisfies Some;
