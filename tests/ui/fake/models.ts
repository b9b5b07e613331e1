// Models, each with something that others lack.

import type { ModelView } from "../../../ui/src/api/bindings";
import { CACHE, filled, HOME, refuse, type Some } from "./scene";

const cached = (name: string, hash: string) => `${CACHE}/models--${name.replace("/", "--")}/snapshots/${hash}`;
const LONG = "a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged";

type Row = [place: ModelView["place"], name: string, path: string, architecture: string, parameters: number | null, bytes: number, context: number | null, more?: Partial<ModelView>];

const made = ([place, name, path, architecture, parameters, bytes, context, more]: Row): ModelView => ({
  name,
  path,
  place,
  architecture,
  parameters,
  bytes,
  context,
  answers: true,
  problem: null,
  ...more,
});

const ROWS: Row[] = [
  ["own", "SmolLM2-135M-Instruct", `${HOME}/models/SmolLM2-135M-Instruct`, "llama", 134_515_008, 271_182_336, 8192],
  ["own", "SmolLM2-1.7B-Instruct", `${HOME}/models/SmolLM2-1.7B-Instruct`, "llama", 1_711_376_384, 3_424_735_232, 8192],
  ["cache", "Qwen/Qwen3-0.6B-Base", cached("Qwen/Qwen3-0.6B-Base", "da87bfb608c14b7cf20ba1ce41287e8de496c0cd"), "qwen3", 596_049_920, 1_203_502_080, 32_768, { answers: false }],
  ["added", `a-remarkably-long-organisation-name/${LONG}`, `/Volumes/Archive of old experiments/models/2026/${LONG}`, "gemma3_text", 999_885_952, 1_999_811_208, 32_768],
  ["cache", "EleutherAI/pythia-160m", cached("EleutherAI/pythia-160m", "50f5173d932e8e61f858120bcb800b97af589f46"), "gpt_neox", null, 374_998_696, null, {
    answers: false,
    problem: "the architecture `gpt_neox` is not one of those known: gemma2, gemma3_text, llama, mistral, phi3, qwen2, qwen3, smollm3",
  }],
];

let models = filled ? ROWS.map(made) : [];

const found = (path: string) => models.find((model) => model.path === path) ?? refuse(`there is no model in \`${path}\``);

export const modelAnswers = {
  models: () => models,
  importModel: (path) => void (models = [...models, made(["added", path.split("/").at(-1) ?? path, path, "qwen2", 494_032_768, 988_097_824, 32_768])]),
  forgetModel: (path) => void (models = models.filter((model) => model !== found(path))),
  deleteModel: (path) => {
    const gone = found(path);
    if (gone.name === "SmolLM2-1.7B-Instruct") refuse("the run `Support tone` was trained from this model and can't be talked to without it", "delete the run first");
    models = models.filter((model) => model !== gone);
    return gone.bytes;
  },
} satisfies Some;
