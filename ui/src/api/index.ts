// The only file that knows how the window talks to the app.

import { Channel } from "@tauri-apps/api/core";
import {
  commands,
  type BenchProgressView_Deserialize as HeardBenchProgress,
  type BenchProgressView_Serialize as BenchProgressView,
  type ConversationFile_Deserialize as NewConversation,
  type DataRequestView_Deserialize as DataRequest,
  type ErrorView_Serialize as ErrorView,
  type Leaving,
  type MessageView,
  type News_Deserialize as HeardAppNews,
  type News_Serialize as News,
  type Pick,
  type RepositoryKind,
  type RunNews_Deserialize as HeardNews,
  type RunNews_Serialize as RunNews,
  type SamplingView,
  type SearchView,
  type WantedView,
} from "./bindings";

export type {
  AdviceView,
  AnswerView_Serialize as AnswerView,
  BenchDeviceView_Serialize as BenchDeviceView,
  BenchMeasuredView_Serialize as BenchMeasuredView,
  BenchProgressView_Serialize as BenchProgressView,
  BenchRowView_Serialize as BenchRowView,
  BenchUnit,
  BenchView_Serialize as BenchView,
  CachedRevisionView_Serialize as CachedRevisionView,
  CachedView_Serialize as CachedView,
  ChatView_Serialize as ChatView,
  CheckProgressView,
  CheckRowView_Serialize as CheckRowView,
  CheckView_Serialize as CheckView,
  ChoiceView,
  ComparedRowView,
  ComparisonView,
  ContentView_Serialize as ContentView,
  ConversationFile_Serialize as Conversation,
  ConversationView,
  DataRequestView_Deserialize as DataRequest,
  DataSetView_Serialize as DataSetView,
  DeviceView_Serialize as DeviceView,
  DownloadFileView,
  DownloadState,
  DownloadView_Serialize as DownloadView,
  EstimateView_Serialize as EstimateView,
  EvaluationView,
  EventsView_Serialize as EventsView,
  FieldProblemView_Serialize as FieldProblemView,
  FieldView,
  FileView,
  FirstRowsView_Serialize as FirstRowsView,
  FitView_Serialize as FitView,
  FolderView,
  FoundListView_Serialize as FoundListView,
  FoundView_Serialize as FoundView,
  HomeView_Serialize as HomeView,
  HubFileView_Serialize as HubFileView,
  HubView_Serialize as HubView,
  InspectionView_Serialize as InspectionView,
  Leaving,
  MeasureView_Serialize as MeasureView,
  MessageView,
  ModelView_Serialize as ModelView,
  News_Serialize as News,
  Pick,
  PlanLineView,
  PlanView_Serialize as PlanView,
  PublishedView,
  RepositoryKind,
  RepositoryView_Serialize as RepositoryView,
  RunNews_Serialize as RunNews,
  RunView_Serialize as RunView,
  SamplingView,
  SearchView,
  SettingsView,
  SortBy,
  SplitView_Serialize as SplitView,
  StatusView_Serialize as StatusView,
  Theme,
  TurnFile_Serialize as Turn,
  UserView_Serialize as UserView,
  WantedView,
} from "./bindings";

/** What the form has in its fields: values as in a run file, by field. */
export type Filled = Record<string, string>;

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

export const api = {
  // The app.
  home: () => opened(commands.home()),
  status: () => opened(commands.status()),
  // The bindings take a message for something that is sent, where fields may be absent. None is.
  listen: (hear: (news: News) => void) => opened(commands.listen(channel(hear as (news: HeardAppNews) => void))),
  leave: (how: Leaving) => opened(commands.leave(how)),
  resumeOffered: () => opened(commands.resumeOffered()),
  forgetOffered: () => opened(commands.forgetOffered()),
  settings: () => opened(commands.settings()),
  setSetting: (name: string, value: string) => opened(commands.setSetting(name, value)),
  pick: (what: Pick, name: string | null = null) => opened(commands.pick(what, name)),
  reveal: (path: string) => opened(commands.reveal(path)),
  openLink: (url: string) => opened(commands.openLink(url)),

  // The device check.
  lastCheck: (device: string) => opened(commands.lastCheck(device)),
  checkDevice: (device: string) => opened(commands.checkDevice(device)),
  stopCheck: () => opened(commands.stopCheck()),

  // Benchmarks.
  benchmarks: () => opened(commands.benchmarks()),
  runBenchmark: (devices: string[], size: string | null, hear: (progress: BenchProgressView) => void) =>
    opened(commands.runBenchmark(devices, size, channel(hear as (progress: HeardBenchProgress) => void))),
  stopBenchmark: () => opened(commands.stopBenchmark()),
  compareBenchmarks: (earlier: string, later: string) => opened(commands.compareBenchmarks(earlier, later)),
  importBenchmark: (path: string) => opened(commands.importBenchmark(path)),
  exportBenchmark: (id: string, path: string) => opened(commands.exportBenchmark(id, path)),
  savePicture: (path: string, bytes: Uint8Array) => opened(commands.savePicture(path, [...bytes])),
  deleteBenchmark: (id: string) => opened(commands.deleteBenchmark(id)),
  publishedFigures: () => opened(commands.publishedFigures()),

  // Data.
  dataSets: () => opened(commands.dataSets()),
  addData: (path: string) => opened(commands.addData(path)),
  addDataText: (text: string) => opened(commands.addDataText(text)),
  changeData: (id: string, request: DataRequest) => opened(commands.changeData(id, request)),
  removeData: (id: string) => opened(commands.removeData(id)),
  inspectData: (id: string, request: DataRequest, model: string | null) => opened(commands.inspectData(id, request, model)),

  // Models.
  models: () => opened(commands.models()),
  importModel: (path: string) => opened(commands.importModel(path)),
  forgetModel: (path: string) => opened(commands.forgetModel(path)),
  deleteModel: (path: string) => opened(commands.deleteModel(path)),

  // The Hub.
  hub: () => opened(commands.hub()),
  hubSearch: (search: SearchView) => opened(commands.hubSearch(search)),
  hubRepository: (kind: RepositoryKind, id: string, revision = "") => opened(commands.hubRepository(kind, id, revision)),
  hubFirstRows: (id: string, revision: string, config: string, split: string) =>
    opened(commands.hubFirstRows(id, revision, config, split)),
  downloads: () => opened(commands.downloads()),
  startDownload: (wanted: WantedView) => opened(commands.startDownload(wanted)),
  pauseDownload: (key: string) => opened(commands.pauseDownload(key)),
  resumeDownload: (key: string) => opened(commands.resumeDownload(key)),
  cancelDownload: (key: string) => opened(commands.cancelDownload(key)),
  cached: () => opened(commands.cached()),
  deleteCached: (kind: RepositoryKind, id: string, commit: string) => opened(commands.deleteCached(kind, id, commit)),
  hubUser: () => opened(commands.hubUser()),
  hubLogin: (token: string) => opened(commands.hubLogin(token)),
  hubLogout: () => opened(commands.hubLogout()),

  // Before a run.
  trainFields: () => opened(commands.trainFields()),
  planRun: (filled: Filled) => opened(commands.planRun(filled)),
  tryRun: (filled: Filled) => opened(commands.tryRun(filled)),
  stopTrial: () => opened(commands.stopTrial()),
  startRun: (filled: Filled, force: boolean) => opened(commands.startRun(filled, force)),
  startStarter: () => opened(commands.startStarter()),
  readRunFile: (path: string) => opened(commands.readRunFile(path)),
  writeRunFile: (path: string, filled: Filled) => opened(commands.writeRunFile(path, filled)),

  // Runs.
  runs: () => opened(commands.runs()),
  run: (id: string) => opened(commands.run(id)),
  runEvents: (id: string) => opened(commands.runEvents(id)),
  followRun: (id: string, after: number, hear: (news: RunNews) => void) =>
    opened(commands.followRun(id, after, channel(hear as (news: HeardNews) => void))),
  unfollowRun: (follower: number) => opened(commands.unfollowRun(follower)),
  runPlan: (id: string) => opened(commands.runPlan(id)),
  runSettings: (id: string) => opened(commands.runSettings(id)),
  runFiles: (id: string) => opened(commands.runFiles(id)),
  runLog: (id: string) => opened(commands.runLog(id)),
  pauseRun: (id: string) => opened(commands.pauseRun(id)),
  stopRun: (id: string) => opened(commands.stopRun(id)),
  resumeRun: (id: string, force = false) => opened(commands.resumeRun(id, force)),
  extendRun: (id: string, steps: number) => opened(commands.extendRun(id, steps)),
  orderRuns: (ids: string[]) => opened(commands.orderRuns(ids)),
  renameRun: (id: string, name: string) => opened(commands.renameRun(id, name)),
  deleteRun: (id: string) => opened(commands.deleteRun(id)),

  // Chat. Two models can be open at once, at places 0 and 1.
  openChat: (place: number, name: string, force = false) => opened(commands.openChat(place, name, force)),
  closeChat: (place: number) => opened(commands.closeChat(place)),
  answer: (place: number, messages: MessageView[], sampling: SamplingView, hear: (piece: string) => void) =>
    opened(commands.answer(place, messages, sampling, channel(hear))),
  stopAnswer: (place: number) => opened(commands.stopAnswer(place)),
  conversations: (query: string) => opened(commands.conversations(query)),
  conversation: (id: string) => opened(commands.conversation(id)),
  saveConversation: (conversation: NewConversation) => opened(commands.saveConversation(conversation)),
  deleteConversation: (id: string) => opened(commands.deleteConversation(id)),
  exportConversation: (id: string, path: string) => opened(commands.exportConversation(id, path)),
};
