// The only file that knows how the window talks to the app.

import { Channel } from "@tauri-apps/api/core";
import { quoted } from "../lib/words";
import { commands, trainFields, type AppError, type BenchProgressView, type ChatSettings, type CountProgressView, type DataRequestView, type ExportStageView, type Message, type News, type Pick, type PredictionView, type RepositoryKind, type RunNews, type ScoredToken, type ThinkingView } from "./bindings";

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
  needs: { field: string; values: readonly string[] } | null;
  /** The kind of learning that has it. Without one, every run has it. */
  task: string | null;
}

/** All of them, in the order in which they are shown. */
export const FIELDS: readonly Field[] = trainFields;

/** What can be chosen for a setting of a run. */
export function choicesOf(field: string): { value: string; text: string }[] {
  const choices = FIELDS.find(({ name }) => name === field)?.choices ?? [];
  return choices.map(({ value, label }) => ({ value, text: label }));
}

/** What a command refused, with what to try next. */
export class Refused extends Error {
  readonly code: AppError["code"];
  readonly hint: string | null;
  /** What a library said. */
  readonly details: string | null;
  /** The setting at fault, as in a run file. */
  readonly field: string | null;

  constructor({ code, message, hint, details = null, field }: AppError) {
    super(quoted(message));
    this.code = code;
    this.hint = hint === null ? null : quoted(hint);
    this.details = details;
    this.field = field;
  }
}

/** Whether the Hub can't be asked, which is nobody's mistake. */
export function isOffline(error: unknown): error is Refused {
  return error instanceof Refused && error.code === "offline";
}

type Result<T> = { status: "ok"; data: T } | { status: "error"; error: AppError };

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

type Api = { [K in keyof typeof commands]: (typeof commands)[K] extends (...words: infer W) => Promise<Result<infer T>> ? (...words: W) => Promise<T> : never };

const plain = Object.fromEntries(
  Object.entries(commands).map(([name, command]) => [name, (...words: never[]) => opened((command as (...words: never[]) => Promise<Result<unknown>>)(...words))]),
) as Api;

/** Every command, which throws what it refuses. */
export const api = {
  ...plain,
  listen: (hear: (news: News) => void) => plain.listen(channel(hear)),
  runBenchmark: (devices: string[], size: string | null, hear: (progress: BenchProgressView) => void) => plain.runBenchmark(devices, size, channel(hear)),
  countData: (id: string, request: DataRequestView, model: string | null, hear: (progress: CountProgressView) => void) => plain.countData(id, request, model, channel(hear)),
  followRun: (id: string, after: number, hear: (news: RunNews) => void) => plain.followRun(id, after, channel(hear)),
  buildSudoku: (size: number, train: number, heldOut: number, seed: number, hear: (made: number) => void) => plain.buildSudoku(size, train, heldOut, seed, channel(hear)),
  solve: (puzzle: string, part: number, steps: number, votes: number, hear: (thinking: ThinkingView) => void) => plain.solve(puzzle, part, steps, votes, channel(hear)),
  predictFiles: (files: string[], found: (count: number) => void, predicted: (prediction: PredictionView) => void) => plain.predictFiles(files, channel(found), channel(predicted)),
  countSolved: (steps: number[], hear: (count: number) => void) => plain.countSolved(steps, channel(hear)),
  answer: (place: number, messages: Message[], sampling: ChatSettings, isPlain: boolean, hear: (piece: string) => void, scored: (tokens: ScoredToken[]) => void) =>
    plain.answer(place, messages, sampling, isPlain, channel(hear), channel(scored)),
  exportModel: (model: string, format: string, path: string | null, force: boolean, compares: boolean, hear: (stage: ExportStageView) => void) =>
    plain.exportModel(model, format, path, force, compares, channel(hear)),
  savePicture: (path: string, bytes: Uint8Array) => plain.savePicture(path, [...bytes]),
  pick: (what: Pick, name: string | null = null) => plain.pick(what, name),
  hubRepository: (kind: RepositoryKind, id: string, revision = "") => plain.hubRepository(kind, id, revision),
  resumeRun: (id: string, force = false) => plain.resumeRun(id, force),
  openChat: (place: number, name: string, force = false) => plain.openChat(place, name, force),
};
