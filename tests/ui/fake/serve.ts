// A server that other programs ask now and then.

import type { RequestEntry, ServerView } from "../../../ui/src/api";
import { HOME, lastOf, now, refuse, scene, type Some, wait } from "./scene";

/** What was asked before the page came, the oldest first. */
const ASKED: Omit<RequestEntry, "number" | "time">[] = [
  { client: "curl", request: "GET /v1/models", status: 200, promptTokens: null, completionTokens: null, note: null, millis: 1 },
  { client: "curl", request: "POST /v1/chat/completions", status: 400, promptTokens: null, completionTokens: null, note: "the prompt has 9,120 tokens, and the model reads 8,191 at most; shorten `messages`", millis: 2 },
  { client: "Mozilla", request: "POST /v1/chat/completions", status: 403, promptTokens: null, completionTokens: null, note: "requests of web pages are refused; ask from a program on this machine", millis: 0.2 },
  { client: "OpenAI", request: "POST /v1/chat/completions", status: 200, promptTokens: 96, completionTokens: 40, note: null, millis: 812 },
  { client: "Zed", request: "POST /v1/chat/completions", status: 200, promptTokens: 1204, completionTokens: 311, note: null, millis: 6104 },
  { client: null, request: "POST /v1/completions", status: 200, promptTokens: 412, completionTokens: 168, note: null, millis: 2904 },
  { client: "Zed", request: "POST /v1/chat/completions", status: 200, promptTokens: null, completionTokens: null, note: "the client left after 54 tokens", millis: 1120 },
];

let server: Omit<ServerView, "entries"> | undefined;
let entries: RequestEntry[] = [];

const after = (number: number): ServerView | null => (server ? { ...server, entries: entries.filter((entry) => entry.number > number) } : null);

export const serveAnswers = {
  server: after,

  startServer: async (name, { key, slots }, force) => {
    await wait(60);
    if (scene === "broken") refuse("could not listen at 127.0.0.1:1434: Address already in use (os error 48)", "another program may listen there; choose another port with `--port`");
    if (/a-remarkably-long/.test(name) && !force) refuse("chatting needs about 31.0 GB, and 21.4 GB are free on Apple M3 Max", "close other programs, or what else is open here, or choose a smaller model", null, "needs_force");
    const started = Date.parse(now());
    entries = ASKED.map((entry, at) => ({ ...entry, number: at + 1, time: new Date(started - (ASKED.length - at) * 41_000).toISOString() }));
    server = {
      address: "http://127.0.0.1:1414/v1", model: lastOf(name), name, answers: !name.startsWith(`${HOME}/models`) || !/Base$/.test(name), context: 8192,
      hasKey: key !== null, slots, since: now(), answered: 42, answering: 1, waiting: 0, tokensPerSecond: 61.2, firstSeconds: 0.14, warnings: [],
    };
    const view = after(0);
    return view ?? refuse("the server did not start");
  },

  stopServer: () => {
    server = undefined;
  },
} satisfies Some;
