// A test as a sentence, and what its steps are made of.

import assert from "node:assert/strict";
import { test } from "node:test";

import { open } from "./stage.mjs";

/** How long anything may take, in milliseconds. A machine that also compiles is slow. */
const TIMEOUT = 30_000;

/** Opens a page, does something on it, and demands that nothing went wrong meanwhile. */
export function scenario(sentence, route, act, options) {
  test(sentence, { timeout: 6 * TIMEOUT }, async () => {
    const { page, faults, close } = await open(route, options);
    page.setDefaultTimeout(TIMEOUT);
    try {
      await act(page);
      assert.deepEqual(faults, []);
    } finally {
      close();
    }
  });
}

/** The page of the run that is running, and the step it shows. */
export const going = { page: "run", id: "2026-11-21-support-tone-7f3a" };
export const stepOf = async (page) => Number((await page.getByRole("main").innerText()).match(/([\d,]+)\s+of\s+[\d,]+/)[1].replaceAll(",", ""));

export const heading = (page) => page.getByRole("heading", { level: 1 });
/** How what a page is about stands, beside its title. */
export const status = (page) => page.locator("header .badge");
export const news = (page, what) => page.evaluate((what) => window.annealFake.news(what), what);
export const asked = (page, command) =>
  page.evaluate((command) => window.annealFake.asked.filter(([name]) => name === command).map(([, given]) => given), command);

export async function shows(locator, words) {
  await locator.filter({ hasText: words }).first().waitFor();
}

/** Asks again and again until the answer is as wanted, and returns it. */
export async function until(ask, isGood) {
  const end = Date.now() + TIMEOUT;
  for (;;) {
    const answer = await ask();
    if (isGood(answer)) return answer;
    assert.ok(Date.now() < end, `still ${JSON.stringify(answer)}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
