// Downloads that move, the cache they go to, and the account they are fetched with.

import type {
  CachedView,
  DownloadFileView,
  DownloadView,
  HubFileView,
  RepositoryKind,
  UserView,
  WantedView,
} from "../../../ui/src/api/bindings";
import { tell } from "./app";
import { dataAnswers } from "./data";
import { hubAnswers } from "./hub";
import { ago, CACHE, chance, filled, mayBeOffline, offline, refuse, type Some } from "./scene";

/** How often something comes, in milliseconds. */
const TICK = 250;
const BYTES_PER_SECOND = 11.8e6;

const folderOf = (kind: RepositoryKind, id: string) => `${CACHE}/${kind === "model" ? "models" : "datasets"}--${id.replace("/", "--")}`;
const snapshot = (kind: RepositoryKind, id: string, commit: string) => `${folderOf(kind, id)}/snapshots/${commit}`;

/** A file with its size, and how much of it is here. */
const file = (path: string, totalBytes: number, doneBytes = 0): DownloadFileView => ({ path, doneBytes, totalBytes });

function make(kind: RepositoryKind, id: string, part: string | null, state: DownloadView["state"], files: DownloadFileView[], more: Partial<DownloadView> = {}): DownloadView {
  const still = { doneBytes: 0, totalBytes: 0, bytesPerSecond: null, secondsLeft: null, problem: null, path: null };
  return summed({ ...still, key: `${kind} ${id} ${part ?? ""}`, kind, id, part, state, files, usable: kind === "model" && part === null, ...more });
}

function summed(download: DownloadView): DownloadView {
  download.doneBytes = download.files.reduce((sum, { doneBytes }) => sum + doneBytes, 0);
  download.totalBytes = download.files.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
  return download;
}

const COMMITS = {
  smol135: "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
  smol360: "a10cc1512eabd3dde888204e902eca88bddb4951",
  smol360old: "f7b1d2c08a2f4f1d9a4be3c1d3b7f0a5c2e98d11",
  qwen: "da87bfb608c14b7cf20ba1ce41287e8de496c0cd",
  pythia: "50f5173d932e8e61f858120bcb800b97af589f46",
  gsm8k: "e53f048856ff4f594e959d75785d2c2d37b678ee",
  long: "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c",
};

const SMALL: [string, number][] = [["config.json", 846], ["tokenizer.json", 2_104_556], ["tokenizer_config.json", 3_764]];
const LONG = "a-remarkably-long-organisation-name/a-remarkably-long";
const small = SMALL.map(([path, bytes]) => file(path, bytes, bytes));
const weights = (at: number, bytes: number, done = 0) => file(`model-0000${at}-of-00003.safetensors`, bytes, done);

const first = (): DownloadView[] => [
  make(
    "model",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct",
    null,
    offline === null ? "going" : "retrying",
    [...small, weights(1, 1_236_270_080, 1_236_270_080), weights(2, 1_210_614_784, 304_218_112), weights(3, 975_912_960)],
    { problem: offline === null ? null : { code: "offline", message: offline, hint: null, field: null } },
  ),
  make("data", "openai/gsm8k", "train of socratic", "waiting", [file("socratic/train-00000-of-00001.parquet", 2_679_024)]),
  make("data", "roneneldan/TinyStories", "train", "paused", [0, 1, 2, 3].map((at) => file(`data/train-0000${at}-of-00004.parquet`, 248_731_111, at === 0 ? 186_220_544 : 0))),
  make("model", `${LONG}-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged`, null, "failed", [...small, file("model.safetensors", 4_404_019_200, 2_306_867_200)], {
    problem: {
      code: "failed",
      message: "could not write `model.safetensors`: the download needs 2.1 GB more and 0.3 GB are free",
      hint: "free some space, then try again; what was fetched is kept",
      field: null,
    },
  }),
  make("model", "HuggingFaceTB/SmolLM2-135M", null, "done", [...small, file("model.safetensors", 269_060_552, 269_060_552)], {
    path: snapshot("model", "HuggingFaceTB/SmolLM2-135M", COMMITS.smol135),
  }),
];

/** A revision of a repository: its commit, files, bytes, how many days ago it was fetched, and what its branches are called. */
type Row = [commit: string, files: number, bytes: number, days: number, names?: string[]];

function lying(kind: RepositoryKind, id: string, ...revisions: Row[]): CachedView {
  const views = revisions.map(([commit, files, bytes, days, names = ["main"]]) => ({ commit, names, path: snapshot(kind, id, commit), files, bytes, freedBytes: bytes, fetched: ago(days * 1440) }));
  return counted({ kind, id, bytes: 0, revisions: views });
}

/** What two revisions share: the weights, which seldom change. */
const SHARED = 723_674_912;

function counted(repository: CachedView): CachedView {
  const isShared = repository.revisions.length > 1;
  for (const each of repository.revisions) each.freedBytes = isShared ? each.bytes - SHARED : each.bytes;
  repository.bytes = repository.revisions.reduce((sum, { freedBytes }) => sum + freedBytes, isShared ? SHARED : 0);
  return repository;
}

let downloads: DownloadView[] = filled ? first() : [];
let cached: CachedView[] = filled
  ? [
      lying("model", `${LONG}-data-set-turned-model-name-2026-11-checkpoint-000500-merged-and-quantised`, [COMMITS.long, 9, 1_999_811_208, 31, []]),
      lying("model", "EleutherAI/pythia-160m", [COMMITS.pythia, 5, 374_998_696, 140, ["main", "step143000"]]),
      lying("model", "HuggingFaceTB/SmolLM2-135M", [COMMITS.smol135, 6, 271_169_718, 0.02]),
      lying("model", "HuggingFaceTB/SmolLM2-360M-Instruct", [COMMITS.smol360, 6, 725_749_902, 12], [COMMITS.smol360old, 6, 725_749_310, 420, []]),
      lying("data", "openai/gsm8k", [COMMITS.gsm8k, 2, 2_725_633, 1]),
      lying("model", "Qwen/Qwen3-0.6B-Base", [COMMITS.qwen, 7, 1_203_502_080, 40]),
    ]
  : [];

/** Whose token is kept. */
const MIRA: UserView = { name: "mira", fullName: "Mira Ahlberg", tokenPlace: "the keychain of the system" };
let user = filled ? MIRA : null;

/** Where the token is kept, for who asks nobody. */
export const tokenPlace = () => user?.tokenPlace ?? null;

/** The folder that something lies in once it is fetched. */
export const fetchedTo = (kind: RepositoryKind, id: string) => cached.find((each) => each.kind === kind && each.id === id)?.revisions[0]?.path ?? null;

const found = (key: string) => downloads.find((download) => download.key === key) ?? refuse(`there is no download \`${key}\``, "it may have been cancelled");

function changed() {
  tell({ kind: "downloads", downloads: structuredClone(downloads) });
}

/** Has the next one go, when none does. */
function next() {
  if (offline === null && !downloads.some(({ state }) => state === "going")) {
    const waiting = downloads.find(({ state }) => state === "waiting");
    if (waiting) waiting.state = "going";
  }
  changed();
}

function hold(download: DownloadView, state: "paused" | "waiting") {
  Object.assign(download, { state, bytesPerSecond: null, secondsLeft: null, problem: null });
  next();
}

let ticks = 0;

function advance() {
  const download = downloads.find(({ state }) => state === "going");
  if (!download) return;
  ticks += 1;
  const rate = BYTES_PER_SECOND * (0.92 + 0.16 * chance(17, Math.floor(ticks / 8)));
  let coming = (rate * TICK) / 1000;
  for (const each of download.files) {
    const more = Math.min(coming, each.totalBytes - each.doneBytes);
    each.doneBytes += more;
    coming -= more;
  }
  summed(download);
  Object.assign(download, { bytesPerSecond: rate, secondsLeft: (download.totalBytes - download.doneBytes) / rate });
  if (download.doneBytes === download.totalBytes) finish(download);
  next();
}

/** What was fetched lies in the cache, and data is in the list of data too. */
function finish(download: DownloadView) {
  const { kind, id, files, totalBytes } = download;
  const commit = COMMITS.smol135.split("").reverse().join("");
  const path = snapshot(kind, id, commit);
  Object.assign(download, { state: "done", bytesPerSecond: null, secondsLeft: null, path });
  const other = cached.find((each) => each.kind === kind && each.id === id);
  if (!other) cached = [...cached, lying(kind, id, [commit, files.length, totalBytes, 0])];
  if (kind === "data") void dataAnswers.addData(path);
}

setInterval(advance, TICK);

async function filesOf({ kind, id, files, config, split }: WantedView): Promise<DownloadFileView[]> {
  const repository = await hubAnswers.hubRepository(kind, id);
  const part = repository.splits.find((each) => each.config === config && each.name === split);
  if (part) return Array.from({ length: part.files }, (_, at) => file(`${config}/${split}-${at}.parquet`, part.bytes / part.files));
  const isWanted = ({ path, needed }: HubFileView) => (files.length > 0 ? files.includes(path) : needed);
  return repository.files.filter(isWanted).map(({ path, bytes }) => file(path, bytes));
}

export const downloadAnswers = {
  downloads: () => structuredClone(downloads),

  startDownload: async (wanted) => {
    const { kind, id, files, config, split } = wanted;
    mayBeOffline();
    const part = files.length > 0 ? files.join(", ") : split === "" ? null : config === "" || config === "default" ? split : `${split} of ${config}`;
    const made = make(kind, id, part, "waiting", await filesOf(wanted));
    downloads = [...downloads.filter(({ key }) => key !== made.key), made];
    next();
    return made.key;
  },

  pauseDownload: (key) => hold(found(key), "paused"),

  resumeDownload: (key) => {
    mayBeOffline();
    hold(found(key), "waiting");
  },

  cancelDownload: (key) => {
    const gone = found(key);
    downloads = downloads.filter((download) => download !== gone);
    next();
  },

  cached: () => structuredClone(cached),

  deleteCached: (kind, id, commit) => {
    const repository = cached.find((each) => each.kind === kind && each.id === id);
    const gone = repository?.revisions.find((each) => each.commit === commit);
    if (!repository || !gone) return refuse(`there is no revision \`${commit}\` of \`${id}\` in the shared cache`);
    const { freedBytes } = gone;
    repository.revisions = repository.revisions.filter((each) => each !== gone);
    counted(repository);
    cached = cached.filter(({ revisions }) => revisions.length > 0);
    return freedBytes;
  },

  hubUser: () => {
    if (user !== null) mayBeOffline();
    return user;
  },

  hubLogin: (token) => {
    mayBeOffline();
    if (!token.startsWith("hf_")) refuse("the Hub does not know this token: 401 Unauthorized", "copy it again, all of it; it begins with `hf_`");
    return (user = MIRA);
  },

  hubLogout: () => void (user = null),
} satisfies Some;
