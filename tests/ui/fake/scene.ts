// What the address asks for, and what every answer is made with.

import type { Refused } from "../../../ui/src/api";
import type { commands } from "../../../ui/src/api/bindings";
import refusals from "./answers/refusals.json";

type Commands = typeof commands;
type Returned<Name extends keyof Commands> = Extract<Awaited<ReturnType<Commands[Name]>>, { status: "ok" }>["data"];
/** Commands that only do something answer with nothing. */
type Told<Answer> = null extends Answer ? Answer | void : Answer;

/** An answer to every command, with the types of the real ones. */
export type Answers = { [Name in keyof Commands]: (...given: Parameters<Commands[Name]>) => Told<Returned<Name>> | Promise<Told<Returned<Name>>> };
export type Some = Partial<Answers>;

const address = new URLSearchParams(location.search);

export const scene = (address.get("scene") ?? "full") as "full" | "empty" | "broken" | "offered" | "offline";

/** How many steps the run that is running has done, and how many it does in a second. */
export const points = Number(address.get("points") ?? 1284);
export const rate = Number(address.get("rate") ?? 3);

/** What a benchmark does that is asked for. */
export const bench = address.get("bench");

/** Where an export stays that is asked for: while it is written (`written`), or while it is compared (`compared`). */
export const exporting = address.get("export");

/** Whether there is anything: the first start and a broken app have nothing. */
export const filled = scene !== "empty" && scene !== "broken";

/** What a command says that can't do what it was asked. */
export function refuse(message: string, hint: string | null = null, field: string | null = null, code: Refused["code"] = field ? "invalid_request" : "failed"): never {
  throw { code, message, hint, field };
}

/** Where everything is broken, refuses. */
export function mayRefuse(command: string) {
  const [message, hint] = (refusals as Record<string, string[]>)[command] ?? [];
  if (scene === "broken" && message) refuse(message, hint);
}

/** Why the Hub is not asked, where it is not. */
export const offline = scene === "offline" ? "Switched off by the variable HF_HUB_OFFLINE" : null;

/** Where the Hub can't be asked, refuses. */
export function mayBeOffline() {
  if (offline !== null) refuse("the Hub is not asked, because the variable HF_HUB_OFFLINE says so", "models and data on this machine still work", null, "offline");
}

/** A value as a file of JSON has it, where a word can be any, and objects of a list have the names of all. */
type Plain<Value> = Value extends string
  ? string
  : Value extends readonly (infer Each)[]
    ? Plain<Each>[]
    : Value extends object
      ? { [Name in keyof Value]: Plain<Value[Name]> | (string extends Name ? undefined : never) }
      : Value;

const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
/** How long ago it was that the answers were recorded. */
const SINCE = Date.now() - Date.parse("2026-11-21T18:42:00.000Z");

/** A recorded answer, as if it had been recorded now. */
export function recorded<Value>(answer: Plain<Value>): Value {
  const later = (_: string, value: unknown) => (typeof value === "string" && TIME.test(value) ? new Date(Date.parse(value) + SINCE).toISOString() : value);
  return JSON.parse(JSON.stringify(answer), later) as Value;
}

/** Things that have a name, the newest first. Without any, where nothing is filled. */
export class Things<Thing> {
  all: Thing[];

  constructor(
    readonly kind: string,
    readonly nameOf: (thing: Thing) => string,
    all: Plain<Thing[]>,
  ) {
    this.all = filled ? recorded<Thing[]>(all) : [];
  }

  find(name: string): Thing {
    return this.all.find((thing) => this.nameOf(thing) === name) ?? refuse(`there is no ${this.kind} \`${name}\``);
  }

  /** Adds something, in place of what has its name. */
  add(thing: Thing): Thing {
    this.all = [thing, ...this.all.filter((other) => this.nameOf(other) !== this.nameOf(thing))];
    return thing;
  }

  remove(name: string): Thing {
    const gone = this.find(name);
    this.all = this.all.filter((thing) => thing !== gone);
    return gone;
  }
}

/** Whether everything that is wanted was asked for. */
export const asks = (asked: object, wanted: object) => Object.entries(wanted).every(([name, value]) => JSON.stringify((asked as Record<string, unknown>)[name]) === JSON.stringify(value));

export const now = () => new Date().toISOString();
export const wait = (millis: number) => new Promise<void>((done) => setTimeout(done, millis));
export const lastOf = (path: string) => path.split("/").at(-1) ?? path;

export const HOME = "/Users/mira/Library/Application Support/app.anneal.desktop";
export const CACHE = "/Users/mira/.cache/huggingface/hub";
