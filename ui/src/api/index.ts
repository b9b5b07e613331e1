// The only file that knows how the window talks to the app.

import { Channel } from "@tauri-apps/api/core";
import { commands, trainFields, type AppError, type BenchProgressView, type ChatSettings, type Message, type News, type RepositoryKind, type RunNews } from "./bindings";

export type * from "./bindings";
export type {
  ChatSettings as SamplingView,
  ConversationFile as Conversation,
  DataRequestView as DataRequest,
  Message as MessageView,
  PlanLine as PlanLineView,
  Reason as ChoiceView,
  TurnFile as Turn,
  Unit as BenchUnit,
} from "./bindings";
export { publishedFigures } from "./bindings";

/** What the form has in its fields: values as in a run file, by field. */
export type Filled = Record<string, string>;

/** A field of a run file: what it is called, does and may be. */
export interface Field {
  name: string;
  label: string;
  group: string;
  help: string;
  kind: "text" | "path" | "choice" | "flag" | "count" | "number" | "list" | "map";
  choices: readonly { value: string; label: string }[];
  /** What a number counts. */
  unit: string | null;
  bounds: { min: number; max: number | null; above: boolean } | null;
  advanced: boolean;
  /** The field and its value without which this one has no meaning. */
  needs: { field: string; value: string } | null;
  /** The kind of learning that has it. Without one, every run has it. */
  task: string | null;
}

/** All of them, in the order in which they are shown. */
export const FIELDS: readonly Field[] = trainFields;

/** What a command refused, with what to try next. */
export class Refused extends Error {
  readonly code: AppError["code"];
  readonly hint: string | null;
  /** The setting at fault, as in a run file. */
  readonly field: string | null;

  constructor({ code, message, hint, field }: AppError) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.field = field;
  }
}

/** Whether the Hub can't be asked, which is nobody's mistake. */
export function isOffline(error: unknown): error is Refused {
  return error instanceof Refused && error.code === "offline";
}

type Result<T> = { status: "ok"; data: T } | { status: "error"; error: AppError };
type Commands = typeof commands;
type Data<Name extends keyof Commands> = Extract<Awaited<ReturnType<Commands[Name]>>, { status: "ok" }>["data"];

/** Every command with what it answers; what it refuses is thrown. */
type Opened = { [Name in keyof Commands]: (...given: Parameters<Commands[Name]>) => Promise<Data<Name>> };

async function opened<T>(answer: Promise<Result<T>>): Promise<T> {
  const result = await answer;
  if (result.status === "error") throw new Refused(result.error);
  return result.data;
}

function channel<T>(hear: (message: T) => void): Channel<T> {
  const made = new Channel<T>();
  made.onmessage = hear;
  return made;
}

type Command = (...given: unknown[]) => Promise<Result<unknown>>;
const all = Object.entries(commands as unknown as Record<string, Command>).map(([name, command]) => {
  return [name, (...given: unknown[]) => opened(command(...given))] as const;
});
const asked = Object.fromEntries(all) as unknown as Opened;

/** What the app can be asked for. Here stand the commands that are heard for a while, or whose last arguments can be left out. */
export const api = {
  ...asked,
  listen: (hear: (news: News) => void) => asked.listen(channel(hear)),
  pick: (what: Parameters<Opened["pick"]>[0], name: string | null = null) => asked.pick(what, name),
  runBenchmark: (devices: string[], size: string | null, hear: (progress: BenchProgressView) => void) => asked.runBenchmark(devices, size, channel(hear)),
  savePicture: (path: string, bytes: Uint8Array) => asked.savePicture(path, [...bytes]),
  hubRepository: (kind: RepositoryKind, id: string, revision = "") => asked.hubRepository(kind, id, revision),
  followRun: (id: string, after: number, hear: (news: RunNews) => void) => asked.followRun(id, after, channel(hear)),
  resumeRun: (id: string, force = false) => asked.resumeRun(id, force),
  // Two models can be open at once, at places 0 and 1.
  openChat: (place: number, name: string, force = false) => asked.openChat(place, name, force),
  answer: (place: number, messages: Message[], sampling: ChatSettings, hear: (piece: string) => void) => asked.answer(place, messages, sampling, channel(hear)),
};
