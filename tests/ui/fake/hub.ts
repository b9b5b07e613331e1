// The Hub: what can be searched, and a few repositories, each with something that others lack. What lies on this machine
// is made up with the downloads.

import type {
  FitView,
  FoundView,
  HubFileView,
  RepositoryKind,
  RepositoryView,
  SplitView,
} from "../../../ui/src/api/bindings";
import { downloadAnswers, fetchedTo, tokenPlace } from "./downloads";
import { foundData, foundModels } from "./hub-names";
import { ago, CACHE, filled, mayBeOffline, offline, refuse, type Some, wait } from "./scene";

const FREE = 21_412_356_096;

/** A repository before it is known what of it is here. */
type Draft = Partial<RepositoryView> & { files?: HubFileView[] };

const file = (path: string, bytes: number, needed = false, warning: string | null = null): HubFileView => ({ path, bytes, needed, here: false, warning });
const PICKLE = "this file can run programs on this machine when it is opened, and Anneal does not open it";

const small = [file(".gitattributes", 1519), file("README.md", 5_813), file("config.json", 861, true), file("generation_config.json", 111, true)];
const words = [file("tokenizer.json", 2_104_556, true), file("tokenizer_config.json", 3_764, true)];
const llama = (weights: number) => [...small, file("model.safetensors", weights, true), ...words];

function fits(...gigabytes: number[]): FitView[] {
  const names = ["Talk", "Train an adapter", "Train all weights"];
  return gigabytes.map((needs, at) => ({ name: names[at] ?? "", bytes: needs * 1e9, freeBytes: FREE, fits: needs * 1e9 <= FREE }));
}

const smolCard = (size: string) => `
# SmolLM2

<p align="center">
  <img alt="SmolLM2 banner" src="https://example.org/banner.png" width="600">
</p>

SmolLM2 is a family of compact language models in three sizes: 135M, 360M and 1.7B parameters. This one has **${size}**. They solve a wide
range of tasks and are small enough to run on a laptop.

## How to use

\`\`\`python
from transformers import AutoModelForCausalLM, AutoTokenizer

checkpoint = "HuggingFaceTB/SmolLM2-${size}-Instruct"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForCausalLM.from_pretrained(checkpoint)
\`\`\`

## Evaluation

| Metric | SmolLM2 | Another of its size |
|:---|---:|---:|
| HellaSwag | 42.1 | 41.2 |
| ARC (average) | 43.9 | 42.4 |
| PIQA | 68.4 | 68.4 |

## Limits

It mostly understands and writes English. What it writes may be wrong or biased; check it before you rely on it. See the
[paper](https://arxiv.org/abs/2502.02737) for how it was made.
`;

const NOTHING = { canTalk: false, canTrain: false, card: "" };
const known = (architecture: string, parameters: number, context: number, needs: number[], files: HubFileView[], more: Draft = {}): Draft => ({ architecture, parameters, context, fits: fits(...needs), files, ...more });
const shards = (prefix: string, count: number, bytes: number) => Array.from({ length: count }, (_, at) => file(`${prefix}${String(at + 1).padStart(5, "0")}-of-${String(count).padStart(5, "0")}.safetensors`, bytes, true));
const QUANTIZED = { Q2_K: 482, Q3_K_M: 550, Q4_0: 637, Q4_K_M: 668, Q5_K_M: 782, Q6_K: 904, Q8_0: 1170 };

const models: Record<string, Draft> = {
  "HuggingFaceTB/SmolLM2-135M-Instruct": known("llama", 134_515_008, 8192, [0.39, 0.92, 2.3], [...llama(269_060_552), file("onnx/model.onnx", 538_900_000), file("runs/events.out.tfevents", 81_234)], {
    card: smolCard("135M"),
  }),
  "HuggingFaceTB/SmolLM2-360M-Instruct": known("llama", 361_821_120, 8192, [0.86, 1.7, 6.0], llama(723_674_912), { card: smolCard("360M") }),
  "HuggingFaceTB/SmolLM2-1.7B-Instruct": known("llama", 1_711_376_384, 8192, [3.7, 5.9, 27.8], [...small, ...shards("model-", 3, 1_140_932_608), ...words], { card: smolCard("1.7B") }),
  "Qwen/Qwen2.5-0.5B": known("qwen2", 494_032_768, 32_768, [1.2, 2.4, 8.1], llama(988_097_824), {
    notes: ["It was made to continue text, and has no words of its own for who speaks: train it on conversations before you talk to it"],
    card: "# Qwen2.5-0.5B\n\nThe base model, before it learned to answer.",
  }),
  "meta-llama/Llama-3.2-1B": { gate: "Llama 3.2 is only for those who accept its licence: log in on its page, accept it, and come back.", files: llama(2_471_645_608), card: "" },
  "TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF": {
    ...NOTHING,
    ...known("llama", 1_100_048_384, 2048, [], [
      file("README.md", 18_921),
      file("config.json", 29),
      ...Object.entries(QUANTIZED).map(([name, megabytes]) => file(`tinyllama-1.1b-chat-v1.0.${name}.gguf`, megabytes * 1e6)),
    ]),
    notes: [
      "it has only files in the format GGUF, which Anneal does not read: it needs weights as safetensors",
      "the model it was made from is TinyLlama/TinyLlama-1.1B-Chat-v1.0, which has them",
    ],
    card: "# TinyLlama 1.1B Chat v1.0 - GGUF\n\nFiles for llama.cpp.",
  },
  "openai-community/gpt2-medium-of-2019": {
    ...NOTHING,
    notes: ["its weights are only there as pickles, which can run programs on this machine when they are opened: Anneal reads safetensors alone"],
    files: [file("README.md", 8092), file("config.json", 718), file("pytorch_model.bin", 1_520_013_706, false, PICKLE), file("training_args.bin", 3_387, false, PICKLE), file("vocab.json", 1_042_301)],
  },
  "state-spaces/mamba-370m-hf": {
    ...NOTHING,
    architecture: "mamba",
    parameters: 371_516_416,
    notes: ["the architecture mamba is not one of those known: gemma2, gemma3_text, llama, mistral, phi3, qwen2, qwen3, smollm3"],
    files: llama(1_486_065_664),
    card: "# Mamba\n\nA state space model.",
  },
  "a-remarkably-long-organisation-name/a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged": known(
    "gemma3_text",
    26_999_885_952,
    131_072,
    [54.6, 61.2, 437.1],
    [...small, ...shards("a-folder-with-a-long-name/model-", 61, 885_242_184), ...words],
    {
      license: "a-licence-of-its-own-with-a-long-name-2.0",
      notes: ["it is larger than what is free, so talking to it would be slow, as parts of it would wait on the disk; a smaller one of the same family answers faster"],
      card: "It was merged from eleven others.",
    },
  ),
};

const split = (config: string, name: string, format: string, files: number, bytes: number, problem: string | null = null): SplitView => ({ config, name, format, files, bytes, here: false, path: `${config}/${name}`, problem });
const gsm8k = ["main", "socratic"].flatMap((config) => [
  split(config, "train", "Parquet", 1, config === "main" ? 2_306_545 : 2_679_024),
  split(config, "test", "Parquet", 1, config === "main" ? 419_088 : 487_410),
]);

const data: Record<string, Draft> = {
  "openai/gsm8k": {
    task: "question-answering",
    license: "mit",
    splits: gsm8k,
    files: [file("README.md", 7_940), ...gsm8k.map(({ config, name, bytes }) => file(`${config}/${name}-00000-of-00001.parquet`, bytes, true))],
    card: "# GSM8K\n\n8,792 problems in words of grade school mathematics, each with a solution in steps.\n\nThe configuration `socratic` has a question before each step.",
  },
  "roneneldan/TinyStories": {
    license: "cdla-sharing-1.0",
    splits: [
      split("default", "train", "Parquet", 4, 994_924_444),
      split("default", "validation", "Parquet", 1, 9_990_110),
      split("text", "TinyStories-train.txt", "Text", 1, 1_924_281_556),
      split("text", "TinyStories-valid.txt", "Text", 1, 19_306_310),
      split("archive", "TinyStories_all_data", "tar.gz", 1, 1_578_632_019, "it is packed as tar.gz, which Anneal does not unpack"),
    ],
    files: [
      file("README.md", 1_064),
      ...Array.from({ length: 4 }, (_, at) => file(`data/train-0000${at}-of-00004.parquet`, 248_731_111, true)),
      file("data/validation-00000-of-00001.parquet", 9_990_110, true),
      file("TinyStories-train.txt", 1_924_281_556),
      file("TinyStories_all_data.tar.gz", 1_578_632_019),
    ],
    card: "Short stories in words that a child of three or four understands, written by GPT-3.5 and GPT-4.",
  },
  "ylecun/mnist": {
    task: "image-classification",
    license: "mit",
    splits: ["train", "test"].map((name) => split("mnist", name, "Parquet", 1, name === "train" ? 15_561_616 : 2_595_890, "its rows are pictures: Anneal learns from text, not from pictures, yet")),
    files: [file("mnist/train-00000-of-00001.parquet", 15_561_616), file("mnist/test-00000-of-00001.parquet", 2_595_890)],
    card: "70,000 digits written by hand, 28 by 28 pixels each.",
  },
  "HuggingFaceFW/fineweb-edu": {
    task: "text-generation",
    license: "odc-by",
    notes: ["it has 110 configurations; the sample of 10 billion tokens is enough for any model that can be trained here"],
    splits: ["sample-10BT", "sample-100BT", ...Array.from({ length: 108 }, (_, at) => `CC-MAIN-${2013 + Math.floor(at / 9)}-${String(5 + (at % 9) * 5).padStart(2, "0")}`)].map((config, at) =>
      split(config, "train", "Parquet", 14 + at * 3, 28_500_000_000 + at * 9_100_000_000),
    ),
    files: Array.from({ length: 2410 }, (_, at) => file(`data/part-${String(at).padStart(5, "0")}.parquet`, 2_152_819_124, true)),
    card: `# FineWeb-Edu\n\n${"Pages of the web that teach something, chosen by a model that was trained on the judgement of a larger one. Each of the chapters of this description says how, at length.\n\n## Another chapter\n\n- A point that is made\n- Another one, with `code`, and a [link](https://example.org)\n\n".repeat(60)}`,
  },
};

const rows: Record<string, { columns: string[]; rows: string[][] }> = {
  "openai/gsm8k": {
    columns: ["question", "answer"],
    rows: [
      ["Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did Natalia sell altogether in April and May?", "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nNatalia sold 48+24 = <<48+24=72>>72 clips altogether in April and May.\n#### 72"],
      ["Weng earns $12 an hour for babysitting. Yesterday, she just did 50 minutes of babysitting. How much did she earn?", "Weng earns 12/60 = $<<12/60=0.2>>0.2 per minute.\nWorking 50 minutes, she earned 0.2 x 50 = $<<0.2*50=10>>10.\n#### 10"],
    ],
  },
  "HuggingFaceFW/fineweb-edu": {
    columns: ["text", "id", "dump", "url", "file_path", "language", "language_score", "token_count", "score", "int_score"],
    rows: Array.from({ length: 8 }, (_, at) => [
      `The Independent Jane\n${"For all the love, romance and scandal in Jane Austen's books, what they are really about is freedom and independence. ".repeat(5 + at)}`,
      `<urn:uuid:0d8a309d-25c5-405d-a08a-c11239f0d7${at}0>`,
      "CC-MAIN-2013-20",
      "http://austenauthors.net/the-independent-jane",
      "s3://commoncrawl/crawl-data/CC-MAIN-2013-20/segments/1368704392896/warc/CC-MAIN-20130516113952-00000-ip-10-60-113-184.ec2.internal.warc.gz",
      "en",
      "0.9743",
      String(845 + at * 13),
      "2.75",
      "3",
    ]),
  },
};

const foundOf = (kind: RepositoryKind) => (kind === "model" ? foundModels : foundData);

/** What of a repository is here: what was fetched is fetched whole. */
function withWhatIsHere(made: RepositoryView): RepositoryView {
  const done = downloadAnswers.downloads();
  const list = Array.isArray(done) ? done.filter(({ kind, id, state }) => kind === made.kind && id === made.id && state === "done") : [];
  const folder = filled || list.length > 0 ? fetchedTo(made.kind, made.id) : null;
  const isModelHere = made.kind === "model" && folder !== null && made.neededBytes > 0;
  const isPartHere = ({ config, name }: SplitView) =>
    made.kind === "data" && ((folder !== null && config === "main") || list.some(({ part }) => part === null || part === name || part === `${name} of ${config}`));
  for (const each of made.files) each.here = (isModelHere && each.needed) || list.some(({ part }) => part === each.path);
  for (const each of made.splits) each.here = isPartHere(each);
  const isWhole = isModelHere || (made.splits.length > 0 && made.splits.every(({ here, problem }) => here || problem !== null) && made.splits.some(({ here }) => here));
  const parts = made.splits.filter(({ here }) => here).reduce((sum, { bytes }) => sum + bytes, 0);
  return { ...made, path: isWhole ? folder : null, hereBytes: isModelHere ? made.neededBytes : made.kind === "data" ? parts : made.hereBytes };
}

function repository(found: FoundView, kind: RepositoryKind): RepositoryView {
  const draft = structuredClone((kind === "model" ? models : data)[found.id] ?? (kind === "model" ? { ...models["Qwen/Qwen2.5-0.5B"], card: "" } : {}));
  const files = draft.files ?? [];
  const neededBytes = files.reduce((sum, each) => sum + (each.needed ? each.bytes : 0), 0);
  const isOpen = kind === "model" && !draft.gate;
  return withWhatIsHere({
    ...found,
    kind,
    url: `https://huggingface.co/${kind === "model" ? "" : "datasets/"}${found.id}`,
    commit: "12fd25f77366fa6b3b4b768ec3050bf629380bac",
    gate: null,
    architecture: null,
    parameters: null,
    context: null,
    canTrain: isOpen,
    canTalk: isOpen,
    notes: [],
    fits: [],
    neededBytes,
    hereBytes: found.id === "Qwen/Qwen2.5-0.5B" && filled ? 402_653_184 : 0,
    path: null,
    splits: [],
    card: "",
    ...draft,
    files,
  });
}

export const hubAnswers = {
  hub: () => ({ endpoint: "https://huggingface.co", offline, tokenPlace: tokenPlace(), cache: CACHE, freeBytes: 212_408_115_200 }),

  hubSearch: async ({ kind, words, author, task, sort, limit }) => {
    await wait(40);
    mayBeOffline();
    const typed = words.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = foundOf(kind).filter((each) => {
      const id = each.id.toLowerCase();
      return typed.every((word) => id.includes(word)) && (author === "" || id.startsWith(`${author.toLowerCase()}/`)) && (task === "" || each.task === task);
    });
    const value = (each: FoundView) => (sort === "recent" ? Date.parse(each.changed ?? ago(0)) : (each[sort] ?? 0));
    const found = [...fitting].sort((a, b) => value(b) - value(a)).map((each) => ({ ...each, here: filled && (each.here || fetchedTo(kind, each.id) !== null) }));
    return { found: found.slice(0, limit), more: found.length > limit };
  },

  hubRepository: async (kind, id) => {
    await wait(40);
    mayBeOffline();
    const found = foundOf(kind).find((each) => each.id === id);
    if (!found) return refuse(`there is no \`${id}\` on the Hub, or it is private`, "check its name, or log in under Settings");
    return repository(found, kind);
  },

  hubFirstRows: async (id, _, config, split) => {
    await wait(40);
    mayBeOffline();
    if (id === "ylecun/mnist") refuse(`the columns of \`${split}\` are pictures and numbers: there is no text to show`);
    const known = rows[id];
    if (known) return { ...known, total: id === "openai/gsm8k" ? (split === "train" ? 7473 : 1319) : null, fetchedBytes: 524_288 };
    const text = `Once upon a time, in ${config}, a little girl found a needle in her room. It was sharp, and she did not know how to play with it.`;
    return { columns: ["text"], rows: Array.from({ length: 8 }, () => [text]), total: 2_119_719, fetchedBytes: 1_048_576 };
  },
} satisfies Some;
