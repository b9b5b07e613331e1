// What the address asks for, and what everything made up is made with.

import type { commands, ErrorView_Serialize as ErrorView } from "../bindings";

type Commands = typeof commands;
type Given<Name extends keyof Commands> = Parameters<Commands[Name]>;
type Returned<Name extends keyof Commands> = Extract<Awaited<ReturnType<Commands[Name]>>, { status: "ok" }>["data"];

/** An answer to every command, with the types of the real ones. */
export type Answers = { [Name in keyof Commands]: (...given: Given<Name>) => Returned<Name> | Promise<Returned<Name>> };
export type Some<Name extends keyof Commands> = Pick<Answers, Name>;

const address = new URLSearchParams(location.search);

export const scene = (address.get("scene") ?? "full") as "full" | "empty" | "broken" | "offered" | "offline";

/** How many steps the run that goes on has done. */
export const points = Number(address.get("points") ?? 1284);

/** How many steps it does in a second. */
export const rate = Number(address.get("rate") ?? 3);

/** Whether there is anything: the first start and a broken app have nothing. */
export const filled = scene === "full" || scene === "offered" || scene === "offline";

/** What a command says that can't do what it was asked. */
export function refuse(message: string, hint: string | null = null, field: string | null = null): never {
  const code: ErrorView["code"] = field ? "invalid_request" : "failed";
  throw { code, message, hint, field } satisfies ErrorView;
}

/** Where everything is broken, refuses. */
export function mayRefuse(message: string, hint: string | null = null, field: string | null = null) {
  if (scene === "broken") refuse(message, hint, field);
}

/** Why the Hub is not asked, where it is not. */
export const offline = scene === "offline" ? "The Hub is not asked: `HF_HUB_OFFLINE` is set." : null;

/** Where the Hub can't be asked, refuses. */
export function mayBeOffline() {
  if (offline === null) return;
  throw { code: "offline", message: offline, hint: "unset it and start Anneal again", field: null } satisfies ErrorView;
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
export function ago(minutes: number): string {
  return new Date(Date.now() - minutes * 60_000).toISOString();
}

export function wait(millis: number): Promise<void> {
  return new Promise((done) => setTimeout(done, millis));
}

export const HOME = "/Users/mira/Library/Application Support/app.anneal.desktop";
export const CACHE = "/Users/mira/.cache/huggingface/hub";
