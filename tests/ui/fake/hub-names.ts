// What a search of the Hub finds: enough of it for a list that continues.

import type { FoundView } from "../../../ui/src/api/bindings";
import { ago, chance } from "./scene";

/** Its name, its downloads in thirty days and its likes, both in thousands, and what else is different from most. */
type Row = [id: string, downloads: number, likes: number, more?: Partial<FoundView>];

function found([id, downloads, likes, more]: Row, at: number, task: string | null): FoundView {
  const changed = ago(60 * 24 * (1 + Math.floor(900 * chance(31, at))));
  return { id, task, license: "apache-2.0", downloads: downloads * 1000, likes: likes * 1000, changed, gated: false, here: false, ...more };
}

const LONG = "a-remarkably-long-organisation-name/a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged";
const mit = { license: "mit" };
const gemma = { license: "gemma", gated: true };
const llama = { license: "llama3.2", gated: true };

const models: Row[] = [
  ["HuggingFaceTB/SmolLM2-135M-Instruct", 1184, 0.281], ["HuggingFaceTB/SmolLM2-360M-Instruct", 412, 0.153], ["HuggingFaceTB/SmolLM2-1.7B-Instruct", 638, 0.724],
  ["HuggingFaceTB/SmolLM2-135M", 921, 0.166, { here: true }], ["HuggingFaceTB/SmolLM3-3B", 305, 0.812], ["Qwen/Qwen2.5-0.5B", 1362, 0.354, { here: true }],
  ["Qwen/Qwen2.5-0.5B-Instruct", 2710, 0.421], ["Qwen/Qwen2.5-1.5B-Instruct", 3905, 0.575], ["Qwen/Qwen2.5-7B-Instruct", 8120, 0.93], ["Qwen/Qwen3-0.6B", 7233, 0.884],
  ["Qwen/Qwen3-0.6B-Base", 141, 0.132], ["Qwen/Qwen3-1.7B", 2144, 0.346], ["Qwen/Qwen3-4B", 3120, 0.471], ["Qwen/Qwen3-8B", 4012, 0.801],
  ["meta-llama/Llama-3.2-1B", 2401, 2.21, llama], ["meta-llama/Llama-3.2-1B-Instruct", 3820, 1.24, llama], ["meta-llama/Llama-3.2-3B-Instruct", 1602, 1.93, llama],
  ["google/gemma-3-270m-it", 288, 0.501, gemma], ["google/gemma-3-1b-it", 2904, 0.742, gemma], ["google/gemma-2-2b-it", 391, 1.22, gemma],
  ["microsoft/Phi-3-mini-4k-instruct", 1120, 1.35, mit], ["microsoft/phi-2", 602, 3.41, mit], ["mistralai/Mistral-7B-Instruct-v0.3", 1801, 2.24],
  ["mistralai/Ministral-3-3B-Instruct", 210, 0.31], ["TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1703, 1.46], ["TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", 62, 0.174],
  ["openai-community/gpt2", 9612, 3.01, mit], ["openai-community/gpt2-medium-of-2019", 31, 0.012, mit], ["EleutherAI/pythia-160m", 122, 0.037],
  ["EleutherAI/pythia-410m", 88, 0.029], ["state-spaces/mamba-370m-hf", 19, 0.016], ["allenai/OLMo-2-0425-1B", 74, 0.068], ["ibm-granite/granite-4.0-350m", 41, 0.05],
  ["LiquidAI/LFM2-350M", 52, 0.23, { license: "other" }], ["roneneldan/TinyStories-33M", 33, 0.101, { license: null }], ["tiiuae/falcon-rw-1b", 27, 0.11],
  ["facebook/opt-125m", 6401, 0.22, { license: "other" }], ["bigscience/bloom-560m", 903, 0.38, { license: "bigscience-bloom-rail-1.0" }],
  ["stabilityai/stablelm-2-1_6b", 12, 0.19, { license: "other", gated: true }], [LONG, 0.04, 0.001, { license: "a-licence-of-its-own-with-a-long-name-2.0" }],
  ["a-new-name/untouched", 0, 0, { license: null, downloads: null, likes: null, changed: null }],
];

const data: Row[] = [
  ["openai/gsm8k", 902, 1.02, { task: "question-answering", license: "mit" }], ["roneneldan/TinyStories", 71, 0.83, { license: "cdla-sharing-1.0" }],
  ["ylecun/mnist", 84, 0.21, { task: "image-classification", license: "mit" }], ["HuggingFaceFW/fineweb-edu", 381, 0.91, { license: "odc-by" }],
  ["HuggingFaceTB/smoltalk", 22, 0.4], ["tatsu-lab/alpaca", 55, 0.86, { license: "cc-by-nc-4.0" }],
  ["databricks/databricks-dolly-15k", 38, 0.92, { task: "question-answering", license: "cc-by-sa-3.0" }], ["Salesforce/wikitext", 1040, 0.55, { license: "cc-by-sa-3.0" }],
  ["rajpurkar/squad", 120, 0.34, { task: "question-answering", license: "cc-by-sa-4.0" }], ["abisee/cnn_dailymail", 96, 0.3, { task: "summarization" }],
  ["CohereForAI/aya_dataset", 9, 0.31, { task: null, gated: true }],
];

export const foundModels: FoundView[] = models.map((row, at) => found(row, at, "text-generation"));
export const foundData: FoundView[] = data.map((row, at) => found(row, at + 100, "text-generation"));
