// The app as a whole: its device, its settings, its models, what is running, and what it tells the window.

import type { Channel } from "@tauri-apps/api/core";
import type { CheckView, HomeView, ModelView, News, SettingsView } from "../../../ui/src/api";
import checked from "./answers/check.json";
import machine from "./answers/home.json";
import listed from "./answers/models.json";
import picked from "./answers/picked.json";
import preferred from "./answers/settings.json";
import { forgetOffered, goingRun, offeredRuns, runAnswers, starterRun, visibleRuns, waitingRuns } from "./runs";
import { filled, recorded, type Some } from "./scene";

let channel: Channel<News> | undefined;

/** Tells the window something. */
export function tell(news: News) {
  channel?.onmessage(news);
}

const home = recorded<Omit<HomeView, "runs" | "warnings">>(machine);
const settings = recorded<SettingsView>(preferred);
if (!filled) Object.assign(settings, { modelFolders: [], folders: settings.folders.map((folder) => ({ ...folder, bytes: 0 })) });

export const appAnswers = {
  home: () => ({ ...home, warnings: filled ? [] : ["The processor is an efficiency model and will be slow; everything works."], runs: visibleRuns() }),

  status: () => {
    const going = goingRun();
    const awake = going?.status === "running" ? "The Mac is kept awake until the run is done." : null;
    return { going, waiting: waitingRuns(), offered: offeredRuns(), device: home.device, problem: null, checking: null, awake };
  },

  listen: (news) => void (channel = news as Channel<News>),

  resumeOffered: async () => {
    for (const run of offeredRuns()) await runAnswers.resumeRun(run.id, false);
    forgetOffered();
  },

  forgetOffered,
  startStarter: () => starterRun(),
  settings: () => ({ ...settings }),

  openSettings: () => null,
  setSetting: (name, value) => {
    const field = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()) as keyof SettingsView;
    Object.assign(settings, { [field]: typeof settings[field] === "string" ? value : (JSON.parse(value) as unknown) });
  },

  pick: (what, name) => {
    const [folder, usual] = picked[what];
    return `/Users/mira/${folder}/${name ?? usual}`;
  },

  lastCheck: () => (filled ? recorded<CheckView>(checked) : null),
  checkDevice: () => recorded<CheckView>(checked),
  models: () => (filled ? recorded<ModelView[]>(listed) : []),
} satisfies Some;
