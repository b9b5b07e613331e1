// A journey through the real window: first start, a run, stop, continue. WebKitWebDriver drives the web view.
//
// `xvfb-run --auto-servernum node --test tests/e2e/window.mjs`, with the program built and WINDOW_SHOTS naming a folder
// for pictures, if any are wanted.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const home = mkdtempSync(join(tmpdir(), "anneal-window-"));
const shots = process.env.WINDOW_SHOTS;

let driver;
let address;
let session;

before(async () => {
  const port = await freePort();
  const environment = { ANNEAL_HOME: home, TAURI_WEBVIEW_AUTOMATION: "true", LANG: "C.UTF-8" };
  driver = spawn("WebKitWebDriver", [`--port=${port}`], { env: { ...process.env, ...environment }, stdio: "ignore" });
  address = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${address}/status`)).ok, "the driver answers");
  const options = { binary: program(), args: [] };
  const wanted = { capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } } };
  session = `/session/${(await call("POST", "/session", wanted)).sessionId}`;
});

after(async () => {
  if (session) await call("DELETE", session).catch(() => {});
  // Killed at once, it would leave the window behind.
  driver?.kill("SIGTERM");
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
});

test("a newcomer starts a first model, watches it, stops it and goes on", { timeout: 120_000 }, async () => {
  await find("//p[contains(., 'Ready to train on')]");
  await find("//p[contains(., 'There are no runs yet')]");
  await picture("home-empty");

  await click("//button[. = 'Start']");
  await find("//h1[contains(., 'starter')]");
  const first = await step();
  await until(async () => (await step()) > first + 2, "steps are done");
  await picture("run");

  await click("//button[. = 'Stop and save']");
  await find("//h1[contains(., 'stopped')]");
  await find("//li[contains(., 'saved.')]");
  const stopped = await step();

  await click("//button[. = 'Continue']");
  await find(`//li[contains(., 'Went on from step ${stopped}')]`);
  await until(async () => (await step()) > stopped, "steps go on");

  await click("//nav//button[contains(., 'Home')]");
  await find("//td[contains(., 'a new model')]");
  await picture("home");

  // A second run waits for the first, and can be taken back.
  await click("//button[. = 'Start']");
  await find("//h1[contains(., 'waiting')]");
  await click("//button[. = 'Stop and save']");
  await find("//h1[not(contains(., 'waiting'))]");
  await click("//nav//button[contains(., 'Device')]");
  await find("//span[. = 'used']");
  await picture("device");
});

/** The step a run's page shows. */
async function step() {
  const element = await find("//dt[. = 'step']/preceding-sibling::dd");
  const text = await call("GET", `${session}/element/${element}/text`);
  return Number(text.split(" ")[0].replaceAll(",", ""));
}

async function click(xpath) {
  await call("POST", `${session}/element/${await find(xpath)}/click`, {});
}

async function find(xpath) {
  const look = () => call("POST", `${session}/element`, { using: "xpath", value: xpath }).catch(() => undefined);
  return Object.values(await until(look, xpath))[0];
}

async function picture(name) {
  if (!shots) return;
  const bytes = Buffer.from(await call("GET", `${session}/screenshot`), "base64");
  writeFileSync(join(shots, `${name}.png`), bytes);
}

/** Asks again and again until the answer is something. */
async function until(ask, what) {
  const end = Date.now() + 30_000;
  for (;;) {
    const answer = await Promise.resolve()
      .then(ask)
      .catch(() => undefined);
    if (answer) return answer;
    assert.ok(Date.now() < end, `waited 30 s until ${what}`);
    await new Promise((done) => setTimeout(done, 150));
  }
}

async function call(method, path, body) {
  const answer = await fetch(address + path, { method, body: body && JSON.stringify(body) });
  const { value } = await answer.json();
  if (value?.error) throw new Error(`${value.error}: ${value.message}`);
  return value;
}

/** The debug build, wherever cargo puts it. */
function program() {
  const metadata = execFileSync("cargo", ["metadata", "--format-version", "1", "--no-deps"], { cwd: root });
  return join(JSON.parse(metadata).target_directory, "debug", "anneal");
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
