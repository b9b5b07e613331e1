// Data: four sets, one of each trouble, and what the app says of each.

import type { Channel } from "@tauri-apps/api/core";
import type { CountProgressView, CountView, DataRowsView, DataSetView, Dropped, InspectionView } from "../../../ui/src/api";
import listed from "./answers/data-sets.json";
import inspections from "./answers/inspections.json";
import { asks, HOME, lastOf, now, recorded, refuse, type Some, Things, wait } from "./scene";

const sets = new Things<DataSetView>("data", ({ id }) => id, listed);

export function addSet(path: string, name = lastOf(path).replace(/\.\w+$/, "")): DataSetView {
  const request = { format: null, columns: {}, encoding: null, rows: null, skipBadRows: false };
  return sets.add({ id: `${name}-${sets.all.length}f00`, name, path, request, added: now(), exists: true });
}

/** What was recorded of data that is read so: the first that fits, and for data that was added the last. */
function said(id: string, request: object) {
  const { path } = sets.find(id);
  return (inspections.find(({ file, asked }) => file === lastOf(path) && asks(request, asked)) ?? inspections.at(-1))!.answer;
}

/** Counts that were left since. */
let counts = 0;
const hasWords = (row: DataRowsView["rows"][number], words: string) => {
  const text = [row.problem ?? "", ...row.parts.map(({ text }) => text)].join("\n").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
};

export const dataAnswers = {
  dataSets: () => sets.all,
  addData: (path) => addSet(path),
  addDataText: (words) => addSet(`${HOME}/data/pasted-2026-11-21-1842${10 + sets.all.length}-0f0a.txt`, words.trim().slice(0, 24)),
  addSampleData: () => addSet(`${HOME}/data/starter-42/train.jsonl`, "Sample conversations"),

  lookAtPath: (path): Dropped => {
    if (/\.ya?ml$/.test(path)) return { kind: "run_file" };
    if (/\.gguf$/.test(path)) {
      const problem = { code: "invalid_request" as const, message: `“${lastOf(path)}” is a GGUF file, which can’t be opened yet`, hint: "use the model’s folder with its safetensors, or download it from the Hub", field: null };
      return { kind: "nothing", problem };
    }
    return /\.\w+$/.test(path) ? { kind: "data" } : { kind: "model", path };
  },

  changeData: (id, request) => {
    const changed = { ...sets.find(id), request: request as DataSetView["request"] };
    sets.all = sets.all.map((each) => (each.id === id ? changed : each));
    return changed;
  },

  removeData: (id) => void sets.remove(id),

  inspectData: async (id, request) => {
    await wait(60);
    return recorded<InspectionView>(said(id, request).inspection);
  },

  countData: async (id, request, _model, progress) => {
    const mine = ++counts;
    const { count } = said(id, request);
    if (!count) refuse("there is no row");
    const rows = count!.rows;
    for (const share of [0, 0.3, 1]) {
      (progress as unknown as Channel<CountProgressView>).onmessage({ done: Math.round(share * rows), rows });
      await wait(30);
      if (mine !== counts) return null;
    }
    return recorded<CountView>(count!);
  },

  dataRows: (id, request, words, from, count) => {
    const all = recorded<DataRowsView>(said(id, request).rows!);
    const found = all.rows.filter((row) => hasWords(row, words.trim()));
    return { ...all, matching: found.length, rows: found.slice(from, from + count) };
  },

  closeData: () => void (counts += 1),
} satisfies Some;
