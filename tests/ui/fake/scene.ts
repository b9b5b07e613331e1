// What the address asks for, and what everything made up is made with.

import type { commands, AppError } from "../../../ui/src/api/bindings";

type Commands = typeof commands;
type Returned<Name extends keyof Commands> = Extract<Awaited<ReturnType<Commands[Name]>>, { status: "ok" }>["data"];
/** Commands that only do something answer with nothing. */
type Told<Answer> = null extends Answer ? Answer | void : Answer;

/** An answer to every command, with the types of the real ones. */
export type Answers = { [Name in keyof Commands]: (...given: Parameters<Commands[Name]>) => Told<Returned<Name>> | Promise<Told<Returned<Name>>> };
export type Some = Partial<Answers>;

const address = new URLSearchParams(location.search);

export const scene = (address.get("scene") ?? "full") as "full" | "empty" | "broken" | "offered" | "offline";

/** How many steps the run that is running has done. */
export const points = Number(address.get("points") ?? 1284);

/** How many steps it does in a second. */
export const rate = Number(address.get("rate") ?? 3);

/** Whether there is anything: the first start and a broken app have nothing. */
export const filled = scene === "full" || scene === "offered" || scene === "offline";

/** What a command says that can't do what it was asked. */
export function refuse(message: string, hint: string | null = null, field: string | null = null, code: AppError["code"] = field ? "invalid_request" : "failed"): never {
  throw { code, message, hint, field } satisfies AppError;
}

/** What commands do where everything is broken: what they can't read, what they can't write, and what else they say. */
const UNREAD: Partial<Record<keyof Commands, string>> = {
  home: "the settings",
  hub: "the settings",
  runs: "the folder of runs",
  models: "the folder of models",
  conversations: "the folder of conversations",
  dataSets: "the list of data",
  addData: "the data",
  inspectData: "the data",
  downloads: "the list of downloads",
  cached: "the shared cache",
  benchmarks: "the benchmarks",
  readRunFile: "the run file",
  importModel: "the folder of the model",
};
const UNWRITTEN: Partial<Record<keyof Commands, string>> = {
  setSetting: "the settings",
  forgetModel: "the settings",
  addDataText: "the text",
  changeData: "the list of data",
  removeData: "the list of data",
  pauseDownload: "the list of downloads",
  resumeDownload: "the list of downloads",
  cancelDownload: "the list of downloads",
  startDownload: "the download",
  saveConversation: "the conversation",
  exportConversation: "the conversation",
  writeRunFile: "the run file",
};
const BROKEN: Partial<Record<keyof Commands, [message: string, hint: string]>> = {
  hubSearch: ["the Hub answered 503 Service Unavailable to a search for models", "try again in a moment"],
  hubRepository: ["the Hub answered 503 Service Unavailable", "try again in a moment"],
  hubFirstRows: ["could not fetch the first rows: the connection was closed after 120 kB of 512 kB", "try again"],
  hubUser: ["the Hub does not know the token in the keychain of the system: 401 Unauthorized", "log in with another one"],
  hubLogin: ["could not keep the token: the keychain is locked", "unlock it, then try again"],
  hubLogout: ["could not forget the token: the keychain is locked", "unlock it, then try again"],
  checkDevice: ["the engine was ended by signal 11", "look into the log"],
  runBenchmark: ["nothing was measured: Apple M3 Max was not measured: 20 steps of training don't lower the loss", "look into the log"],
  startStarter: ["could not start the run: the plan needs 1.2 GB and 0.4 GB are free", "close other programs, then try again"],
  openChat: ["`model.layers.3.self_attn.q_proj.weight` is [512, 512] in the file and [768, 512] in the config: `model.safetensors`", "the download may be incomplete; get the model again"],
};

/** Where everything is broken, refuses. */
export function mayRefuse(command: keyof Commands) {
  if (scene !== "broken") return;
  if (UNREAD[command]) refuse(`could not read ${UNREAD[command]}: Permission denied (os error 13): \`${HOME}\``, "give Anneal access to it in the system's settings");
  if (UNWRITTEN[command]) refuse(`could not write ${UNWRITTEN[command]}: No space left on device (os error 28)`, "free some space, then try again");
  if (BROKEN[command]) refuse(...BROKEN[command]);
}

/** Why the Hub is not asked, where it is not. */
export const offline = scene === "offline" ? "The Hub is not asked: `HF_HUB_OFFLINE` is set." : null;

/** Where the Hub can't be asked, refuses. */
export function mayBeOffline() {
  if (offline !== null) refuse(offline, "unset it and start Anneal again", null, "offline");
}

/** A number from 0 to 1 that depends on nothing but these two. */
export function chance(seed: number, at: number): number {
  let mixed = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(at + 1, 0xc2b2ae35);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  mixed = Math.imul(mixed ^ (mixed >>> 12), 0x297a2d39);
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
}

/** Noise around 0 that is rarely further from it than 2. */
export function noise(seed: number, at: number): number {
  return (chance(seed, at) + chance(seed + 1, at) + chance(seed + 2, at) - 1.5) * 2;
}

/** A moment so many minutes ago. */
export const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
export const wait = (millis: number) => new Promise<void>((done) => setTimeout(done, millis));

export const HOME = "/Users/mira/Library/Application Support/app.anneal.desktop";
export const CACHE = "/Users/mira/.cache/huggingface/hub";
