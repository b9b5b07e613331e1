// How the window keeps up: it stays quick while a run does ten thousand steps a second, and with a hundred thousand shown.
//
// Another program can take the processor away at any time, so the best of a few tries counts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { open } from "./stage.mjs";

const going = { page: "run", id: "2026-11-21-support-tone-7f3a" };
const TRIES = 3;
const WATCHED = 2000;

/** Opens the run's page, lets it load, and watches the main thread for a while. */
async function watch(more, from) {
  const { page, faults, close } = await open(going, { more });
  try {
    await page.locator("main canvas").first().waitFor();
    const step = async () => Number((await page.getByRole("main").innerText()).match(/([\d,]+)\s+of\s+[\d,]+/)[1].replaceAll(",", ""));
    while ((await step()) < from) await page.waitForTimeout(100);
    await page.waitForTimeout(500);
    const seen = await page.evaluate(async (watched) => {
      const tasks = [];
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
      const frames = [];
      const end = performance.now() + watched;
      for (let last = performance.now(); last < end; ) {
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
      }
      return { tasks, frames };
    }, WATCHED);
    assert.deepEqual(faults, []);
    return { ...seen, step: await step() };
  } finally {
    close();
  }
}

async function best(more, from, isGood) {
  const tries = [];
  for (let turn = 0; turn < TRIES; turn += 1) {
    const seen = await watch(more, from);
    if (process.env.ANNEAL_PACE) console.log(say(seen));
    if (isGood(seen)) return seen;
    tries.push(say(seen));
  }
  assert.fail(tries.join("\n"));
}

const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? 0;
/** How long the window would have heard no key, in milliseconds beyond 50. */
const held = (tasks) => tasks.reduce((sum, task) => sum + task - 50, 0);

function say({ tasks, frames, step }) {
  const long = `${tasks.length} tasks over 50 ms, the longest ${Math.max(0, ...tasks).toFixed(0)} ms`;
  return `at step ${step}: ${long}; ${frames.length} frames in ${WATCHED} ms, 19 of 20 within ${percentile(frames, 0.95).toFixed(0)} ms`;
}

test("ten thousand steps a second never hold the window for 50 ms", { timeout: 120_000 }, async () => {
  const seen = await best("&rate=10000", 5_000, ({ tasks }) => held(tasks) < 0.01 * WATCHED);
  assert.ok(seen.step > 15_000, `only step ${seen.step} is shown`);
});

test("a run of a hundred thousand steps is drawn thirty times a second", { timeout: 120_000 }, async () => {
  const seen = await best("&points=100000&rate=300", 100_000, ({ frames }) => frames.length >= (30 * WATCHED) / 1000);
  assert.ok(seen.step >= 100_000, `only step ${seen.step} is shown`);
});
