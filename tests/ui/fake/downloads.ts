// Downloads that move, the cache they go to, and the account they are fetched with.

import type { CachedView, DownloadView, UserView } from "../../../ui/src/api";
import cached from "./answers/cached.json";
import listed from "./answers/downloads.json";
import { tell } from "./app";
import { dataAnswers } from "./data";
import { hubAnswers } from "./hub";
import { CACHE, filled, mayBeOffline, offline, recorded, type Some, Things } from "./scene";

/** How often something comes, in milliseconds. */
const TICK = 250;
const BYTES_PER_SECOND = 11.8e6;

const downloads = new Things<DownloadView>("download", ({ key }) => key, listed);
const going = downloads.all.find(({ state }) => state === "going");
if (going && offline !== null) Object.assign(going, { state: "retrying", problem: { code: "offline", message: offline, hint: null, field: null } });

/** Whose token is kept. */
export const user: UserView | null = filled ? { name: "mira", fullName: "Mira Ahlberg", tokenPlace: "the keychain of the system" } : null;

/** Has the next one go, when none does, and tells the window. */
function next() {
  if (offline === null && !downloads.all.some(({ state }) => state === "going")) {
    const waiting = downloads.all.find(({ state }) => state === "waiting");
    if (waiting) waiting.state = "going";
  }
  tell({ kind: "downloads", downloads: structuredClone(downloads.all) });
}

function hold(key: string, state: "paused" | "waiting") {
  Object.assign(downloads.find(key), { state, bytesPerSecond: null, secondsLeft: null, problem: null });
  next();
}

function advance() {
  const download = downloads.all.find(({ state }) => state === "going");
  if (!download) return;
  let coming = (BYTES_PER_SECOND * TICK) / 1000;
  for (const file of download.files) {
    const more = Math.min(coming, file.totalBytes - file.doneBytes);
    file.doneBytes += more;
    download.doneBytes += more;
    coming -= more;
  }
  const left = download.totalBytes - download.doneBytes;
  Object.assign(download, { bytesPerSecond: BYTES_PER_SECOND, secondsLeft: left / BYTES_PER_SECOND });
  if (left === 0) finish(download);
  next();
}

/** What was fetched lies in the cache, and data is in the list of data too. */
function finish(download: DownloadView) {
  const path = `${CACHE}/${download.id.replace("/", "--")}/snapshots/12fd25f`;
  Object.assign(download, { state: "done", bytesPerSecond: null, secondsLeft: null, path });
  if (download.kind === "data") dataAnswers.addData(path);
}

setInterval(advance, TICK);

export const downloadAnswers = {
  downloads: () => structuredClone(downloads.all),

  startDownload: async ({ kind, id, files, config, split }) => {
    const repository = await hubAnswers.hubRepository(kind, id);
    const isWanted = ({ path, needed }: { path: string; needed: boolean }) => (files.length > 0 ? files.includes(path) : needed);
    const wanted = repository.files.filter(isWanted).map(({ path, bytes }) => ({ path, doneBytes: 0, totalBytes: bytes }));
    const part = files.join(", ") || (split && `${split} of ${config}`) || null;
    const totalBytes = wanted.reduce((sum, file) => sum + file.totalBytes, 0);
    const still = { doneBytes: 0, bytesPerSecond: null, secondsLeft: null, problem: null, path: null };
    const { key } = downloads.add({ ...still, key: `${kind} ${id} ${part ?? ""}`, kind, id, part, state: "waiting", files: wanted, totalBytes, usable: kind === "model" && part === null });
    next();
    return key;
  },

  pauseDownload: (key) => hold(key, "paused"),

  resumeDownload: (key) => {
    mayBeOffline();
    hold(key, "waiting");
  },

  cancelDownload: (key) => {
    downloads.remove(key);
    next();
  },

  cached: () => (filled ? recorded<CachedView[]>(cached) : []),

  hubUser: () => {
    if (user !== null) mayBeOffline();
    return user;
  },
} satisfies Some;
