// Data: four sets, one of each trouble, and what the app says of each.

import type { DataSetView, InspectionView } from "../../../ui/src/api";
import listed from "./answers/data-sets.json";
import inspections from "./answers/inspections.json";
import { asks, HOME, lastOf, now, recorded, type Some, Things, wait } from "./scene";

const sets = new Things<DataSetView>("data", ({ id }) => id, listed);

function add(path: string, name = lastOf(path).replace(/\.\w+$/, "")): DataSetView {
  const request = { format: null, columns: {}, encoding: null, rows: null, skipBadRows: false };
  return sets.add({ id: `${name}-${sets.all.length}f00`, name, path, request, added: now(), exists: true });
}

export const dataAnswers = {
  dataSets: () => sets.all,
  addData: (path) => add(path),
  addDataText: (words) => add(`${HOME}/data/pasted-2026-11-21-1842${10 + sets.all.length}-0f0a.txt`, words.trim().slice(0, 24)),

  changeData: (id, request) => {
    const changed = { ...sets.find(id), request: request as DataSetView["request"] };
    sets.all = sets.all.map((each) => (each.id === id ? changed : each));
    return changed;
  },

  removeData: (id) => void sets.remove(id),

  inspectData: async (id, request) => {
    const { path } = sets.find(id);
    await wait(60);
    // The first that fits, and for data that was added the last.
    const found = inspections.find(({ file, asked }) => file === lastOf(path) && asks(request, asked)) ?? inspections.at(-1);
    return recorded<InspectionView>(found!.answer);
  },
} satisfies Some;
