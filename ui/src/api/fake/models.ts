// Models, each with something that others lack.

import type { ModelView_Serialize as ModelView } from "../bindings";
import { CACHE, filled, HOME, mayRefuse, refuse, type Some } from "./scene";

const snapshot = (name: string, hash: string) => `${CACHE}/models--${name.replace("/", "--")}/snapshots/${hash}`;

let models: ModelView[] = [
  {
    name: "SmolLM2-135M-Instruct",
    path: `${HOME}/models/SmolLM2-135M-Instruct`,
    place: "own",
    architecture: "llama",
    parameters: 134_515_008,
    bytes: 271_182_336,
    context: 8192,
    answers: true,
    problem: null,
  },
  {
    name: "SmolLM2-1.7B-Instruct",
    path: `${HOME}/models/SmolLM2-1.7B-Instruct`,
    place: "own",
    architecture: "llama",
    parameters: 1_711_376_384,
    bytes: 3_424_735_232,
    context: 8192,
    answers: true,
    problem: null,
  },
  {
    name: "Qwen/Qwen3-0.6B-Base",
    path: snapshot("Qwen/Qwen3-0.6B-Base", "da87bfb608c14b7cf20ba1ce41287e8de496c0cd"),
    place: "cache",
    architecture: "qwen3",
    parameters: 596_049_920,
    bytes: 1_203_502_080,
    context: 32_768,
    answers: false,
    problem: null,
  },
  {
    name: "a-remarkably-long-organisation-name/a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged",
    path: "/Volumes/Archive of old experiments/models/2026/a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged",
    place: "added",
    architecture: "gemma3_text",
    parameters: 999_885_952,
    bytes: 1_999_811_208,
    context: 32_768,
    answers: true,
    problem: null,
  },
  {
    name: "EleutherAI/pythia-160m",
    path: snapshot("EleutherAI/pythia-160m", "50f5173d932e8e61f858120bcb800b97af589f46"),
    place: "cache",
    architecture: "gpt_neox",
    parameters: null,
    bytes: 374_998_696,
    context: null,
    answers: false,
    problem: "the architecture `gpt_neox` is not one of those known: gemma2, gemma3_text, llama, mistral, phi3, qwen2, qwen3, smollm3",
  },
];
if (!filled) models = [];

export const modelNames = () => models.map((model) => model.name);

function found(path: string): ModelView {
  return models.find((model) => model.path === path) ?? refuse(`there is no model in \`${path}\``);
}

export const modelAnswers: Some<"models" | "importModel" | "forgetModel" | "deleteModel"> = {
  models: () => {
    mayRefuse(`could not read the folder of models: Permission denied (os error 13): \`${HOME}/models\``, "give Anneal access to the folder in the system's settings, or choose another one");
    return models;
  },

  importModel: (path) => {
    mayRefuse(`there is no model in the folder: \`${path}\``, "choose a folder with `config.json` and `model.safetensors`");
    models = [
      ...models,
      {
        name: path.split("/").at(-1) ?? path,
        path,
        place: "added",
        architecture: "qwen2",
        parameters: 494_032_768,
        bytes: 988_097_824,
        context: 32_768,
        answers: true,
        problem: null,
      },
    ];
    return null;
  },

  forgetModel: (path) => {
    mayRefuse("could not write the settings: No space left on device (os error 28)", "free some space, then try again");
    models = models.filter((model) => model !== found(path));
    return null;
  },

  deleteModel: (path) => {
    const model = found(path);
    if (model.name === "SmolLM2-1.7B-Instruct") {
      refuse("the run `Support tone` was trained from this model and can't be talked to without it", "delete the run first");
    }
    models = models.filter((other) => other !== model);
    return model.bytes;
  },
};
