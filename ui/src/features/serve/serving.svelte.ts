// The server, for as long as the window is open: leaving the page does not end it.

import { api, type RequestEntry, type ServerView, type ServeSettings } from "../../api";

/** How many of the newest requests are shown. */
const MAX = 200;

class Serving {
  /** Nothing while it is off. */
  server = $state.raw<ServerView>();
  /** The requests that are known, the newest first. */
  entries = $state.raw<RequestEntry[]>([]);
  /** The key that was given to the one that is running: the app does not say it again. */
  key = $state("");

  /** Asks what it does. */
  async look() {
    const newest = this.entries[0]?.number ?? 0;
    const { server } = this;
    const found = await api.server(newest);
    // One that was started or stopped meanwhile is not what was asked about.
    if (this.server !== server) return;
    if (found && found.since !== server?.since) this.entries = [];
    this.take(found ?? undefined);
  }

  async start(name: string, settings: ServeSettings, force = false) {
    const started = await api.startServer(name, settings, force);
    this.entries = [];
    this.key = settings.key ?? "";
    this.take(started);
  }

  async stop() {
    await api.stopServer();
    this.take(undefined);
  }

  private take(server: ServerView | undefined) {
    this.server = server;
    if (!server) return;
    const known = this.entries[0]?.number ?? 0;
    const fresh = server.entries.filter(({ number }) => number > known);
    if (fresh.length > 0) this.entries = [...fresh.reverse(), ...this.entries].slice(0, MAX);
  }
}

export const serving = new Serving();
