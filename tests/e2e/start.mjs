// How long the window takes to open, and how much memory it holds. Prints a table; asserts nothing, since machines differ.
//
// `ANNEAL_PROGRAM=target/release/anneal xvfb-run --auto-servernum node tests/e2e/start.mjs [TIMES]`

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Window, until } from "./driver.mjs";

const times = Number(process.argv[2] ?? 7);
const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"]));
const seen = { "first paint": [], "home is there": [], "app, resident": [], "app, shared counted once": [], "app and web view, shared counted once": [] };

for (let at = 0; at < times; at += 1) {
  const home = mkdtempSync(join(tmpdir(), "anneal-start-"));
  const window = new Window(home);
  await window.open();
  await window.find("//p[contains(., 'Ready to train on')]");
  const [app] = window.processes().filter(({ isEngine }) => !isEngine);
  const started = startOf(app.id);
  // Moments of the page are counted from its origin, a time of day.
  const page = await window.run(`
    const at = (name) => performance.getEntriesByName(name)[0]?.startTime;
    return { origin: performance.timeOrigin, home: at("home"), paint: at("first-contentful-paint") };`);
  const since = (moment) => (moment === undefined || moment === null ? undefined : page.origin + moment - started);
  seen["first paint"].push(since(page.paint));
  seen["home is there"].push(since(page.home));
  // The first start checks the device beside; what is held after that is what is held for hours.
  await until(() => existsSync(join(home, "checks.json")), "the device was checked");
  await until(standsStill(app.id), "its memory stands still");
  seen["app, resident"].push(kilobytes(app.id, "Rss") / 1000);
  seen["app, shared counted once"].push(kilobytes(app.id, "Pss") / 1000);
  const all = [app.id, ...below(app.id)].filter((id) => id);
  seen["app and web view, shared counted once"].push(all.reduce((sum, id) => sum + kilobytes(id, "Pss"), 0) / 1000);
  await window.close();
  await until(() => window.processes().length === 0, "it is gone");
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

for (const [what, values] of Object.entries(seen)) {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (known.length === 0) continue;
  const unit = what.startsWith("app") ? "MB" : "ms";
  const figure = (value) => value.toFixed(0);
  console.log(`${what}: median ${figure(known[known.length >> 1])} ${unit}, ${figure(known[0])} to ${figure(known.at(-1))} (${known.length} times)`);
}

/** When a process began, as a time of day in milliseconds. */
function startOf(id) {
  const fields = readFileSync(`/proc/${id}/stat`, "utf8").split(") ")[1].split(" ");
  const boot = Number(readFileSync("/proc/stat", "utf8").match(/btime (\d+)/)[1]);
  const uptime = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]);
  // The time of boot is kept in whole seconds; the clock and the time since boot are finer.
  const fineBoot = Math.abs(Date.now() / 1000 - uptime - boot) < 5 ? Date.now() / 1000 - uptime : boot;
  return (fineBoot + Number(fields[19]) / ticksPerSecond) * 1000;
}

function kilobytes(id, what) {
  const text = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
  return Number(text.match(new RegExp(`^${what}:\\s+(\\d+)`, "m"))[1]);
}

/** Whether what a process holds is, look after look, the same to a hundredth. */
function standsStill(id) {
  const seen = [];
  return () => {
    seen.push(kilobytes(id, "Rss"));
    const last = seen.slice(-10);
    return last.length === 10 && Math.max(...last) < 1.01 * Math.min(...last);
  };
}

/** The processes that a process started, and those that these did. */
function below(id) {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      try {
        return { id: Number(name), parent: Number(readFileSync(`/proc/${name}/stat`, "utf8").split(") ")[1].split(" ")[1]) };
      } catch {
        return { id: Number(name), parent: 0 };
      }
    });
  const own = parents.filter(({ parent }) => parent === id).map(({ id }) => id);
  return own.flatMap((child) => [child, ...below(child)]);
}
