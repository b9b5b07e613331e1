// The Hub: what can be searched, and a few repositories, each with something that others lack.

import type { FirstRowsView, FoundView, RepositoryKind, RepositoryView } from "../../../ui/src/api";
import firstRows from "./answers/first-rows.json";
import found from "./answers/found.json";
import repositories from "./answers/repositories.json";
import { user } from "./downloads";
import { CACHE, filled, mayBeOffline, offline, recorded, refuse, type Some, wait } from "./scene";

const lists = recorded<Record<RepositoryKind, FoundView[]>>(found);
const pages = recorded<RepositoryView[]>(repositories);
/** One with more files than anybody looks through. */
const MANY = "HuggingFaceFW/fineweb-edu";

/** What is not here, where nothing is. */
const shown = <Thing extends { here: boolean }>(things: Thing[]) => (filled ? things : things.map((thing) => ({ ...thing, here: false })));

async function ask() {
  await wait(40);
  mayBeOffline();
}

export const hubAnswers = {
  hub: () => ({ endpoint: "https://huggingface.co", offline, tokenPlace: user?.tokenPlace ?? null, cache: CACHE, freeBytes: 212_408_115_200 }),

  hubSearch: async ({ kind, words, limit }) => {
    await ask();
    const fitting = lists[kind].filter(({ id }) => id.toLowerCase().includes(words.toLowerCase()));
    return { found: shown(fitting).slice(0, limit), more: fitting.length > limit };
  },

  hubRepository: async (kind, id) => {
    await ask();
    const page = pages.find((each) => each.kind === kind && each.id === id);
    if (!page) return refuse(`there is no \`${id}\` on the Hub, or it is private`, "check its name, or log in under Settings");
    const files = id === MANY ? Array.from({ length: 2410 }, (_, at) => ({ ...page.files[0]!, path: `data/part-${String(at).padStart(5, "0")}.parquet` })) : page.files;
    return { ...page, files: shown(files), splits: shown(page.splits), path: filled ? page.path : null, hereBytes: filled ? page.hereBytes : 0 };
  },

  hubFirstRows: async (id, _, __, split) => {
    await ask();
    const rows = recorded<(FirstRowsView & { id: string })[]>(firstRows).find((each) => each.id === id);
    return rows ?? refuse(`the columns of \`${split}\` are pictures and numbers: there is no text to show`);
  },
} satisfies Some;
