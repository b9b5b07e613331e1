// A build of the window with the made-up app behind it, served under the rules of the real one, in a browser.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

import { chromium } from "playwright-core";
import * as vite from "vite";

import { findBrowser, root } from "../../.ci/setup.mjs";

const ui = { root: join(root, "ui"), logLevel: "error" };

/** Builds the pages into a folder of its own, in a mode. */
export async function build(mode) {
  const folder = mkdtempSync(join(tmpdir(), "anneal-pages-"));
  await vite.build({ ...ui, mode, build: { outDir: folder, emptyOutDir: true } });
  return folder;
}

/** What the real window may load, without its own way to talk to the app, which the fake does not use. */
function policy() {
  const { csp } = JSON.parse(readFileSync(join(root, "src-tauri", "tauri.conf.json"), "utf8")).app.security;
  const rules = { ...csp, "connect-src": "'none'" };
  return Object.entries(rules)
    .map(([what, from]) => `${what} ${from}`)
    .join("; ");
}

const folder = await build("fake");
const headers = { "content-security-policy": policy() };
const server = await vite.preview({ ...ui, build: { outDir: folder }, preview: { host: "127.0.0.1", port: 0, headers } });
const browser = await chromium.launch({ executablePath: findBrowser(), headless: true });
const address = `http://127.0.0.1:${server.httpServer.address().port}`;

after(async () => {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** Pages that nobody looks at now. A new one costs a second of work, since each has a window of its own. */
const idle = [];
let opened = 0;

/** Opens a page of the window, or has `early` go to it; `faults` collects what goes wrong in it. */
export async function open(route, { scene = "full", more = "", early } = {}) {
  const page = idle.pop() ?? (await browser.newPage({ locale: "en-US" }));
  const faults = [];
  const fail = (error) => faults.push(`error: ${error.message}`);
  // A browser asks for an icon, which the window has no use for.
  const isFault = (message) => message.type() === "error" && !message.location().url.endsWith("/favicon.ico");
  const hear = (message) => isFault(message) && faults.push(`console: ${message.text()}`);
  page.on("pageerror", fail);
  page.on("console", hear);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  opened += 1;
  const where = `${address}/?scene=${scene}${more}&visit=${opened}#${encodeURIComponent(JSON.stringify(route))}`;
  await (early ? early(page, () => page.goto(where, { waitUntil: "commit" })) : page.goto(where));
  await settled(page);
  const close = () => {
    page.off("pageerror", fail);
    page.off("console", hear);
    // What it keeps is not for the next.
    page.evaluate(() => localStorage.clear()).then(() => idle.push(page), () => undefined);
  };
  return { page, faults, close };
}

/** Waits until every command has its answer and, for a while, none follows: some pages ask a moment after a change. */
export async function settled(page, millis = 300) {
  await page.waitForFunction(() => window.annealFake?.open === 0 && document.querySelector("main")?.childElementCount > 0);
  await page.evaluate(async (millis) => {
    const { asked } = window.annealFake;
    // What is running is asked for every second, and says nothing about the page.
    const count = () => asked.filter(([name]) => name !== "status").length;
    const start = performance.now();
    let [before, since] = [count(), start];
    while (performance.now() - since < millis || window.annealFake.open > 0) {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      if (performance.now() - start > 60_000) {
        const last = asked.slice(-5).map(([name]) => name);
        throw new Error(`after a minute, ${window.annealFake.open} commands wait for their answers; the last were ${last.join(", ")}`);
      }
      if (count() !== before) [before, since] = [count(), performance.now()];
    }
  }, millis);
}
