// What every page can see of the app: what is running, what the user prefers, and what is held over the window.

import { api, Refused, type DownloadView, type News, type SettingsView, type StatusView } from "./api";
import { COMMANDS, type Command } from "./lib/shortcut";
import { go, goBack, goForward, stay, trail, type Route } from "./routes.svelte";

/** How often the app is asked what is running, in milliseconds. */
const LOOK = 1000;

class App {
  status = $state<StatusView>();
  /** All downloads, in order, as last heard of. */
  downloads = $state<DownloadView[]>([]);
  /** Whether the user wants to close the window while a run is running. */
  leaves = $state(false);
  /** Whether anything can be gone to by typing. */
  searches = $state(false);
  /** Whether files are held over the window. */
  dropping = $state(false);
  /** What the page that is open does with what is dropped. Where it says no, models and data are added. */
  takes: ((paths: string[]) => boolean) | undefined;
  /** Whether the keys of all commands are shown. */
  shortcuts = $state(false);
  /** Why a command could not be done. */
  failed = $state.raw<unknown>();
  /** Why something that was dropped or added from the menu could not be taken in. */
  problem = $state<unknown>();
}

export const app = new App();

let looking: Promise<void> | undefined;

/** Asks what is running; one look at a time. A look that fails leaves what was seen before. */
export function look(): Promise<void> {
  looking ??= api
    .status()
    .then((status) => {
      app.status = status;
    })
    .catch(() => undefined)
    .finally(() => (looking = undefined));
  return looking;
}

/** How often something new about the downloads was told. */
let told = 0;

/** Asks for the downloads. What was told meanwhile is newer than the answer. */
export async function lookAtDownloads(): Promise<void> {
  const before = told;
  const downloads = await api.downloads();
  if (told === before) app.downloads = downloads;
}

/** Has the page look light or dark, and begin so the next time. */
export function wear(theme: SettingsView["theme"]) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}

/** Takes in what was dropped or picked: models are added, data is added, a run file fills the form. Goes to the page of the last. */
export async function receive(paths: string[]) {
  let next: Route | undefined;
  let problem: unknown;
  for (const path of paths) {
    try {
      next = await received(path);
    } catch (refusal) {
      problem ??= refusal;
      next ??= { page: /\.(gguf|safetensors)$/i.test(path) ? "models" : "data" };
    }
  }
  app.problem = problem;
  if (next) go(next);
}

/** Takes in one, and says where it is seen. */
async function received(path: string): Promise<Route> {
  const found = await api.lookAtPath(path);
  switch (found.kind) {
    case "model":
      await api.importModel(found.path);
      return { page: "models" };
    case "run_file":
      return { page: "train", filled: await api.readRunFile(path) };
    case "data":
      return { page: "data", id: (await api.addData(path)).id };
    case "nothing":
      throw new Refused(found.problem);
  }
}

/** Starts to follow the app. Returns how to stop. */
export function follow(): () => void {
  // Without any of it, the window still shows its pages.
  api.listen(hear).catch(() => undefined);
  api.settings().then(
    (settings) => wear(settings.theme),
    () => undefined,
  );
  lookAtDownloads().catch(() => undefined);
  void look();
  const timer = setInterval(look, LOOK);
  return () => clearInterval(timer);
}

function hear(news: News) {
  if (news.kind === "quit_asked") app.leaves = true;
  else if (news.kind === "hovered") app.dropping = news.over;
  else if (news.kind === "dropped") {
    app.dropping = false;
    if (!app.takes?.(news.paths)) void receive(news.paths);
  } else if (news.kind === "downloads") {
    told += 1;
    app.downloads = news.downloads;
  } else if (news.kind === "themed") wear(news.theme);
  else void choose(news.page);
}

const PLAIN = ["home", "models", "data", "activity", "train", "runs", "chat", "serve", "solve", "predict", "probes", "device", "bench"] as const;

/** What the commands do that are more than a page. */
const ACTS: Record<string, () => unknown> = {
  back: goBack,
  forward: goForward,
  search: () => (app.searches = true),
  shortcuts: () => (app.shortcuts = true),
  settings: () => api.openSettings(),
  "new-run": () => go({ page: "train", filled: {} }),
  "open-run": openRunFile,
  "add-data": pickData,
  "add-model": addModel,
  "show-run": () => app.status?.going && go({ page: "run", id: app.status.going.id }),
  "pause-run": () => withRun((id) => api.pauseRun(id)),
  "resume-run": () => withRun((id) => api.resumeRun(id, false)),
  "stop-run": () => withRun((id) => api.stopRun(id)),
  "first-model": startFirst,
  folder: () => api.settings().then(({ folders: [first] }) => first && api.reveal(first.path)),
  light: () => setTheme("light"),
  dark: () => setTheme("dark"),
  system: () => setTheme("system"),
  quit: leave,
};

/** Does what was chosen in the menu or the palette, or by its key. What could not be done is said on the page. */
export async function choose(id: string) {
  const page = PLAIN.find((name) => name === id);
  if (page) return go({ page } as Route);
  try {
    await ACTS[id]?.();
  } catch (problem) {
    app.failed = problem;
  }
}

/** Whether a command means anything now. */
export function isPossible({ needs }: Command): boolean {
  const status = app.status?.going?.status;
  if (needs === "back" || needs === "forward") return trail[needs].length > 0;
  return needs === undefined || (status !== undefined && (needs === "run" || status === needs));
}

/** The ids of the commands that mean nothing now, with a space between them. */
export function impossible(): string {
  return COMMANDS.filter((command) => !isPossible(command)).map(({ id }) => id).join(" ");
}

async function withRun(act: (id: string) => Promise<unknown>) {
  const id = app.status?.going?.id;
  if (id) await act(id);
  await look();
}

async function setTheme(theme: SettingsView["theme"]) {
  await api.setSetting("theme", theme);
  wear(theme);
}

/** Begins the first model, and goes to it unless the user has gone elsewhere while its data was made. */
export async function beginFirst(arrive = stay()) {
  arrive({ page: "run", id: await api.startStarter() });
}

/** Goes to the first model, which is begun where it was not before. */
async function startFirst() {
  const arrive = stay();
  const known = (await api.runs()).find(({ name }) => name === "starter");
  if (known) arrive({ page: "run", id: known.id });
  else await beginFirst(arrive);
}

async function addModel() {
  const path = await api.pick("folder");
  if (!path) return;
  await api.importModel(path);
  go({ page: "models" });
}

async function pickData() {
  const path = await api.pick("data");
  if (path) await receive([path]);
}

/** Closes the app; asks first while a run is running. */
export function leave() {
  if (app.status?.going) app.leaves = true;
  else void api.leave("save");
}

async function openRunFile() {
  const path = await api.pick("run_file");
  if (path) go({ page: "train", filled: await api.readRunFile(path) });
}
