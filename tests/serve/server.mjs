// `anneal serve` as a test starts it: in folders of its own, with the model of `model.mjs`, at any free port.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { writeModel } from "./model.mjs";

const program = join(import.meta.dirname, "..", "..", "target", "debug", process.platform === "win32" ? "anneal.exe" : "anneal");

/** A server that answers, with what it wrote beside. */
export async function serve({ chats = true, more = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "anneal-serve-"));
  writeModel(join(folder, "tiny"), chats);
  const words = ["serve", join(folder, "tiny"), "--device", "cpu", "--port", "0", "--json", ...more];
  const env = { ...process.env, ANNEAL_HOME: join(folder, "home"), HF_HOME: join(folder, "hub"), HF_HUB_OFFLINE: "1" };
  const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "pipe"] });
  const notes = [];
  createInterface({ input: child.stderr }).on("line", (line) => notes.push(line));
  const ended = new Promise((resolve) => child.on("close", resolve));
  const entries = [];
  const first = new Promise((resolve) => createInterface({ input: child.stdout }).on("line", (line) => (entries.push(JSON.parse(line)), resolve())));
  await Promise.race([first, ended]);
  if (entries.length === 0) throw new Error(`the server ended: ${notes.join("\n")}`);
  const { address, model } = entries.shift();
  return {
    /** What it told of each request. */
    entries,
    address, model, notes, pid: child.pid, port: Number(new URL(address).port),
    /** Ends it as Ctrl-C does, and returns its exit code. */
    async stop() {
      child.kill("SIGINT");
      const code = await ended;
      rmSync(folder, { recursive: true, force: true });
      return code;
    },
  };
}

/** The process that computes for a server. */
export function engineOf({ pid }) {
  return Number(execFileSync("pgrep", ["-P", String(pid)], { encoding: "utf8" }).trim());
}

/** Asks with the very headers given, and returns status, headers and text. */
export function ask({ port }, { method = "GET", path = "/v1/models", headers = {}, body, agent, setHost = true } = {}) {
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, method, path, headers, agent, setHost }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    asked.on("error", reject);
    asked.end(body);
  });
}
