// How well a run's cost is known before it starts: for each setting the estimate, the measured forecast and a real run,
// as a table in Markdown.
//
//   node tests/forecast/forecast.mjs PROGRAM [cpu|cuda] [FOLDER] [WORDS]
//
// PROGRAM is `anneal`; for `cuda`, its CUDA engine stands beside it. FOLDER keeps the models and runs, so that a second call continues
//  with them; without it they are in a temporary folder that is removed. WORDS leave out the settings that have none of them in
// their name: `full 1B`. Nothing is fetched: models are made by short runs from nothing, and the text by this script. What is
// compared is written to the standard output, progress to the other.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [program, device = "cpu", given, ...wanted] = process.argv.slice(2);
if (!program) {
  console.error("usage: node tests/forecast/forecast.mjs PROGRAM [cpu|cuda] [FOLDER] [WORDS]");
  process.exit(2);
}
const anneal = resolve(program);
const home = given ? resolve(given) : mkdtempSync(join(tmpdir(), "anneal-forecast-"));
mkdirSync(home, { recursive: true });

/** Shapes of models, by name: width, feed-forward, layers, heads, key heads, tokens known. */
const SHAPES = {
  "4M": [256, 768, 4, 4, 2, 2048],
  "13M": [384, 1024, 6, 6, 3, 4096],
  "33M": [512, 1536, 8, 8, 4, 16384],
  "135M": [576, 1536, 30, 9, 3, 49152],
  "1B": [2048, 5632, 20, 16, 8, 49152],
};

/** What is compared. `steps` are as many as give a run of some length. */
const SETTINGS = {
  cpu: [
    { method: "lora", shape: "4M", rows: 8, length: 256 },
    { method: "lora", shape: "13M", rows: 1, length: 256 },
    { method: "lora", shape: "13M", rows: 4, length: 256 },
    { method: "lora", shape: "13M", rows: 4, length: 256, checkpointing: true },
    { method: "lora", shape: "13M", rows: 1, length: 128, accumulate: 4 },
    { method: "lora", shape: "13M", rows: 4, length: 256, chat: true },
    { method: "full", shape: "4M", rows: 4, length: 256 },
    { method: "full", shape: "4M", rows: 2, length: 1024 },
    { method: "full", shape: "13M", rows: 2, length: 128, accumulate: 4 },
    { method: "full", shape: "13M", rows: 2, length: 512, checkpointing: true },
    { method: "full", shape: "33M", rows: 1, length: 256, sgd: true },
    { method: "scratch", shape: "4M", rows: 8, length: 256 },
    { method: "scratch", shape: "13M", rows: 2, length: 256, ema: true },
    { method: "scratch", shape: "33M", rows: 1, length: 256 },
  ],
  cuda: [
    { method: "lora", shape: "135M", rows: 16, length: 512, steps: 200 },
    { method: "lora", shape: "1B", rows: 4, length: 1024, steps: 40 },
    { method: "lora", shape: "1B", rows: 8, length: 1024, steps: 40, checkpointing: true },
    { method: "full", shape: "135M", rows: 16, length: 512, steps: 100 },
    { method: "full", shape: "135M", rows: 8, length: 1024, steps: 60, accumulate: 4 },
    { method: "full", shape: "1B", rows: 4, length: 512, steps: 40 },
    { method: "scratch", shape: "135M", rows: 16, length: 1024, steps: 60 },
    { method: "scratch", shape: "135M", rows: 16, length: 512, steps: 100, dtype: "f32" },
  ],
}[device];

/** How often each is forecast and run. The medians are compared. */
const TURNS = { cpu: 3, cuda: 1 }[device];

/** A text with enough different words for a tokenizer, the same each time. */
function words(count, seed) {
  let state = seed;
  const next = (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const syllables = ["ka", "lo", "mi", "ten", "ru", "sha", "vor", "el", "qui", "dan", "os", "bre"];
  const word = () => Array.from({ length: 1 + next(4) }, () => syllables[next(syllables.length)]).join("");
  return Array.from({ length: count }, (_, at) => word() + (at % 12 === 11 ? ".\n" : " ")).join("");
}

const text = join(home, "text.txt");
const chat = join(home, "chat.jsonl");
if (!existsSync(text)) {
  writeFileSync(text, words(150_000, 7));
  const row = (at) => ({
    messages: [
      { role: "user", content: words(5 + (at % 40), at + 1) },
      { role: "assistant", content: words(20 + ((at * 37) % 160), at + 5000) },
    ],
  });
  writeFileSync(chat, Array.from({ length: 2000 }, (_, at) => JSON.stringify(row(at))).join("\n"));
}

function ask(...options) {
  const output = execFileSync(anneal, ["train", ...options, "--device", device, "--json"], {
    env: { ...process.env, ANNEAL_HOME: home },
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "pipe"],
  });
  return output.toString().trim().split("\n").map((line) => JSON.parse(line));
}

function shapeOf(name) {
  const [hidden, intermediate, layers, heads, keys, vocabulary] = SHAPES[name];
  const config = {
    model_type: "llama", hidden_size: hidden, intermediate_size: intermediate, num_hidden_layers: layers,
    num_attention_heads: heads, num_key_value_heads: keys, vocab_size: vocabulary, max_position_embeddings: 2048,
    tie_word_embeddings: true,
  };
  // The text knows fewer words than that; the rest is as in a model that knows more than this text.
  const fields = Object.entries(config).map(([field, value]) => [`scratch.config.${field}`, value]);
  return [...fields, ["scratch.vocab_size", Math.min(vocabulary, 1024)]];
}

const set = (fields) => fields.flatMap(([field, value]) => ["--set", `${field}=${value}`]);

/** A model of this shape: the checkpoint of a run of one step. */
function modelOf(shape) {
  const name = `model-${shape}`;
  const folder = () => {
    const runs = existsSync(join(home, "runs")) ? readdirSync(join(home, "runs")) : [];
    const run = runs.find((each) => each.includes(name.toLowerCase()));
    const checkpoints = run ? join(home, "runs", run, "checkpoints") : "";
    const last = run && existsSync(checkpoints) ? readdirSync(checkpoints).sort().at(-1) : undefined;
    return last && join(checkpoints, last);
  };
  if (!folder()) {
    console.error(`making ${name}`);
    const short = [["batch.rows", 1], ["batch.length", 64], ["batch.accumulate", 1], ["evaluate.every", 0], ["sample.every", 0], ["save.every", 0]];
    ask("--data", text, "--name", name, "--method", "scratch", "--steps", "1", ...set([...shapeOf(shape), ...short]));
  }
  return folder();
}

function optionsOf({ method, shape, rows, length, accumulate = 1, steps = 20, checkpointing, sgd, ema, dtype, chat: chats }) {
  const fields = [
    ["batch.rows", rows], ["batch.length", length], ["data.max_length", length], ["batch.accumulate", accumulate],
    ["evaluate.every", Math.ceil(steps / 2)], ["evaluate.batches", 4], ["sample.every", steps], ["sample.tokens", 16], ["save.every", steps],
    ...(checkpointing ? [["gradient_checkpointing", true]] : []),
    ...(sgd ? [["optimizer.kind", "sgd"]] : []),
    ...(ema ? [["ema", 0.99]] : []),
    ...(dtype ? [["dtype.compute", dtype]] : []),
    ...(method === "scratch" ? shapeOf(shape) : []),
  ];
  const model = method === "scratch" ? [] : ["--model", modelOf(shape)];
  return ["--data", chats ? chat : text, "--method", method, ...model, "--steps", String(steps), "--name", "compared", ...set(fields)];
}

function titleOf(setting) {
  const more = ["accumulate", "checkpointing", "sgd", "ema", "dtype", "chat"].filter((name) => setting[name]);
  const named = more.map((name) => (setting[name] === true ? name : `${name} ${setting[name]}`));
  return [`${setting.method} ${setting.shape}`, `${setting.rows} x ${setting.length}`, ...named].join(", ");
}

/** A real run: the most memory it took while it learned, and its seconds. */
function run(options) {
  const events = ask(...options, "--force").map((line) => line.event ?? line);
  const steps = events.filter(({ kind }) => kind === "stepped");
  // A model of a billion weights leaves tens of gigabytes.
  const runs = join(home, "runs");
  for (const name of readdirSync(runs)) if (name.includes("-compared-")) rmSync(join(runs, name), { recursive: true });
  return { peak: Math.max(...steps.map((step) => step.peak_bytes ?? 0)), seconds: events.find(({ kind }) => kind === "finished").seconds };
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const giga = (bytes) => (bytes / 1e9).toFixed(2);
const ratio = (value) => value.toFixed(2);
const time = (seconds) => seconds.toFixed(1);

const heads = ["Setting", "Estimated GB", "Measured GB", "Real GB", "Estimated / real", "Measured / real", "Forecast s", "Real s", "Ratio"];
if (TURNS > 1) heads.push("Single ratios");
console.log(`| ${heads.join(" | ")} |`);
console.log(`|${"---|".repeat(heads.length)}`);
const worst = { estimated: 1, measured: 1, time: 1 };
const off = (value) => Math.max(value, 1 / value);
for (const setting of SETTINGS) {
  const title = titleOf(setting);
  if (wanted.length > 0 && !wanted.some((words) => title.includes(words))) continue;
  const options = optionsOf(setting);
  // In turn, so that a machine that is slower for a while is so for both.
  const turns = Array.from({ length: TURNS }, () => ({ planned: ask(...options, "--plan", "--measure")[0], real: run(options) }));
  const [{ planned }] = turns;
  const forecast = {
    peak_bytes: median(turns.map((turn) => turn.planned.forecast.peak_bytes)),
    seconds: median(turns.map((turn) => turn.planned.forecast.seconds)),
  };
  const peak = median(turns.map((turn) => turn.real.peak));
  const seconds = median(turns.map((turn) => turn.real.seconds));
  const single = turns.map((turn) => ratio(turn.planned.forecast.seconds / turn.real.seconds)).sort();
  const ratios = {
    estimated: planned.estimated_bytes / peak,
    measured: forecast.peak_bytes / peak,
    time: forecast.seconds / seconds,
  };
  for (const [name, value] of Object.entries(ratios)) worst[name] = off(value) > off(worst[name]) ? value : worst[name];
  const cells = [
    title, giga(planned.estimated_bytes), giga(forecast.peak_bytes), giga(peak), ratio(ratios.estimated), ratio(ratios.measured),
    time(forecast.seconds), time(seconds), ratio(ratios.time), ...(TURNS > 1 ? [`${single[0]} to ${single.at(-1)}`] : []),
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
console.log(`\nFurthest off: estimate ${ratio(worst.estimated)}, measured ${ratio(worst.measured)}, time ${ratio(worst.time)}.`);
if (!given) rmSync(home, { recursive: true });
