// Every page, with everything, with nothing and with everything broken: nobody is shut out, nothing runs over the edge,
// and nothing fails in silence. ANNEAL_SHOTS names a folder for pictures, if any are wanted.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
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
  { width: 900, height: 640, theme: "dark" },
];

const plain = ["home", "models", "data", "downloads", "train", "runs", "chat", "device", "bench", "settings"].map((page) => [page, { page }]);
const run = (id) => ({ page: "run", id });
const filled = { name: "Support tone", method: "lora", model: "SmolLM2-1.7B-Instruct", "data.files": "[/Users/mira/Documents/support.jsonl]" };

const model = (id) => ({ page: "repository", kind: "model", id });
const data = (id) => ({ page: "repository", kind: "data", id });
const longName = "a-remarkably-long-organisation-name/a-remarkably-long-model-name-with-everything-in-it-2026-11-checkpoint-000500-merged";
/** The Hub, where it can be asked and where it can't. */
const hub = [
  ["models-hub", { page: "models", tab: "hub" }],
  ["data-hub", { page: "data", tab: "hub" }],
  ["hub-model", model("HuggingFaceTB/SmolLM2-135M-Instruct")],
  ["hub-data", data("openai/gsm8k")],
];
const files = (page) => page.getByRole("radio", { name: "Files" }).check({ force: true });

/** A benchmark that waits or runs until it is stopped. */
const measure = (page, said) => page.getByRole("button", { name: /^Measure/ }).click().then(() => page.getByRole("main").getByText(said).waitFor());
const history = { page: "bench", part: "history" };

const revisions = (page) => page.getByRole("button", { name: "HuggingFaceTB/SmolLM2-360M-Instruct", exact: true }).click();

/** A run that does not fit is not started at once. */
const refuse = (page) => page.getByRole("button", { name: "Start", exact: true }).click().then(() => page.getByRole("button", { name: "Start anyway" }).waitFor());

const pages = {
  full: [
    ...plain,
    ["data-messages", { page: "data", id: "support-4b1e" }],
    ["data-mapped", { page: "data", id: "gsm8k-train-90ac" }],
    ["data-latin-1", { page: "data", id: "trec-77d0" }],
    ["data-gone", { page: "data", id: "the-complete-works-3c55" }],
    ["train-filled", { page: "train", filled }],
    ["train-too-large", { page: "train", filled: { ...filled, "batch.rows": "64", "batch.accumulate": "1" } }, refuse],
    ["train-scratch", { page: "train", filled: { method: "scratch", "data.files": "[/Users/mira/diary.txt]", steps: "9000" } }],
    ["run-running", run("2026-11-21-support-tone-7f3a")],
    ["run-waiting", run("2026-11-21-letters-aa01")],
    ["run-finished", run("2026-11-20-support-tone-3e90")],
    ["run-paused", run("2026-11-18-questions-55f2")],
    ["run-failed", run("2026-11-17-shakespeare-b2e7")],
    ["run-refused", run("2026-11-08-desk-77b0")],
    ["run-interrupted", run("2026-11-12-diary-9e11")],
    ["downloads-files", { page: "downloads" }, (page) => page.getByRole("button", { name: "Files of HuggingFaceTB/SmolLM2-1.7B-Instruct" }).click()],
    ["downloads-cancel", { page: "downloads" }, (page) => page.getByRole("button", { name: "Cancel: HuggingFaceTB/SmolLM2-1.7B-Instruct" }).click()],
    ["downloads-revisions", { page: "downloads" }, revisions],
    ["downloads-delete", { page: "downloads" }, async (page) => {
      await revisions(page);
      await page.getByRole("button", { name: "Delete main of HuggingFaceTB/SmolLM2-360M-Instruct" }).click();
    }],
    ["compare", { page: "compare", ids: ["2026-11-20-support-tone-3e90", "2026-11-15-tone-of-voice-0d3c", "2026-11-18-questions-55f2"] }],
    ["chat-run", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }],
    ["chat-markdown", { page: "chat", conversation: "2026-11-20-table" }],
    ["chat-beside", { page: "chat", conversation: "2026-11-21-parcel" }],
    ["bench-steps", { page: "bench" }, (page) => page.getByRole("button", { name: "LoRA step, bf16, 8 x 256 tokens: its steps" }).click()],
    ["bench-history", history],
    ["bench-published", { page: "bench", part: "published" }],
    ["bench-battery", history, (page) => page.getByRole("row", { name: /on battery/ }).getByRole("button").first().click()],
    ["bench-imported", history, (page) => page.getByRole("row", { name: /imported/ }).getByRole("button").first().click()],
    ["bench-compare", history, (page) => page.getByRole("row", { name: /on battery/ }).getByRole("button", { name: /^Compare/ }).click()],
    ["bench-delete", { page: "bench" }, (page) => page.getByRole("button", { name: "Delete" }).click()],
    ["bench-goes-on", { page: "bench" }, (page) => measure(page, /^9 of/), "&bench=stays"],
    ["bench-waits", { page: "bench" }, (page) => measure(page, /^Waits until/), "&bench=waits"],
    ...hub,
    ["models-hub-more", { page: "models", tab: "hub" }, (page) => page.getByRole("button", { name: "Show 30 more" }).click()],
    ["models-hub-none", { page: "models", tab: "hub" }, (page) => page.getByRole("searchbox").first().fill("nothing is called that")],
    ["hub-model-files", model("HuggingFaceTB/SmolLM2-1.7B-Instruct"), files],
    ["hub-model-here", model("HuggingFaceTB/SmolLM2-360M-Instruct")],
    ["hub-model-begun", model("Qwen/Qwen2.5-0.5B")],
    ["hub-model-gated", model("meta-llama/Llama-3.2-1B")],
    ["hub-model-gguf", model("TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF")],
    ["hub-model-pickle", model("openai-community/gpt2-medium-of-2019"), (page) => page.getByRole("button", { name: "Download pytorch_model.bin" }).click()],
    ["hub-model-strange", model("state-spaces/mamba-370m-hf")],
    ["hub-model-long", model(longName), files],
    ["hub-model-gone", model("nobody/nothing")],
    ["hub-data-rows", data("HuggingFaceFW/fineweb-edu"), (page) => page.getByRole("button", { name: "train", exact: true }).first().click()],
    ["hub-data-pictures", data("ylecun/mnist"), (page) => page.getByRole("button", { name: "train", exact: true }).click()],
    ["search", { page: "home" }, (page) => page.keyboard.press("Control+k")],
    ["leave", { page: "home" }, (page) => page.evaluate(() => window.annealFake.news({ kind: "quit_asked" }))],
  ],
  empty: [...plain, ["bench-waits", { page: "bench" }, (page) => measure(page, /^Waits until/), "&bench=waits"], ...hub, ["hub-model-gated", model("meta-llama/Llama-3.2-1B")]],
  broken: [
    ...plain,
    ...hub,
    ["train-filled", { page: "train", filled }],
    ["run", run("2026-11-21-support-tone-7f3a")],
    ["data-of", { page: "data", id: "support-4b1e" }],
    ["compare", { page: "compare", ids: ["2026-11-20-support-tone-3e90", "2026-11-15-tone-of-voice-0d3c"] }],
    ["chat-run", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }],
  ],
  offered: [
    ["home", { page: "home" }],
    ["train-measured", { page: "train", filled }, (page) => page.getByRole("button", { name: "Measure" }).click().then(() => page.getByText(/^measured/).first().waitFor())],
  ],
  offline: [
    ...hub,
    ["models", { page: "models" }],
    ["data", { page: "data" }],
    ["downloads", { page: "downloads" }],
    ["settings", { page: "settings" }],
  ],
};

if (shots) mkdirSync(shots, { recursive: true });

for (const [scene, names] of Object.entries(pages)) {
  test(`every page is whole and open to everyone: ${scene}`, { concurrency: 3 }, async (t) => {
    await Promise.all(names.map(([name, route, act, more]) => t.test(name, { timeout: 240_000 }, () => look(scene, name, route, act, more))));
  });
}

async function look(scene, name, route, act, more) {
  const { page, faults, close } = await open(route, { scene, more });
  const problems = [];
  try {
    if (act) {
      await act(page);
      await settled(page);
    }
    await page.evaluate(axe.source);
    for (const { width, height, theme, rules } of looks) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: theme });
      await settled(page, 30);
      const found = [...(rules ? await shutOut(page, rules) : []), ...(await tooWide(page))];
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
