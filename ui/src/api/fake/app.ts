// The app as a whole: its device, its settings, what goes on, and what it tells the window.

import type { Channel } from "@tauri-apps/api/core";
import type { DeviceView_Serialize as DeviceView, News, SettingsView } from "../bindings";
import { checking } from "./check";
import { goingRun, offeredRuns, forgetOffered, runAnswers, starterRun, visibleRuns, waitingRuns } from "./runs";
import { filled, HOME, mayRefuse, refuse, type Some } from "./scene";

let channel: Channel<News> | undefined;

/** Tells the window something. */
export function tell(news: News) {
  channel?.onmessage(news);
}

const metal: DeviceView = {
  name: "Apple M3 Max",
  kind: "Metal",
  setting: "metal",
  totalBytes: 28_991_029_248,
  freeBytes: 21_412_356_096,
  cores: null,
  problem: null,
  defaults: [
    { name: "computes in", value: "bf16", why: "Half the memory of f32; sums and softmaxes stay in f32." },
    { name: "stores in", value: "bf16", why: "As the weights are on disk." },
    { name: "attention", value: "in blocks", why: "A row of 8,192 tokens needs 0.1 GB in place of 4.3 GB." },
  ],
};

const processor: DeviceView = {
  name: "Apple M3 Max processor",
  kind: "CPU",
  setting: "cpu",
  totalBytes: 38_654_705_664,
  freeBytes: 24_118_263_808,
  cores: 16,
  problem: null,
  defaults: [
    { name: "computes in", value: "f32", why: "The processor's matrix kernels are f32." },
    { name: "stores in", value: "f32", why: "The processor computes in f32, so nothing is converted while it runs." },
    { name: "threads", value: "12", why: "One for each fast core; the slow ones would make the others wait." },
  ],
};

const card: DeviceView = {
  name: "NVIDIA GeForce RTX 2060 in an external enclosure with a very long product name",
  kind: "CUDA",
  setting: "cuda",
  totalBytes: null,
  freeBytes: null,
  cores: null,
  problem: "the driver is 11.4; 12.2 or newer is needed",
  defaults: [],
};

const settings: SettingsView = {
  theme: "system",
  notifications: true,
  keepAwake: true,
  pauseOnBattery: false,
  pauseBelowPercent: 20,
  device: "auto",
  folders: [
    { name: "Runs", path: `${HOME}/runs`, bytes: filled ? 4_812_334_080 : 0 },
    { name: "Models", path: `${HOME}/models`, bytes: filled ? 3_695_917_568 : 0 },
    { name: "Data", path: `${HOME}/data`, bytes: filled ? 18_204_112 : 0 },
    { name: "Conversations", path: `${HOME}/conversations`, bytes: filled ? 88_412 : 0 },
    { name: "Logs", path: `${HOME}/logs`, bytes: 12_288 },
  ],
  modelFolders: filled ? ["/Volumes/Archive of old experiments/models/2026"] : [],
  version: "0.1.0",
  platform: "macos on aarch64",
};

export const appAnswers: Some<
  | "home"
  | "status"
  | "listen"
  | "leave"
  | "resumeOffered"
  | "forgetOffered"
  | "settings"
  | "setSetting"
  | "pick"
  | "reveal"
  | "openLink"
  | "startStarter"
> = {
  home: () => {
    mayRefuse(`could not read the settings: line 3 has no value: \`${HOME}/settings.yaml\``, "correct the line, or delete the file to begin with the usual settings");
    return {
      device: metal,
      devices: [metal, processor, card],
      reason: "The fastest device that was found.",
      warnings: filled ? [] : ["The processor is an efficiency model and will be slow; everything works."],
      engines: ["anneal 0.1.0 (Metal)", "anneal 0.1.0 (CPU)"],
      runs: visibleRuns(),
    };
  },

  status: () => {
    const going = goingRun();
    return {
      going,
      waiting: waitingRuns(),
      offered: offeredRuns(),
      device: metal,
      problem: null,
      checking,
      awake: going?.status === "running" ? "The Mac is kept awake until the run is done." : null,
    };
  },

  listen: (news) => {
    channel = news;
    return null;
  },

  leave: () => null,

  resumeOffered: async () => {
    for (const run of offeredRuns()) await runAnswers.resumeRun(run.id, false);
    forgetOffered();
    return null;
  },

  forgetOffered: () => {
    forgetOffered();
    return null;
  },

  settings: () => ({ ...settings }),

  setSetting: (name, value) => {
    mayRefuse("could not write the settings: No space left on device (os error 28)", "free some space, then try again");
    if (name === "theme") settings.theme = value as SettingsView["theme"];
    else if (name === "notifications") settings.notifications = value === "true";
    else if (name === "keep_awake") settings.keepAwake = value === "true";
    else if (name === "pause_on_battery") settings.pauseOnBattery = value === "true";
    else if (name === "pause_below_percent") settings.pauseBelowPercent = Number(value);
    else if (name === "device") settings.device = value;
    else if (name === "model_folders") settings.modelFolders = JSON.parse(value) as string[];
    else refuse(`there is no setting \`${name}\``, null, name);
    return null;
  },

  pick: (what, name) =>
    ({
      data: "/Users/mira/Documents/letters.jsonl",
      folder: "/Users/mira/Models/Qwen2.5-0.5B-Instruct",
      run_file: "/Users/mira/Documents/support.yaml",
      new_run_file: `/Users/mira/Documents/${name ?? "run"}.yaml`,
      new_conversation: `/Users/mira/Documents/${name ?? "conversation"}.md`,
      benchmark: "/Users/mira/Downloads/bench-of-a-friend.json",
      new_benchmark: `/Users/mira/Documents/${name ?? "bench.json"}`,
      new_picture: `/Users/mira/Pictures/${name ?? "bench.png"}`,
    })[what],

  reveal: (path) => {
    mayRefuse(`could not show the file: No such file or directory (os error 2): \`${path}\``);
    return null;
  },

  openLink: () => null,

  startStarter: () => {
    mayRefuse("could not start the run: the plan needs 1.2 GB and 0.4 GB are free", "close other programs, then try again");
    return starterRun();
  },
};
