// The app as a whole: its device, its settings, what is running, and what it tells the window.

import type { Channel } from "@tauri-apps/api/core";
import type { DeviceView, News, Pick, SettingsView } from "../../../ui/src/api/bindings";
import { checking } from "./check";
import { goingRun, offeredRuns, forgetOffered, runAnswers, starterRun, visibleRuns, waitingRuns } from "./runs";
import { filled, HOME, refuse, type Some } from "./scene";

let channel: Channel<News> | undefined;

/** Tells the window something. */
export function tell(news: News) {
  channel?.onmessage(news);
}

const device = (name: string, kind: string, totalBytes: number | null, freeBytes: number | null, defaults: [name: string, value: string, why: string][]): DeviceView => ({
  name,
  kind,
  setting: kind.toLowerCase(),
  totalBytes,
  freeBytes,
  cores: kind === "CPU" ? 16 : null,
  problem: null,
  defaults: defaults.map(([name, value, why]) => ({ name, value, why })),
});

const metal = device("Apple M3 Max", "Metal", 28_991_029_248, 21_412_356_096, [
  ["computes in", "bf16", "Half the memory of f32; sums and softmaxes stay in f32."],
  ["stores in", "bf16", "As the weights are on disk."],
  ["attention", "in blocks", "A row of 8,192 tokens needs 0.1 GB in place of 4.3 GB."],
]);
const processor = device("Apple M3 Max processor", "CPU", 38_654_705_664, 24_118_263_808, [
  ["computes in", "f32", "The processor's matrix kernels are f32."],
  ["threads", "12", "One for each fast core; the slow ones would make the others wait."],
]);
const card = {
  ...device("NVIDIA GeForce RTX 2060 in an external enclosure with a very long product name", "CUDA", null, null, []),
  problem: "the driver is 11.4; 12.2 or newer is needed",
};

const settings: SettingsView = {
  theme: "system",
  notifications: true,
  keepAwake: true,
  pauseOnBattery: false,
  pauseBelowPercent: 20,
  device: "auto",
  folders: (Object.entries({ Runs: 4_812_334_080, Models: 3_695_917_568, Data: 18_204_112, Conversations: 88_412, Logs: 12_288 })).map(([name, bytes]) => ({
    name,
    path: `${HOME}/${name.toLowerCase()}`,
    bytes: filled || name === "Logs" ? bytes : 0,
  })),
  modelFolders: filled ? ["/Volumes/Archive of old experiments/models/2026"] : [],
  version: "0.1.0",
  platform: "macos on aarch64",
};

/** What is picked: in which folder, and what it is called unless that was said. */
const PICKED: Record<Pick, [folder: string, name: string]> = {
  data: ["Documents", "letters.jsonl"],
  folder: ["Models", "Qwen2.5-0.5B-Instruct"],
  run_file: ["Documents", "support.yaml"],
  new_run_file: ["Documents", "run.yaml"],
  new_conversation: ["Documents", "conversation.md"],
  benchmark: ["Downloads", "bench-of-a-friend.json"],
  new_benchmark: ["Documents", "bench.json"],
  new_picture: ["Pictures", "bench.png"],
};

export const appAnswers = {
  home: () => ({
    device: metal,
    devices: [metal, processor, card],
    reason: "The fastest device that was found.",
    warnings: filled ? [] : ["The processor is an efficiency model and will be slow; everything works."],
    engines: ["anneal 0.1.0 (Metal)", "anneal 0.1.0 (CPU)"],
    runs: visibleRuns(),
  }),

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

  listen: (news) => void (channel = news),
  leave: () => null,

  resumeOffered: async () => {
    for (const run of offeredRuns()) await runAnswers.resumeRun(run.id, false);
    forgetOffered();
  },

  forgetOffered,

  settings: () => ({ ...settings }),

  setSetting: (name, value) => {
    const field = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()) as keyof SettingsView;
    if (!(field in settings)) refuse(`there is no setting \`${name}\``, null, name);
    const isText = typeof settings[field] === "string";
    Object.assign(settings, { [field]: isText ? value : (JSON.parse(value) as unknown) });
  },

  pick: (what, name) => {
    const [folder, usual] = PICKED[what];
    return `/Users/mira/${folder}/${name ?? usual}`;
  },

  reveal: () => null,
  openLink: () => null,
  startStarter: () => starterRun(),
} satisfies Some;
