// Data: four sets, one of each trouble.

import type {
  Bin,
  DataRequestView as DataRequest,
  DataSetView,
  InspectionView,
} from "../../../ui/src/api/bindings";
import { ago, chance, filled, HOME, refuse, type Some, wait } from "./scene";

const asFound: DataRequest = { format: null, columns: {}, encoding: null, rows: null, skipBadRows: false };

function set(id: string, name: string, path: string, minutes: number, request: Partial<DataRequest> = {}): DataSetView {
  return { id, name, path, request: { ...asFound, ...request }, added: ago(minutes), exists: true };
}

const FOLIO = "collected from the first folio, with spelling made modern throughout";
let sets: DataSetView[] = filled
  ? [
      set("support-4b1e", "support", "/Users/mira/Documents/support.jsonl", 95),
      set("gsm8k-train-90ac", "gsm8k-train", "/Users/mira/Downloads/gsm8k/train.jsonl", 60 * 26, { columns: { prompt: "question", completion: "answer" } }),
      set("trec-77d0", "TREC_10", "/Users/mira/Downloads/trec/TREC_10.label", 60 * 24 * 3),
      { ...set("the-complete-works-3c55", `The complete works of William Shakespeare, ${FOLIO}`, "/Volumes/Archive of old experiments/data/gutenberg/2026/shakespeare/the-complete-works-of-william-shakespeare.txt", 60 * 24 * 40), exists: false },
    ]
  : [];

function found(id: string): DataSetView {
  return sets.find((each) => each.id === id) ?? refuse(`there is no data \`${id}\``);
}

function whole(request: DataRequest): DataRequest {
  const { format = null, columns, encoding = null, rows = null, skipBadRows } = request;
  return { format, columns, encoding, rows, skipBadRows };
}

function histogram(longest: number, rows: number): Bin[] {
  const width = Math.ceil(longest / 20);
  const shares = Array.from({ length: 20 }, (_, at) => Math.exp(-(((at - 5.5) / 3.4) ** 2)) * (0.9 + 0.2 * chance(5, at)) + 0.004);
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share, at) => ({ from: at * width, to: (at + 1) * width, rows: Math.round((share / sum) * rows) }));
}

function tokenizer(model: string | null): string {
  return model ? "the model's tokenizer of 49152 tokens" : "a new tokenizer of 1024 tokens, trained on this data";
}

type Fault = NonNullable<InspectionView["problem"]>;
type Content = NonNullable<InspectionView["content"]>;

const inspected = (more: Partial<InspectionView>): InspectionView => ({ files: [], columns: [], problems: [], problemCount: 0, problem: null, content: null, ...more });
const refused = (message: string, hint: string, field: string | null, columns: string[] = []) =>
  inspected({ columns, problem: { code: field ? "invalid_request" : "failed", message, hint, field } satisfies Fault });

/** Rows of conversations: how many, their tokens and those that are learned, the longest, and what stands at how many percent. */
function conversations(rows: number, tokens: number, learnedTokens: number, longest: number, percentiles: [number, number][], example: [string, string], more: Partial<Content>): Content {
  const [given, learned] = example;
  return {
    isStream: false,
    tokenizer: "",
    template: "the model's own, ChatML",
    rows,
    tokens,
    learnedTokens,
    shortest: 31,
    longest,
    mean: tokens / rows,
    percentiles,
    histogram: histogram(longest, rows),
    exampleLine: 1,
    example: [{ text: `<|im_start|>user\n${given}<|im_end|>\n<|im_start|>assistant\n`, learned: false }, { text: `${learned}<|im_end|>`, learned: true }],
    ...more,
  };
}

function support(path: string, model: string | null): InspectionView {
  const example: [string, string] = ["Where is my order?", "I'm sorry you're still waiting. Could you send me the order number?"];
  return inspected({
    files: [{ path, reason: "conversations in the layout `messages`, because the rows have that column", rows: 5986, problems: 3 }],
    columns: ["messages", "ticket"],
    problems: [
      { path, line: 2113, text: "`messages` is empty" },
      { path, line: 4120, text: "`messages[1].role` is `agent`, which is none of `system`, `user` and `assistant`" },
      { path, line: 5989, text: "is not JSON: expected `,` or `}`, at column 1877" },
    ],
    problemCount: 3,
    content: conversations(5986, 1_184_220, 502_118, 1412, [[5, 74], [25, 128], [50, 181], [75, 246], [95, 402], [99, 871]], example, { tokenizer: tokenizer(model) }),
  });
}

function sums(path: string, request: DataRequest, model: string | null): InspectionView {
  const columns = ["question", "answer"];
  const { prompt, completion } = request.columns;
  if (!prompt || !completion) {
    const layouts = "`messages`, `conversations`, `prompt` and `completion`, `instruction` and `output`, or `text`";
    const hint = "say which column is what, for example `columns: {prompt: question, completion: answer}`";
    return refused(`the columns are \`question\` and \`answer\`, which is none of the layouts known: ${layouts}`, hint, "data.columns", columns);
  }
  const reason = `conversations in the layout \`prompt_completion\`, mapped as asked: completion from \`${completion}\`, prompt from \`${prompt}\``;
  const example: [string, string] = [
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did Natalia sell altogether in April and May?",
    "Natalia sold 48/2 = 24 clips in May.\nAltogether she sold 48+24 = 72 clips.\n#### 72",
  ];
  return inspected({
    files: [{ path, reason, rows: 7473, problems: 0 }],
    columns,
    content: conversations(7473, 1_402_377, 861_904, 611, [[5, 96], [25, 138], [50, 178], [75, 226], [95, 318], [99, 402]], example, {
      tokenizer: tokenizer(model),
      template: "ChatML, because there is no chat template",
    }),
  });
}

function trec(path: string, request: DataRequest, model: string | null): InspectionView {
  if (request.encoding === "latin-1" || request.encoding === "iso-8859-1") return text(path, request, model);
  return refused(
    `not UTF-8 at byte 4231 (0xE9, line 87); if the text has another encoding, name it, for example \`encoding: latin-1\`: \`${path}\``,
    "the byte is `é` in latin-1",
    "data.encoding",
  );
}

function text(path: string, request: DataRequest, model: string | null): InspectionView {
  const isStream = request.rows !== "lines" && request.rows !== "paragraphs";
  const rows = isStream ? 1 : 500;
  const reason = "plain text, one stream learned in windows, because nothing marks its rows; set `rows: lines` or `rows: paragraphs` to have rows";
  const lines = ["NUM:dist How far is it from Denver to Aspen ?", "LOC:city What county is Modesto , California in ?", "HUM:desc Who was Galileo ?", "DESC:def What is an atom ?"];
  return inspected({
    files: [{ path, reason, rows, problems: 0 }],
    content: conversations(rows, 7014, 7014, isStream ? 7014 : 34, isStream ? [] : [[5, 8], [25, 11], [50, 13], [75, 17], [95, 24], [99, 30]], ["", ""], {
      isStream,
      tokenizer: tokenizer(model),
      template: null,
      shortest: isStream ? 7014 : 6,
      histogram: isStream ? [] : histogram(34, 500),
      example: [{ text: isStream ? lines.join("\n") : lines[0]!, learned: true }],
    }),
  });
}

export const dataAnswers = {
  dataSets: () => {
    return sets;
  },

  addData: (path) => {
    const name = (path.split("/").at(-1) ?? path).replace(/\.\w+$/, "");
    const added = set(`${name}-${sets.length}f00`, name, path, 0);
    sets = [added, ...sets];
    return added;
  },

  addDataText: (words) => {
    const name = words.trim().split(/\s+/).slice(0, 4).join(" ");
    const file = `pasted-2026-11-21-1842${10 + sets.length}-0f0a`;
    const added = set(file, name, `${HOME}/data/${file}.txt`, 0);
    sets = [added, ...sets];
    return added;
  },

  changeData: (id, request) => {
    const changed = { ...found(id), request: whole(request) };
    sets = sets.map((each) => (each.id === id ? changed : each));
    return changed;
  },

  removeData: (id) => {
    const gone = found(id);
    sets = sets.filter((each) => each !== gone);
  },

  inspectData: async (id, request, model) => {
    const { path, exists } = found(id);
    await wait(60);
    if (!exists) return refused(`could not read the data: No such file or directory (os error 2): \`${path}\``, "connect the disk it lies on, or remove the data from the list", null);
    if (id.startsWith("gsm8k")) return sums(path, request, model);
    if (id.startsWith("trec")) return trec(path, request, model);
    return path.endsWith(".jsonl") ? support(path, model) : text(path, request, model);
  },
} satisfies Some;
