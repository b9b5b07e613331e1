// A run before it starts.

import type { FieldProblemView_Serialize as FieldProblem, FieldView, PlanView_Serialize as PlanView } from "../bindings";
import { choices, planOf } from "./choices";
import { beginRun } from "./runs";
import { mayRefuse, refuse, scene, type Some, wait } from "./scene";

type Settings = { [key in string]: string };

const yesNo = ["true", "false"];
const numbers = ["f32", "bf16", "f16"];

const field = (group: string, name: string, label: string, help: string, words: string[] = [], methods: string[] = []): FieldView => ({
  field: name,
  group,
  label,
  help,
  words,
  methods,
});

const fields: FieldView[] = [
  field("Adapter", "lora.rank", "Rank", "The width of its two matrices. More can learn more.", [], ["lora"]),
  field("Adapter", "lora.alpha", "Alpha", "How strongly it counts: its output is scaled by alpha / rank.", [], ["lora"]),
  field("Adapter", "lora.dropout", "Dropout", "The share of its input dropped at random while it learns.", [], ["lora"]),
  field("Adapter", "lora.targets", "Targets", "Which weights get one, such as [q_proj, v_proj].", [], ["lora"]),
  field("Adapter", "lora.layers", "Layers", "In which layers, counted from 0, such as [0, 1, 2].", [], ["lora"]),
  field("Adapter", "lora.rslora", "Rank-stabilized", "Scale by alpha / sqrt(rank), which keeps large ranks stable.", yesNo, ["lora"]),
  field("New model", "scratch.preset", "Size", "A size that works: about 1, 3 or 124 million parameters.", ["nano", "micro", "small"], ["scratch"]),
  field("New model", "scratch.vocab_size", "Vocabulary", "How many tokens its tokenizer may have.", [], ["scratch"]),
  field("New model", "scratch.tokenizer", "Tokenizer", "trained makes one from the data; or the folder of a model.", [], ["scratch"]),
  field("New model", "scratch.config.hidden_size", "Width", "Numbers that stand for a token inside the model.", [], ["scratch"]),
  field("New model", "scratch.config.num_hidden_layers", "Layers", "How many layers it has.", [], ["scratch"]),
  field("New model", "scratch.config.num_attention_heads", "Heads", "Attention heads of a layer.", [], ["scratch"]),
  field("Step", "batch.rows", "Rows at once", "Rows computed at once. Memory grows with it."),
  field("Step", "batch.length", "Row length", "Tokens in a row. Memory grows with it."),
  field("Step", "batch.accumulate", "Accumulate", "Batches added up before the weights change. Time grows with it, memory does not."),
  field("Step", "checkpointing", "Checkpointing", "Compute activations twice instead of keeping them: less memory, about a third more time.", yesNo),
  field("Learning", "learning_rate", "Learning rate", "The highest of the run, such as 2e-4."),
  field("Learning", "schedule.kind", "Schedule", "How the learning rate falls after the warm-up.", ["cosine", "linear", "constant"]),
  field("Learning", "schedule.warmup_steps", "Warm-up", "Steps in which the learning rate rises from 0."),
  field("Learning", "schedule.min_ratio", "Last rate", "The last learning rate, as a share of the highest."),
  field("Learning", "optimizer.kind", "Optimizer", "The rule that turns gradients into updates.", ["adamw", "sgd"]),
  field("Learning", "optimizer.beta1", "Beta 1", "AdamW: how much of the mean of past gradients is kept."),
  field("Learning", "optimizer.beta2", "Beta 2", "AdamW: how much of the mean of past squared gradients is kept."),
  field("Learning", "optimizer.weight_decay", "Weight decay", "How much of each weight is taken away at each step, times the learning rate."),
  field("Learning", "clip_norm", "Clip norm", "Gradients whose norm is larger are scaled down to it. 0 turns it off."),
  field("Learning", "ema", "Average", "How much of the running average of the weights is kept, such as 0.999. 0 turns it off."),
  field("Data", "data.learn", "Learn", "From the assistant's words only, or from all words.", ["assistant", "all"]),
  field("Data", "data.held_out", "Held out", "The share of rows kept aside to measure with, from 0 to 0.5."),
  field("Data", "data.max_length", "Longest row", "Rows with more tokens are cut."),
  field("Data", "data.packing", "Packing", "Put several short rows into one, so that no part of a batch is empty.", yesNo),
  field("Data", "data.skip_bad_rows", "Skip bad rows", "Leave out rows that can't be read, instead of refusing the file.", yesNo),
  field("Machine", "device", "Device", "auto, cpu, metal, cuda, or cuda:1 for the second one."),
  field("Machine", "dtype.compute", "Computes in", "The numbers of activations and gradients.", numbers),
  field("Machine", "dtype.storage", "Stores in", "The numbers of weights that don't learn.", numbers),
  field("Machine", "strict", "Strict", "Refuse what the device can't do safely, instead of taking the next best.", yesNo),
  field("Machine", "seed", "Seed", "Where all randomness starts. The same seed and data give the same run."),
  field("Watching", "evaluate.every", "Measure every", "After how many steps the held-out data is looked at. 0 turns it off."),
  field("Watching", "evaluate.batches", "Measure on", "How many batches of it. 0 means all."),
  field("Watching", "sample.every", "Write every", "After how many steps the model writes something. 0 turns it off."),
  field("Watching", "sample.prompts", "Prompts", 'What it is to continue or answer, such as ["Hello"].'),
  field("Watching", "sample.tokens", "Write tokens", "How many tokens it may write."),
  field("Watching", "save.every", "Save every", "After how many steps the run is saved. 0 saves only at the end and when it is stopped."),
  field("Watching", "save.keep_last", "Keep last", "How many of the newest checkpoints are kept."),
  field("Watching", "save.keep_every", "Keep every", "After how many steps the run is saved and that checkpoint is kept for good. 0 turns it off."),
  field("Watching", "save.keep_best", "Keep best", "Also keep the checkpoint that measured best.", yesNo),
];

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
  if (wrong.length > 0) return { problems: wrong, choices: [], warnings: [], steps: 0, stepTokens: 0, estimate: null, fit: null };
  const { method, steps } = planOf(settings);
  const rows = Number(settings["batch.rows"]) || 4;
  const accumulate = Number(settings["batch.accumulate"]) || 4;
  const small = method === "scratch";
  const full = method === "full";
  const kept = settings["checkpointing"] === "true" ? 0.2 : 1;
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
    stepTokens: rows * 1024 * accumulate,
    estimate: {
      parameters: small ? 3_147_264 : 1_711_376_384,
      trainableParameters: small ? 3_147_264 : full ? 1_711_376_384 : 18_087_936,
      weightsBytes: weights,
      optimizerBytes: optimizer,
      activationsBytes: activations,
      restBytes: rest,
      parts: [
        { name: "weights", bytes: weights },
        ...(small || full ? [] : [{ name: "adapter", bytes: 72_351_744 }]),
        { name: "gradients", bytes: optimizer / 4 },
        { name: "optimizer", bytes: optimizer / 2 },
        { name: "attention", bytes: activations * 0.25 },
        { name: "feed-forward", bytes: activations * 0.45 },
        { name: "norms", bytes: activations * 0.15 },
        { name: "logits and head", bytes: activations * 0.1 },
        { name: "passing gradients", bytes: activations * 0.05 },
        { name: "program and spare", bytes: rest },
      ],
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
  if (fits) return { ...base, refusal: "", ways: [] };
  const refusal = `the run needs about ${(neededBytes / 1e9).toFixed(1)} GB, and 21.4 GB are free`;
  const adapter = { fields: { method: "lora", "batch.rows": String(rows), "batch.accumulate": String(accumulate) }, words: "an adapter instead of all weights: can learn less", neededBytes: 9_612_159_744 };
  if (full) return { ...base, refusal, ways: [adapter] };
  return {
    ...base,
    refusal,
    ways: [
      { fields: { "batch.rows": "8", "batch.accumulate": String((rows * accumulate) / 8) }, words: `8 rows at once instead of ${rows}: learns the same`, neededBytes: 14_512_159_744 },
      { fields: { checkpointing: "true" }, words: "checkpointing: 33 % slower", neededBytes: neededBytes * 0.2 },
      { fields: { "batch.length": "512", "data.max_length": "512" }, words: "rows of 512 instead of 1,024: cuts 48 rows", neededBytes: 14_700_000_000 },
    ],
  };
}

/** Refuses a request that has something wrong, as starting it does. */
function check(settings: Settings) {
  const [wrong] = problems(settings);
  if (wrong) refuse(wrong.text, wrong.hint, wrong.field || null);
}

let stopped = false;

export const planAnswers: Some<"trainFields" | "planRun" | "tryRun" | "stopTrial" | "startRun" | "readRunFile" | "writeRunFile"> = {
  trainFields: () => fields,

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

  stopTrial: () => {
    stopped = true;
    return null;
  },

  startRun: (settings, force) => {
    check(settings);
    const { fit } = plan(settings);
    if (fit && !fit.fits && !force) refuse(fit.refusal);
    return beginRun(settings);
  },

  readRunFile: (path) => {
    mayRefuse(`\`lora.rnak\` in line 2: unknown field \`rnak\`, expected one of rank, alpha, dropout, targets, layers, rslora: \`${path}\``, null, "lora.rnak");
    return {
      name: "Support tone",
      model: "/Users/mira/Library/Application Support/app.anneal.desktop/models/SmolLM2-1.7B-Instruct",
      method: "lora",
      "data.files": "[/Users/mira/Documents/support.jsonl]",
      steps: "2000",
      "lora.rank": "16",
    };
  },

  writeRunFile: (path, settings) => {
    check(settings);
    mayRefuse(`could not write the run file: Read-only file system (os error 30): \`${path}\``, "choose another folder");
    return null;
  },
};
