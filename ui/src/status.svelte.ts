// What every page can see of the app: what is running, what the user prefers, and what is held over the window.

import { api, type DownloadView, type News, type SettingsView, type StatusView } from "./api";
import { go, goBack, goForward, type Route } from "./routes.svelte";

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
  /** What happened to files that were dropped or added from the menu. */
  problem = $state<unknown>();
}

export const app = new App();

let looking: Promise<void> | undefined;

/** Asks what is running; one look at a time. A look that fails leaves what was seen before. */
export function look(): Promise<void> {
  looking ??= api
    .status()
    .then((status) => void (app.status = status))
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

/** Has the page look light or dark. */
export function wear(theme: SettingsView["theme"]) {
  document.documentElement.dataset.theme = theme;
}

/** Adds the files at these paths, and goes to the page of data. */
export async function addData(paths: string[]) {
  try {
    let id: string | undefined;
    for (const path of paths) id = (await api.addData(path)).id;
    if (id) go({ page: "data", id });
  } catch (problem) {
    app.problem = problem;
    go({ page: "data" });
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
    void addData(news.paths);
  } else if (news.kind === "downloads") {
    told += 1;
    app.downloads = news.downloads;
  } else choose(news.page);
}

const PLAIN = ["home", "models", "data", "activity", "train", "runs", "chat", "device", "bench", "settings"] as const;

/** Does what was chosen in the menu, or by its shortcut. */
export function choose(id: string) {
  const page = PLAIN.find((name) => name === id);
  if (page) go({ page } as Route);
  else if (id === "back") goBack();
  else if (id === "forward") goForward();
  else if (id === "search") app.searches = true;
  else if (id === "new-run") go({ page: "train", filled: {} });
  else if (id === "quit") leave();
  else if (id === "open-run") void openRunFile();
  else if (id === "add-data") void pickData();
}

async function pickData() {
  const path = await api.pick("data");
  if (path) await addData([path]);
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
