// Drives the real window: the program, its web view, and WebKitWebDriver between them.
//
// Deliberately absent: a client library. The few calls of the WebDriver protocol that a journey needs are fetches.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** How long anything may take, in milliseconds. A machine that also compiles is slow. */
const TIMEOUT = 60_000;
/** How long the driver may take for one call. */
const CALL = 15_000;

/** The program that ANNEAL_PROGRAM names, or the debug build, wherever cargo puts it. */
export const program = (() => {
  if (process.env.ANNEAL_PROGRAM) return process.env.ANNEAL_PROGRAM;
  const metadata = execFileSync("cargo", ["metadata", "--format-version", "1", "--no-deps"], { cwd: root });
  return join(JSON.parse(metadata).target_directory, "debug", "anneal");
})();

export class Window {
  #driver;
  #session;
  #environment;

  /** A window on a home of its own that asks nobody, unless the environment says otherwise. */
  constructor(home, environment = {}) {
    this.home = home;
    this.#environment = environment;
  }

  /** Opens the window. The language is one that has broken web views before. */
  async open() {
    const port = await freePort();
    const environment = { ANNEAL_HOME: this.home, TAURI_WEBVIEW_AUTOMATION: "true", LANG: "C.UTF-8", LC_ALL: "C.UTF-8", HF_HOME: join(this.home, "hub"), HF_HUB_OFFLINE: "1", ...this.#environment };
    this.#driver = spawn("WebKitWebDriver", [`--port=${port}`], { env: { ...process.env, ...environment }, stdio: "ignore" });
    this.address = `http://127.0.0.1:${port}`;
    await until(async () => (await fetch(`${this.address}/status`)).ok, "the driver answers");
    const options = { binary: program, args: [] };
    const wanted = { capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } } };
    const { sessionId } = await this.#call("POST", "/session", wanted);
    this.#session = `/session/${sessionId}`;
  }

  /** Quits, as the menu does, and waits until the process is gone: it saves what is running. */
  async close() {
    if (this.#session) await this.run("window.__TAURI_INTERNALS__.invoke('leave', { how: 'save' })").catch(() => {});
    await until(() => this.processes().length === 0, "the window and its engines are gone");
    await this.#end();
  }

  /** Ends the app at once, as a crash or a power cut does, and waits until its engines have saved and left. */
  async kill() {
    for (const { id, isEngine } of this.processes()) if (!isEngine) process.kill(id, "SIGKILL");
    await until(() => this.processes().length === 0, "the engines have left");
    await this.#end();
  }

  async #end() {
    if (this.#session) await this.#call("DELETE", this.#session).catch(() => {});
    this.#session = undefined;
    // Killed at once, the driver would leave its own processes behind.
    this.#driver?.kill("SIGTERM");
  }

  /** The processes of this home: the app, and the engines it started. */
  processes() {
    const found = [];
    for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        const words = readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
        const environment = readFileSync(`/proc/${id}/environ`, "utf8").split("\0");
        if (words[0] !== program || !environment.includes(`ANNEAL_HOME=${this.home}`)) continue;
        found.push({ id: Number(id), isEngine: words[1] === "worker" });
      } catch {
        // It ended while it was looked at.
      }
    }
    return found;
  }

  async find(xpath) {
    return until(() => this.#look(xpath), xpath);
  }

  async click(xpath) {
    // A page that is drawn anew at this moment takes its element along.
    await until(() => this.#click(xpath), `${xpath} is clicked`);
  }

  /** Clicks again until something else is there: on a page that is still filled, the pointer can miss what moves. */
  async clickUntil(xpath, then) {
    const isThere = () => this.#look(then).catch(() => undefined);
    await until(async () => (await isThere()) || (await this.#click(xpath), await isThere()), `${xpath} leads to ${then}`);
  }

  async #look(xpath) {
    return Object.values(await this.#call("POST", `${this.#session}/element`, { using: "xpath", value: xpath }))[0];
  }

  async #click(xpath) {
    const element = await this.#look(xpath);
    // The driver of a busy machine may never answer a click that takes the page away. What follows shows what it did.
    await this.#call("POST", `${this.#session}/element/${element}/click`, {}).catch((error) => {
      if (error.name !== "TimeoutError") throw error;
    });
    return true;
  }

  async text(xpath) {
    return this.#call("GET", `${this.#session}/element/${await this.find(xpath)}/text`);
  }

  /** Replaces what is in a field, as typing does. */
  async fill(xpath, text) {
    const element = await this.find(xpath);
    await this.#call("POST", `${this.#session}/element/${element}/clear`, {});
    await this.#call("POST", `${this.#session}/element/${element}/value`, { text });
  }

  /** Presses keys wherever the focus is. */
  async press(text) {
    const active = Object.values(await this.#call("GET", `${this.#session}/element/active`))[0];
    await this.#call("POST", `${this.#session}/element/${active}/value`, { text });
  }

  async run(script, ...args) {
    return this.#call("POST", `${this.#session}/execute/sync`, { script, args });
  }

  async reload() {
    await this.#call("POST", `${this.#session}/refresh`, {});
  }

  /** Goes to a page by the sidebar. */
  async goTo(page) {
    const button = `//aside//button[normalize-space() = '${page}' or @aria-label = '${page}' or starts-with(@aria-label, '${page}:')]`;
    await this.click(button);
    await this.find(`${button}[@aria-current = 'page']`);
  }

  /** Keeps a picture, if WINDOW_SHOTS names a folder for them. */
  async picture(name) {
    if (!process.env.WINDOW_SHOTS) return;
    const bytes = Buffer.from(await this.#call("GET", `${this.#session}/screenshot`), "base64");
    writeFileSync(join(process.env.WINDOW_SHOTS, `${name}.png`), bytes);
  }

  async #call(method, path, body) {
    const signal = AbortSignal.timeout(CALL);
    const answer = await fetch(this.address + path, { method, body: body && JSON.stringify(body), signal });
    const { value } = await answer.json();
    if (value?.error) throw new Error(`${value.error}: ${value.message}`);
    return value;
  }
}

/** Asks again and again until the answer is something. What went wrong last is said when it never is. */
export async function until(ask, what) {
  const end = Date.now() + TIMEOUT;
  for (;;) {
    let problem = "";
    const answer = await Promise.resolve()
      .then(ask)
      .catch((error) => {
        problem = `: ${error.message}`;
      });
    if (answer) return answer;
    assert.ok(Date.now() < end, `waited ${TIMEOUT / 1000} s until ${what}${problem}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
