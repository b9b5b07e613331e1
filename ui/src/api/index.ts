// The only file that knows how the window talks to the app.

import { Channel } from "@tauri-apps/api/core";
import { commands, type ErrorView_Serialize as ErrorView } from "./bindings";

export type {
  AnswerView,
  ChatView,
  EventsView,
  HomeView_Serialize as HomeView,
  RunView_Serialize as RunView,
} from "./bindings";

/** What a command refused, with what to try next. */
export class Refused extends Error {
  readonly hint: string | null;

  constructor({ message, hint }: ErrorView) {
    super(message);
    this.hint = hint;
  }
}

type Result<T> = { status: "ok"; data: T } | { status: "error"; error: ErrorView };

async function opened<T>(answer: Promise<Result<T>>): Promise<T> {
  const result = await answer;
  if (result.status === "error") throw new Refused(result.error);
  return result.data;
}

export const api = {
  home: () => opened(commands.home()),
  startStarter: () => opened(commands.startStarter()),
  run: (id: string) => opened(commands.run(id)),
  runEvents: (id: string, after: number) => opened(commands.runEvents(id, after)),
  stopRun: (id: string) => opened(commands.stopRun(id)),
  resumeRun: (id: string) => opened(commands.resumeRun(id)),
  openChat: (name: string) => opened(commands.openChat(name)),
  stopAnswer: () => opened(commands.stopAnswer()),
  say: (words: string, hear: (piece: string) => void) => {
    const pieces = new Channel<string>();
    pieces.onmessage = hear;
    return opened(commands.say(words, pieces));
  },
};
