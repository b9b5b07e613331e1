// The only file that knows how the window talks to the app.

import { Channel } from "@tauri-apps/api/core";
import {
  commands,
  trainFields,
  type BenchProgressView_Deserialize as HeardBenchProgress,
  type BenchProgressView_Serialize as BenchProgressView,
  type ErrorView_Serialize as ErrorView,
  type MessageView,
  type News_Deserialize as HeardAppNews,
  type News_Serialize as News,
  type Pick,
  type RepositoryKind,
  type RunNews_Deserialize as HeardNews,
  type RunNews_Serialize as RunNews,
  type SamplingView,
} from "./bindings";

// The bindings say everything twice, as it is sent and as it is received; what is received is what the window works with.
export type * from "./bindings";
export { trainFields } from "./bindings";
export type {
  AnswerView_Serialize as AnswerView,
  BenchDeviceView_Serialize as BenchDeviceView,
  BenchMeasuredView_Serialize as BenchMeasuredView,
  BenchProgressView_Serialize as BenchProgressView,
  BenchRowView_Serialize as BenchRowView,
  BenchView_Serialize as BenchView,
  CachedRevisionView_Serialize as CachedRevisionView,
  CachedView_Serialize as CachedView,
  ChatView_Serialize as ChatView,
  CheckRowView_Serialize as CheckRowView,
  CheckView_Serialize as CheckView,
  ContentView_Serialize as ContentView,
  ConversationFile_Serialize as Conversation,
  DataRequestView_Deserialize as DataRequest,
  DataSetView_Serialize as DataSetView,
  DeviceView_Serialize as DeviceView,
  DownloadView_Serialize as DownloadView,
  EstimateView_Serialize as EstimateView,
  EventsView_Serialize as EventsView,
  Exhibit_Serialize as Exhibit,
  ExhibitView_Serialize as ExhibitView,
  FieldProblemView_Serialize as FieldProblemView,
  FirstRowsView_Serialize as FirstRowsView,
  FitView_Serialize as FitView,
  FoundListView_Serialize as FoundListView,
  FoundView_Serialize as FoundView,
  HomeView_Serialize as HomeView,
  HubFileView_Serialize as HubFileView,
  HubView_Serialize as HubView,
  InspectionView_Serialize as InspectionView,
  MeasureView_Serialize as MeasureView,
  ModelView_Serialize as ModelView,
  News_Serialize as News,
  PlanView_Serialize as PlanView,
  RepositoryView_Serialize as RepositoryView,
  RunNews_Serialize as RunNews,
  RunView_Serialize as RunView,
  SplitView_Serialize as SplitView,
  StatusView_Serialize as StatusView,
  TurnFile_Serialize as Turn,
  UserView_Serialize as UserView,
} from "./bindings";

/** What the form has in its fields: values as in a run file, by field. */
export type Filled = Record<string, string>;

/** What can be chosen for a setting of a run. */
export function choicesOf(field: string): { value: string; text: string }[] {
  const choices = trainFields.find(({ name }) => name === field)?.choices ?? [];
  return choices.map(({ value, label }) => ({ value, text: label }));
}

/** What a command refused, with what to try next. */
export class Refused extends Error {
  readonly code: ErrorView["code"];
  readonly hint: string | null;
  /** The setting at fault, as in a run file. */
  readonly field: string | null;

  constructor({ code, message, hint, field }: ErrorView) {
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

type Result<T> = { status: "ok"; data: T } | { status: "error"; error: ErrorView };

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
  // The bindings take a message for something that is sent, where fields may be absent. None is.
  listen: (hear: (news: News) => void) => plain.listen(channel(hear as (news: HeardAppNews) => void)),
  runBenchmark: (devices: string[], size: string | null, hear: (progress: BenchProgressView) => void) =>
    plain.runBenchmark(devices, size, channel(hear as (progress: HeardBenchProgress) => void)),
  followRun: (id: string, after: number, hear: (news: RunNews) => void) => plain.followRun(id, after, channel(hear as (news: HeardNews) => void)),
  answer: (place: number, messages: MessageView[], sampling: SamplingView, hear: (piece: string) => void) => plain.answer(place, messages, sampling, channel(hear)),
  savePicture: (path: string, bytes: Uint8Array) => plain.savePicture(path, [...bytes]),
  pick: (what: Pick, name: string | null = null) => plain.pick(what, name),
  hubRepository: (kind: RepositoryKind, id: string, revision = "") => plain.hubRepository(kind, id, revision),
  resumeRun: (id: string, force = false) => plain.resumeRun(id, force),
  openChat: (place: number, name: string, force = false) => plain.openChat(place, name, force),
};
