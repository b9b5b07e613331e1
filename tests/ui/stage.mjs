// A build of the window with the made-up app behind it, served under the rules of the real one, in a browser.

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after } from "node:test";
import { promisify } from "node:util";

import { chromium } from "playwright-core";

import { findBrowser, root } from "../../.ci/setup.mjs";

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Builds the pages into a folder of its own, in a mode. */
export async function build(mode) {
  const folder = mkdtempSync(join(tmpdir(), "anneal-pages-"));
  const vite = join(root, "node_modules", "vite", "bin", "vite.js");
  const words = ["build", "ui", "--mode", mode, "--outDir", folder, "--emptyOutDir", "--logLevel", "error"];
  await promisify(execFile)(process.execPath, [vite, ...words], { cwd: root });
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

function serve(folder) {
  const headers = { "content-security-policy": policy() };
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const file = join(folder, pathname === "/" ? "index.html" : pathname);
    if (!existsSync(file)) return response.writeHead(204).end();
    response.writeHead(200, { ...headers, "content-type": types[extname(file)] ?? "application/octet-stream" });
    response.end(readFileSync(file));
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

const folder = await build("fake");
const server = await serve(folder);
const browser = await chromium.launch({ executablePath: findBrowser(), headless: true });
const address = `http://127.0.0.1:${server.address().port}`;

after(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** Pages that nobody looks at now. A new one costs a second of work, since each has a window of its own. */
const idle = [];
let opened = 0;

/** Opens a page of the window; `faults` collects what goes wrong in it. */
export async function open(route, { scene = "full", more = "" } = {}) {
  const page = idle.pop() ?? (await browser.newPage({ locale: "en-US" }));
  const faults = [];
  const fail = (error) => faults.push(`error: ${error.message}`);
  const hear = (message) => message.type() === "error" && faults.push(`console: ${message.text()}`);
  page.on("pageerror", fail);
  page.on("console", hear);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  opened += 1;
  await page.goto(`${address}/?scene=${scene}${more}&visit=${opened}#${encodeURIComponent(JSON.stringify(route))}`);
  await settled(page);
  const close = () => {
    page.off("pageerror", fail);
    page.off("console", hear);
    idle.push(page);
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
    let [before, since] = [count(), performance.now()];
    while (performance.now() - since < millis || window.annealFake.open > 0) {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      if (count() !== before) [before, since] = [count(), performance.now()];
    }
  }, millis);
}
