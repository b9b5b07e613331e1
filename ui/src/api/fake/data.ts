// Data: four sets, one of each trouble.

import type {
  BinView,
  DataRequestView_Deserialize as NewRequest,
  DataRequestView_Serialize as DataRequest,
  DataSetView_Serialize as DataSetView,
  InspectionView_Serialize as InspectionView,
} from "../bindings";
import { ago, chance, filled, HOME, mayRefuse, refuse, type Some, wait } from "./scene";

const asFound: DataRequest = { format: null, columns: {}, encoding: null, rows: null, skipBadRows: false };

function set(id: string, name: string, path: string, minutes: number, request: Partial<DataRequest> = {}): DataSetView {
  return { id, name, path, request: { ...asFound, ...request }, added: ago(minutes), exists: true };
}

let sets: DataSetView[] = filled
  ? [
      set("support-4b1e", "support", "/Users/mira/Documents/support.jsonl", 95),
      set("gsm8k-train-90ac", "gsm8k-train", "/Users/mira/Downloads/gsm8k/train.jsonl", 60 * 26, {
        columns: { prompt: "question", completion: "answer" },
      }),
      set("trec-77d0", "TREC_10", "/Users/mira/Downloads/trec/TREC_10.label", 60 * 24 * 3),
      {
        ...set(
          "the-complete-works-3c55",
          "The complete works of William Shakespeare, collected from the first folio, with spelling made modern throughout",
          "/Volumes/Archive of old experiments/data/gutenberg/2026/shakespeare/the-complete-works-of-william-shakespeare.txt",
          60 * 24 * 40,
        ),
        exists: false,
      },
    ]
  : [];

export const dataNames = () => sets.map((each) => each.name);

function found(id: string): DataSetView {
  return sets.find((each) => each.id === id) ?? refuse(`there is no data \`${id}\``);
}

function whole(request: NewRequest): DataRequest {
  const { format = null, columns, encoding = null, rows = null, skipBadRows } = request;
  return { format, columns, encoding, rows, skipBadRows };
}

function histogram(longest: number, rows: number): BinView[] {
  const width = Math.ceil(longest / 20);
  const shares = Array.from({ length: 20 }, (_, at) => Math.exp(-(((at - 5.5) / 3.4) ** 2)) * (0.9 + 0.2 * chance(5, at)) + 0.004);
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share, at) => ({ from: at * width, to: (at + 1) * width, rows: Math.round((share / sum) * rows) }));
}

function tokenizer(model: string | null): string {
  return model ? "the model's tokenizer of 49152 tokens" : "a new tokenizer of 1024 tokens, trained on this data";
}

function support(path: string, model: string | null): InspectionView {
  return {
    files: [{ path, reason: "conversations in the layout `messages`, because the rows have that column", rows: 5986, problems: 3 }],
    columns: ["messages", "ticket"],
    problems: [
      { path, line: 2113, text: "`messages` is empty" },
      { path, line: 4120, text: "`messages[1].role` is `agent`, which is none of `system`, `user` and `assistant`" },
      { path, line: 5989, text: "is not JSON: expected `,` or `}`, at column 1877" },
    ],
    problemCount: 3,
    problem: null,
    content: {
      isStream: false,
      tokenizer: tokenizer(model),
      template: "the model's own, ChatML",
      rows: 5986,
      tokens: 1_184_220,
      learnedTokens: 502_118,
      shortest: 31,
      longest: 1412,
      mean: 197.8,
      percentiles: [[5, 74], [25, 128], [50, 181], [75, 246], [95, 402], [99, 871]],
      histogram: histogram(1412, 5986),
      exampleLine: 1,
      example: [
        { text: "<|im_start|>user\nWhere is my order?<|im_end|>\n<|im_start|>assistant\n", learned: false },
        { text: "I'm sorry you're still waiting. Could you send me the order number?<|im_end|>", learned: true },
      ],
    },
  };
}

function sums(path: string, request: NewRequest, model: string | null): InspectionView {
  const columns = ["question", "answer"];
  if (!request.columns.prompt || !request.columns.completion) {
    const hint = "say which column is what, for example `columns: {prompt: question, completion: answer}`";
    const message =
      "the columns are `question` and `answer`, which is none of the layouts known: `messages`, `conversations`, `prompt` and `completion`, `instruction` and `output`, or `text`";
    return { files: [], columns, problems: [], problemCount: 0, problem: { code: "invalid_request", message, hint, field: "data.columns" }, content: null };
  }
  const { prompt, completion } = request.columns;
  return {
    files: [
      {
        path,
        reason: `conversations in the layout \`prompt_completion\`, mapped as asked: completion from \`${completion}\`, prompt from \`${prompt}\``,
        rows: 7473,
        problems: 0,
      },
    ],
    columns,
    problems: [],
    problemCount: 0,
    problem: null,
    content: {
      isStream: false,
      tokenizer: tokenizer(model),
      template: "ChatML, because there is no chat template",
      rows: 7473,
      tokens: 1_402_377,
      learnedTokens: 861_904,
      shortest: 52,
      longest: 611,
      mean: 187.7,
      percentiles: [[5, 96], [25, 138], [50, 178], [75, 226], [95, 318], [99, 402]],
      histogram: histogram(611, 7473),
      exampleLine: 1,
      example: [
        {
          text: "<|im_start|>user\nNatalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did Natalia sell altogether in April and May?<|im_end|>\n<|im_start|>assistant\n",
          learned: false,
        },
        { text: "Natalia sold 48/2 = 24 clips in May.\nAltogether she sold 48+24 = 72 clips.\n#### 72<|im_end|>", learned: true },
      ],
    },
  };
}

function trec(path: string, request: NewRequest, model: string | null): InspectionView {
  if (request.encoding !== "latin-1" && request.encoding !== "iso-8859-1") {
    const message = `not UTF-8 at byte 4231 (0xE9, line 87); if the text has another encoding, name it, for example \`encoding: latin-1\`: \`${path}\``;
    const problem = { code: "invalid_request" as const, message, hint: "the byte is `é` in latin-1", field: "data.encoding" };
    return { files: [], columns: [], problems: [], problemCount: 0, problem, content: null };
  }
  return text(path, "plain text, one stream learned in windows, because nothing marks its rows; set `rows: lines` or `rows: paragraphs` to have rows", request, model);
}

function text(path: string, reason: string, request: NewRequest, model: string | null): InspectionView {
  const isStream = request.rows !== "lines" && request.rows !== "paragraphs";
  const rows = isStream ? 1 : 500;
  const example =
    "NUM:dist How far is it from Denver to Aspen ?\nLOC:city What county is Modesto , California in ?\nHUM:desc Who was Galileo ?\nDESC:def What is an atom ?\nNUM:date When did Hawaii become a state ?";
  return {
    files: [{ path, reason, rows, problems: 0 }],
    columns: [],
    problems: [],
    problemCount: 0,
    problem: null,
    content: {
      isStream,
      tokenizer: tokenizer(model),
      template: null,
      rows,
      tokens: 7014,
      learnedTokens: 7014,
      shortest: isStream ? 7014 : 6,
      longest: isStream ? 7014 : 34,
      mean: isStream ? 7014 : 14,
      percentiles: isStream ? [] : [[5, 8], [25, 11], [50, 13], [75, 17], [95, 24], [99, 30]],
      histogram: isStream ? [] : histogram(34, 500),
      exampleLine: 1,
      example: [{ text: isStream ? example : (example.split("\n")[0] ?? ""), learned: true }],
    },
  };
}

export const dataAnswers: Some<"dataSets" | "addData" | "addDataText" | "changeData" | "removeData" | "inspectData"> = {
  dataSets: () => {
    mayRefuse(`could not read the list of data: line 2 is not JSON: \`${HOME}/data/sets.json\``, "the files themselves are untouched; delete the list to begin anew");
    return sets;
  },

  addData: (path) => {
    mayRefuse(`could not read the data: No such file or directory (os error 2): \`${path}\``, "choose a file that is there");
    const name = (path.split("/").at(-1) ?? path).replace(/\.\w+$/, "");
    const added = set(`${name}-${sets.length}f00`, name, path, 0);
    sets = [added, ...sets];
    return added;
  },

  addDataText: (words) => {
    mayRefuse("could not write the text: No space left on device (os error 28)", "free some space, then try again");
    const name = words.trim().split(/\s+/).slice(0, 4).join(" ");
    const file = `pasted-2026-11-21-1842${10 + sets.length}-0f0a`;
    const added = set(file, name, `${HOME}/data/${file}.txt`, 0);
    sets = [added, ...sets];
    return added;
  },

  changeData: (id, request) => {
    mayRefuse("could not write the list of data: No space left on device (os error 28)", "free some space, then try again");
    const changed = { ...found(id), request: whole(request) };
    sets = sets.map((each) => (each.id === id ? changed : each));
    return changed;
  },

  removeData: (id) => {
    mayRefuse("could not write the list of data: No space left on device (os error 28)", "free some space, then try again");
    const gone = found(id);
    sets = sets.filter((each) => each !== gone);
    return null;
  },

  inspectData: async (id, request, model) => {
    mayRefuse(`there is no data \`${id}\``);
    const { path, exists } = found(id);
    await wait(60);
    if (!exists) {
      const message = `could not read the data: No such file or directory (os error 2): \`${path}\``;
      const problem = { code: "failed" as const, message, hint: "connect the disk it lies on, or remove the data from the list", field: null };
      return { files: [], columns: [], problems: [], problemCount: 0, problem, content: null };
    }
    if (id.startsWith("gsm8k")) return sums(path, request, model);
    if (id.startsWith("trec")) return trec(path, request, model);
    if (path.endsWith(".jsonl")) return support(path, model);
    return text(path, "plain text, one stream learned in windows, because nothing marks its rows; set `rows: lines` or `rows: paragraphs` to have rows", request, model);
  },
};
