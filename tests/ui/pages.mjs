// Every page, with everything, with nothing and with everything broken: nobody is shut out, nothing runs over the edge,
// and nothing fails in silence. ANNEAL_SHOTS names a folder for pictures, if any are wanted.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import axe from "axe-core";

import { open, settled } from "./stage.mjs";

const shots = process.env.ANNEAL_SHOTS;
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
const contrast = { "color-contrast": { enabled: false } };
/** The window as small as it gets and as it opens, in both themes, with the rules that each can break. */
const looks = [
  { width: 900, height: 640, theme: "light", rules: { runOnly: { type: "tag", values: tags } } },
  { width: 1280, height: 800, theme: "light", rules: { runOnly: { type: "tag", values: tags }, rules: contrast } },
  // A theme changes nothing but colours.
  { width: 1280, height: 800, theme: "dark", rules: { runOnly: { type: "rule", values: ["color-contrast"] } } },
  { width: 900, height: 640, theme: "dark", rules: { runOnly: { type: "rule", values: ["color-contrast"] } } },
  // The smallest window at twice the size.
  { width: 450, height: 320, theme: "light" },
];

/** Each page by the scenes it is looked at in: its route, what is done on it, and what the address asks for besides. */
const pages = JSON.parse(readFileSync(new URL("pages.json", import.meta.url), "utf8"));

/** What a person can do on a page, by the name of the step. */
const steps = {
  click: (page, name) => page.getByRole("button", { name: new RegExp(name) }).first().click(),
  inRow: (page, [row, name]) => page.getByRole("row", { name: new RegExp(row) }).getByRole("button", { name: new RegExp(name) }).first().click(),
  choose: (page, name) => page.getByRole("radio", { name }).check({ force: true }),
  unfold: (page, name) => page.locator("summary", { hasText: new RegExp(name) }).click(),
  tick: (page, name) => page.getByRole("checkbox", { name: new RegExp(name) }).check(),
  say: async (page, words) => {
    await page.getByRole("textbox", { name: "Message" }).fill(words);
    await page.keyboard.press("Enter");
  },
  fill: (page, words) => page.getByRole("searchbox").first().fill(words),
  press: (page, keys) => page.keyboard.press(keys),
  hear: (page, news) => page.evaluate((news) => window.annealFake.news(news), news),
  see: (page, words) => page.getByRole("main").getByText(new RegExp(words)).first().waitFor(),
};

if (shots) mkdirSync(shots, { recursive: true });

for (const scene of new Set(pages.flatMap(({ scenes }) => scenes))) {
  test(`every page is whole and open to everyone: ${scene}`, { concurrency: 3 }, async (t) => {
    const shown = pages.filter(({ scenes }) => scenes.includes(scene));
    await Promise.all(shown.map((it) => t.test(it.name, { timeout: 240_000 }, () => look(scene, it))));
  });
}

async function look(scene, { name, route, more, act = [] }) {
  const { page, faults, close } = await open(route, { scene, more });
  const problems = [];
  try {
    for (const step of act) {
      for (const [how, what] of Object.entries(step)) await steps[how](page, what);
    }
    if (act.length > 0) await settled(page);
    await page.evaluate(axe.source);
    for (const { width, height, theme, rules } of looks) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: theme });
      await settled(page, 30);
      const found = [...(rules ? await shutOut(page, rules) : []), ...(await tooWide(page)), ...(await odd(page))];
      problems.push(...found.map((problem) => `${width}x${height} ${theme}: ${problem}`));
      if (shots) await page.screenshot({ path: join(shots, `${scene}-${name}-${width}-${theme}.png`) });
    }
  } finally {
    close();
  }
  assert.deepEqual([...faults, ...problems], []);
}

/** What a person can't use who does not see, hear, point or tell colours apart. */
async function shutOut(page, rules) {
  const options = { ...rules, resultTypes: ["violations"] };
  const { violations } = await page.evaluate((options) => window.axe.run(document, options), options);
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, html, any }) => `${id}: ${target.join(" ")}: ${any[0]?.message ?? html.slice(0, 120)}`),
  );
}

/** What the app says in another way than it should: what is quoted of others, or written by a model, is not its own. */
function odd(page) {
  return page.evaluate(() => {
    const others = "code, pre, .mono, .path, blockquote, textarea, mark, [role=log], [translate=no], svg";
    const wrong = [
      ["a back-tick", /`/],
      ["a straight apostrophe", /[a-z]'[a-z]/i],
      ["one of several", /(?<![\d.,])1 (passes|steps|rows|tokens|runs|files|models|cores|epochs|checkpoints|downloads)\b/i],
    ];
    const said = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (!text.parentElement.closest(others)) said.push(text.textContent.trim());
    }
    for (const name of ["title", "aria-label", "aria-valuetext", "placeholder", "alt"]) {
      for (const it of document.body.querySelectorAll(`[${name}]`)) {
        // What quotes others in full is not said by the app either.
        if (!it.closest(others) && !it.querySelector("[translate=no]")) said.push(it.getAttribute(name));
      }
    }
    return said.flatMap((words) => wrong.filter(([, pattern]) => pattern.test(words)).map(([what]) => `${what}: ${words.slice(0, 80)}`));
  });
}

/** What would have to be scrolled sideways. Code and tables may, in their own frames. */
function tooWide(page) {
  return page.evaluate(() =>
    [document.documentElement, document.body, document.querySelector("main")]
      .filter((element) => element.scrollWidth > element.clientWidth)
      .map((element) => {
        const edge = element.getBoundingClientRect().left + element.clientWidth;
        const wide = [...element.querySelectorAll("*")].filter((it) => it.getBoundingClientRect().right > edge + 1);
        const first = wide[0];
        return `${element.localName} is ${element.scrollWidth} wide, has ${element.clientWidth}: <${first?.localName} class="${first?.className}"> ${first?.textContent.trim().slice(0, 60)}`;
      }),
  );
}
