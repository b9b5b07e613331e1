// Exports: of language models as SmolLM2 has them, and of networks for pictures.

import type { Channel } from "@tauri-apps/api/core";
import type { ComparedView, ExportStageView, OfferView } from "../../../ui/src/api";
import { visibleRuns } from "./runs";
import { exporting, refuse, type Some, wait } from "./scene";

const APPS = "llama.cpp, Ollama, LM Studio, Jan";
const WEIGHTS = 134_515_008;
/** What a file has beside weights: the tokenizer, most of all. */
const OTHERS = 1_806_000;

interface Known {
  name: string;
  title: string;
  readers: string;
  ending?: string;
  /** Bytes of the smallest SmolLM2. */
  bytes: number | null;
  isAdapter?: boolean;
}

const gguf = (name: string, bits: number): Known => ({ name: `gguf-${name.toLowerCase()}`, title: `GGUF ${name}`, readers: APPS, ending: "gguf", bytes: (WEIGHTS * bits) / 8 + OTHERS });

const LANGUAGE: Known[] = [
  { name: "adapter", title: "Adapter", readers: "Transformers, vLLM", bytes: 19_586_000, isAdapter: true },
  { name: "merged", title: "Merged model", readers: "Transformers, vLLM", bytes: 269_060_552 },
  gguf("Q4_K_M", 6.165),
  gguf("Q5_K_M", 6.57),
  gguf("Q6_K", 8.12),
  gguf("Q8_0", 8.5),
  gguf("Q4_0", 5.35),
  gguf("F16", 16),
  gguf("BF16", 16),
  gguf("F32", 32),
  { name: "gguf-adapter", title: "GGUF adapter", readers: "llama.cpp, Ollama", ending: "gguf", bytes: 9_812_000, isAdapter: true },
  { name: "mlx", title: "MLX model", readers: "mlx-lm, LM Studio", bytes: 269_060_552 },
  { name: "mlx-4bit", title: "MLX 4-bit", readers: "mlx-lm, LM Studio", bytes: 75_700_000 },
  { name: "mlx-adapter", title: "MLX adapter", readers: "mlx-lm", bytes: 19_590_000, isAdapter: true },
];

const PICTURES: Known[] = [
  { name: "onnx", title: "ONNX", readers: "ONNX Runtime", ending: "onnx", bytes: null },
  { name: "coreml", title: "Core ML", readers: "apps on Apple’s systems", ending: "mlmodel", bytes: null },
  { name: "safetensors", title: "safetensors", readers: "PyTorch and timm", bytes: null },
];

const LOST = "mlx-lm does not know that layers of this model see no further than 4,096 tokens back: within so many it computes the same, and for longer texts something else.";
const REFUSED = "mlx-lm computes this model otherwise: it does not know the attention factor of its positions; export it as GGUF";

/** How far rounded weights are from what was trained. */
const MEASURED: Record<string, [same: number, divergence: number, loss: number]> = {
  "gguf-q4_k_m": [0.9528, 0.0142, 0.0118],
  "gguf-q5_k_m": [0.9731, 0.0051, 0.0042],
  "gguf-q6_k": [0.9874, 0.0013, 0.0011],
  "gguf-q8_0": [0.9946, 0.0004, 0.0004],
  "mlx-4bit": [0.9405, 0.0249, 0.0207],
  "gguf-q4_0": [0.9377, 0.0271, 0.0229],
};

const runOf = (model: string) => visibleRuns().find(({ id }) => id === model);
const isPictures = (model: string) => runOf(model)?.task === "picture";

function offersOf(model: string): OfferView[] {
  if (isPictures(model)) return PICTURES.map(({ name, title, readers, ending = null }) => ({ name, title, readers, ending, bytes: null, losses: [], refused: null, uncomparable: null, forLmStudio: false }));
  const run = runOf(model);
  const base = run?.base ?? model;
  const scale = /1\.7B/.test(base) ? 12.72 : run && run.base === null ? 0.021 : 1;
  return LANGUAGE.filter(({ isAdapter }) => !isAdapter || run?.method === "lora").map(({ name, title, readers, ending = null, bytes, isAdapter }) => {
    const refused = name === "mlx-adapter" ? REFUSED : null;
    const losses = name === "mlx" ? [LOST] : [];
    return { name, title, readers, ending, losses, refused, forLmStudio: readers.includes("LM Studio"), uncomparable: lackOf(name, base), bytes: refused || bytes === null ? null : Math.round(bytes * (isAdapter ? Math.sqrt(scale) : scale)) };
  });
}

/** A large format of a large model doesn’t fit into memory. */
const lackOf = (name: string, base: string) => (name === "gguf-bf16" && /1\.7B/.test(base) ? "comparing what is written with the model takes 8 GB of memory, and 6 GB are free: close other programs, or export without comparing" : null);

function compared(format: string, isRun: boolean): ComparedView {
  const [sameNextToken, divergence, gap] = MEASURED[format] ?? [1, 0.000002, 0];
  const lossBefore = isRun ? 0.7317 : 2.4163;
  return {
    what: isRun ? "held-out answers" : "texts that come with Anneal",
    tokens: isRun ? 8192 : 2210,
    sameNextToken,
    divergence,
    lossBefore,
    lossAfter: lossBefore + gap,
    tokenizedAlike: /adapter/.test(format) ? null : 14,
  };
}

let stop = () => {};
const untilStopped = () => new Promise<never>((_, reject) => (stop = () => reject(new Error("stopped"))));

export const exportAnswers = {
  addToOllama: async (path) => {
    await wait(20);
    return `anneal/${path.split("/").pop()!.replace(".gguf", "").toLowerCase()}`;
  },

  stopExport: async () => {
    stop();
    return null;
  },

  exports: async (model) => {
    await wait(20);
    if (/Qwen3/.test(model)) refuse("the weights are incomplete: `" + model + "/model.safetensors`", "download the model again");
    return offersOf(model);
  },

  exportModel: async (model, format, chosen, force, compares, progress) => {
    const path = chosen ?? `/Users/mira/.lmstudio/models/anneal/${model}/${model}-${format.replace("gguf-", "")}.gguf`;
    const offer = offersOf(model).find(({ name }) => name === format) ?? refuse(`\`${format}\` is no format for it`);
    const [lost] = offer.losses;
    if (lost && !force) refuse(lost, null, null, "needs_force");
    const tell = (written: number | null) => (progress as Channel<ExportStageView>).onmessage({ written });
    for (const share of [0, 0.25, 0.64, 1]) {
      tell(share);
      await wait(8);
      if (exporting === "written" && share > 0.5) await untilStopped();
    }
    tell(null);
    await wait(16);
    if (exporting === "compared") await untilStopped();
    if (/cars|shakespeare/.test(model)) refuse(`there is something already where the export would be, and an export replaces nothing: \`${path}\``);
    if (!isPictures(model)) {
      const bytes = offer.bytes ?? 0;
      return { path, bytes, readers: offer.readers, isCompared: compares, compared: compares ? "" : "not compared with what was trained", notes: offer.losses, figures: compares ? compared(format, runOf(model) !== undefined) : null, forOllama: /^gguf-(?!adapter)/.test(format) };
    }
    const what = format === "safetensors" ? "the folder was opened again as a network of somebody else: names, shapes, config and scores" : "the file was read again, and computed layer by layer from what stands in it";
    const notes = ["pictures are shown to it from 0 to 1; mean and deviation are inside", "pictures are scaled to a short side of 256 pixels with bicubic, and 224 x 224 of the middle are seen"];
    return { path, bytes: 44_731_208, readers: offer.readers, isCompared: true, compared: `compared by 8 drawn pictures: ${format === "safetensors" ? "all scores are equal" : "scores are less than 0.0001 % of the largest apart"}; ${what}`, notes, figures: null, forOllama: false };
  },
} satisfies Some;
