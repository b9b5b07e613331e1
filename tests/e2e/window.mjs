// Journeys through the real window, against its strict content policy.
//
// `xvfb-run --auto-servernum node --test tests/e2e/window.mjs`, with the program built and WINDOW_SHOTS naming a folder
// for pictures, if any are wanted.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Window, program, until } from "./driver.mjs";
import { serveModel } from "./hub.mjs";
import { photo, photos } from "./pictures.mjs";

/** Keys, as the driver's protocol writes them. */
const [TAB, ENTER, CONTROL, UP, RIGHT, DOWN] = ["\uE004", "\uE007", "\uE009", "\uE013", "\uE014", "\uE015"];

const TIMEOUT = { timeout: 240_000 };

test("a newcomer starts a first model, watches it, and talks to it", TIMEOUT, async (journey) => {
  const window = await opened(journey);
  await window.find("//p[contains(., 'Ready to train on')]");
  await window.find("//h1[contains(., 'Welcome to Anneal')]");
  await window.picture("first-start");

  await window.click("//button[. = 'Start' and not(@disabled)]");
  await window.find("//h1[contains(., 'starter')]");
  const first = await step(window);
  await until(async () => (await step(window)) > first + 20, "steps are done");

  // A page that is loaded anew follows the run from its beginning.
  await window.reload();
  await window.click("//aside//button[contains(., 'starter')]");
  await until(async () => (await step(window)) > first + 20, "the page knows the run again");
  await window.picture("run");

  await window.click("//button[. = 'Stop and save']");
  await badge(window, "Stopped");
  const stopped = await step(window);
  await window.click("//button[. = 'Resume']");
  await window.find(`//li[contains(., 'Resumed at step ${stopped}')]`);
  await until(async () => (await step(window)) > stopped, "steps continue");

  // What was saved is used for chat while the run is running.
  await window.click("//button[. = 'Try it now']");
  await say(window, "What is 2 plus 3?");
  await answered(window, 1);
  await window.picture("chat");

  // The window asks before it closes over a run.
  await window.run("window.dispatchEvent(new KeyboardEvent('keydown', { key: 'q', ctrlKey: true }))");
  await window.find("//dialog//h2[contains(., '“starter” is still training')]");
  await window.picture("leave");
  await window.click("//dialog//button[. = 'Cancel']");
});

test("data is added, trained on through a pause and the death of its engine, and compared with the model it came from", TIMEOUT, async (journey) => {
  const home = newHome();
  makeBaseModel(home);
  const window = await opened(journey, home);

  await pasteData(window, 60, (row) => ({ problem: `${row} plus 1?`, solution: `${row + 1}` }));

  // Columns that nobody knows are an error that says what to do, and a click does it.
  await window.find("//*[@role = 'alert']");
  await window.picture("data-unmapped");
  await window.click("//button[contains(., 'problem') and contains(., 'solution')]");
  await window.find("//*[contains(., '60')]");
  await window.picture("data");

  await fillRun(window, 150);
  await window.find("//*[contains(., 'estimated')]");
  await window.click("//button[. = 'Measure']");
  await window.find("//*[contains(., 'measured')]");
  await window.picture("train");
  await window.click("//button[. = 'Start' and not(@disabled)]");

  await until(async () => (await step(window)) > 5, "steps are done");
  await window.click("//button[. = 'Pause']");
  await badge(window, "Paused");
  const paused = await step(window);
  await window.click("//button[. = 'Resume']");
  await until(async () => (await step(window)) > paused, "steps continue");

  const engine = window.processes().find(({ isEngine }) => isEngine);
  process.kill(engine.id, "SIGKILL");
  // Another engine continues by itself, and the run says so.
  await window.find("//li[contains(., 'another resumes from step')]");
  await window.picture("another-engine");
  await badge(window, "Finished");
  await window.picture("finished");

  await window.click("//header//button[. = 'Chat']");
  await window.click("//label[contains(., 'Side by side')]");
  await say(window, "3 plus 1?");
  await answered(window, 2);
  await window.picture("side-by-side");
});

test("a run outlives its window, and the death of its app", TIMEOUT, async (journey) => {
  const window = await opened(journey);
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await until(async () => (await step(window)) > 10, "steps are done");
  await window.kill();

  await window.open();
  await window.find("//ul[@aria-label = 'Runs to resume'][contains(., 'starter')]");
  await window.picture("offer");
  await window.click("//button[. = 'Resume']");
  await window.find("//li[contains(., 'Resumed at step')]");

  // The window goes and the run continues. Another start shows this window instead of opening a second one.
  const before = await step(window);
  await window.run("window.dispatchEvent(new KeyboardEvent('keydown', { key: 'q', ctrlKey: true }))");
  await window.click("//dialog//button[. = 'Keep in the background']");
  await until(async () => (await window.run("return document.visibilityState")) === "hidden", "the window is gone");
  execFileSync(program, [], { env: { ...process.env, ANNEAL_HOME: window.home } });
  await until(async () => (await window.run("return document.visibilityState")) === "visible", "the window is back");
  assert.equal(window.processes().filter(({ isEngine }) => !isEngine).length, 1);
  await until(async () => (await step(window)) > before, "the run continued");
  // A window that was hidden does not always take the driver's pointer on a busy machine.
  await window.run("[...document.querySelectorAll('button')].find((it) => it.textContent.trim() === 'Stop and save').click()");
  await badge(window, "Stopped");
});

test("a model comes from the Hub, through a pause, and is used for chat", TIMEOUT, async (journey) => {
  const home = newHome();
  makeBaseModel(home);
  const hub = await serveModel("maker/tiny", join(home, "models", "tiny"));
  journey.after(hub.end);
  rmSync(join(home, "models"), { recursive: true });
  const window = await opened(journey, home, { HF_ENDPOINT: hub.address, HF_HUB_OFFLINE: "" });

  await window.goTo("Models");
  await window.click("//label[contains(., 'On the Hub')]");
  await window.click("//button[contains(., 'tiny')]");
  await window.find("//h1[contains(., 'maker/tiny')]");
  await window.picture("hub-model");
  await window.click("//button[contains(., 'Download ')]");
  await window.click("//button[. = 'Pause']");
  await window.click("//aside//button[contains(., 'paused')]");
  await window.find("//h1[contains(., 'Activity')]");
  await window.picture("hub-paused");
  await window.click("//button[. = 'Resume']");
  await window.click("//button[contains(., 'Chat')]");
  await say(window, "Say 3.");
  await answered(window, 1);
  await window.goTo("Models");
  await window.find("//*[contains(., 'in the shared cache')]");
});

test("a device is checked once by itself, and measured when somebody asks", TIMEOUT, async (journey) => {
  const window = await opened(journey);
  await window.goTo("Device");
  await window.find("//section//strong[contains(., 'Ready to train on')]");
  await window.find("//dt[. = 'No run on several devices']");
  await window.picture("checked");

  await window.goTo("Benchmark");
  await window.click("//button[. = 'Measure']");
  await window.find("//th[contains(., 'Matrix product')]");
  await window.click("//button[. = 'Stop']");
  await window.find("//*[contains(., 'Stopped before the end.')]");
  await window.find("//button[. = 'Measure again']");
  await window.picture("measured");
});

test("a file in another encoding is dropped, breaks nothing, is read rightly with one click, trained on", TIMEOUT, async (journey) => {
  const home = newHome();
  const file = join(home, "fragen.csv");
  const rows = Array.from({ length: 40 }, (_, row) => `Wo liegt K\xf6ln ${row}?,Am Rhein ${row}\n`);
  writeFileSync(file, Buffer.from(`question,answer\n${rows.join("")}`, "latin1"));
  const window = await opened(journey, home);
  await addData(window, file);
  await window.find("//*[@role = 'alert'][contains(., 'UTF-8')]");
  await window.picture("bad-file");
  await window.goTo("Train");
  await window.find("//button[. = 'Start' and @disabled]");
  for (const page of ["Models", "Runs", "Playground", "Activity", "Device"]) {
    await window.goTo(page);
    await window.find(`//h1[contains(., '${page}')]`);
  }

  makeBaseModel(home);
  await window.goTo("Data");
  await window.click("//button[contains(., 'Read it as')]");
  await window.find("//*[contains(., 'Köln')]");
  await until(async () => (await window.run("return document.querySelectorAll('[role=alert]').length")) === 0, "nothing is refused any more");
  await window.picture("repaired");
  await fillRun(window, 4);
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await badge(window, "Finished");

  // What it learned can go elsewhere: every format says how large it would be.
  await window.click("//button[. = 'Export…']");
  for (const format of ["Adapter", "Merged model", "GGUF Q8_0", "MLX 4-bit"]) await window.find(`//dialog//label[contains(., '${format}') and (contains(., 'kB') or contains(., 'MB'))]`);
  await window.picture("export");
  await window.click("//dialog//button[. = 'Close']");
});

test("the keyboard alone leads from the first start to a finished run", TIMEOUT, async (journey) => {
  const window = await opened(journey);
  await window.find("//h1[contains(., 'Welcome to Anneal')]");
  const rows = Array.from({ length: 12 }, (_, row) => JSON.stringify({ prompt: `Say ${row}.`, completion: `It is ${row}.` }));

  await window.press(`${CONTROL}5`);
  await window.find("//h1[contains(., 'Data')]");
  await tabTo(window, "Paste text");
  await window.press(ENTER);
  await tabTo(window, "Text");
  for (const row of rows) await window.press(`${row}\n`);
  await tabTo(window, "Add");
  await window.press(ENTER);
  await tabTo(window, "Train with it");
  await window.press(ENTER);

  await window.find("//h1[contains(., 'Train')]");
  await tabTo(window, "Fine-tune");
  await window.press(RIGHT);
  await tabTo(window, "Micro");
  await window.press(UP);
  await tabTo(window, "Counted in");
  await window.press(DOWN);
  await window.run("document.activeElement.value = 'steps'; document.activeElement.dispatchEvent(new Event('change', { bubbles: true }))");
  await tabTo(window, "Duration");
  await window.press("20");
  await until(() => window.run("return [...document.querySelectorAll('button')].some((it) => it.textContent.trim() === 'Start' && !it.disabled)"), "it can start");
  await tabTo(window, "Start");
  await window.press(ENTER);
  await badge(window, "Finished");
  await window.picture("by-keyboard");
});

test("puzzles are made, learned for a few steps, and one is solved step by step", TIMEOUT, async (journey) => {
  const window = await opened(journey);
  await window.goTo("Train");
  await window.click("//label[contains(., 'Puzzles')]");
  await window.click("//button[. = 'Make puzzles']");
  await window.find("//p[contains(., '300 to learn from')]");
  await window.picture("puzzles-made");
  await window.click("//option[. = 'steps']");
  await window.fill("//label[. = 'Duration']/..//input", "3");
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await badge(window, "Finished");
  await window.find("//h2[contains(., 'Held-out puzzles')]");
  await window.find("//*[@role = 'img'][contains(@aria-label, 'Puzzle 1 after step')]");
  await window.picture("puzzles-learned");

  // After so few steps it knows little, and shows all it thought.
  await window.click("//header//button[. = 'Solve']");
  await window.click("//button[. = 'Held-out puzzle']");
  await window.click("//header//button[. = 'Solve' and not(@disabled)]");
  await window.find("//p[starts-with(., 'Solved at step') or . = 'Not solved']");
  await window.click("//button[@aria-label = 'Show step 2']");
  const shown = await window.run(`return document.querySelector('[aria-label="Step of thinking"]').value`);
  assert.equal(shown, "2");
  await window.picture("puzzle-solved");

  // A puzzle that is typed is another one, and one that breaks a rule is not solved.
  await window.click("//button[. = 'Clear']");
  await window.click("//*[@role = 'gridcell'][1]");
  await window.press("33");
  await window.find("//p[. = 'Two cells contradict each other']");
  await window.goTo("Data");
  await window.find("//dd[contains(., '4 × 4')]");
  await window.picture("puzzle-data");
});

test("a labelled file becomes probes beside what its words say, which shade an answer", TIMEOUT, async (journey) => {
  const home = newHome();
  makeBaseModel(home);
  const file = join(home, "moods.jsonl");
  const [things, moods] = [["dog", "train", "letter", "garden", "kettle"], { glad: ["shines", "sings", "wins"], sad: ["breaks", "rusts", "weeps"] }];
  const rows = Array.from({ length: 120 }, (_, row) => {
    const label = row % 2 === 0 ? "glad" : "sad";
    return JSON.stringify({ text: `The ${things[row % 5]} of house ${row} ${moods[label][row % 3]}.`, label });
  });
  writeFileSync(file, rows.join("\n"));
  const window = await opened(journey, home);
  await addData(window, file);

  await window.goTo("Train");
  await window.click("//label[contains(., 'Probe')]");
  await window.click("//button[. = 'Use tiny']");
  await window.click("//option[contains(., 'moods')]");
  await window.find("//*[contains(., 'glad')]/*[. = '60']");
  await window.picture("probes-form");
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await badge(window, "Finished");
  await window.find("//h2[contains(., 'Labels by site')]");
  await window.find("//*[contains(., 'words alone')]");
  await window.picture("probes-found");
  await window.fill("//label[contains(., 'First text')]/textarea", "The dog of house 7 sings.");
  await window.fill("//label[contains(., 'Second text')]/textarea", "The dog of house 7 weeps.");
  await window.click("//button[. = 'Compare' and not(@disabled)]");
  await window.find("//table[.//th[. = 'Difference']]//th[. = 'glad']");
  await window.picture("probes-compared");

  await window.click("//header//button[. = 'Use in Playground']");
  await window.find("//button[. = 'Probes · 2' and not(@disabled)]");
  await say(window, "Say 7.");
  await answered(window, 1);
  await window.find("//*[contains(., 'Stronger is a higher score')]");
  await window.picture("probes-shade");
});

test("a folder of photos is looked at, learned from, and a new photo is classified with what speaks for it", TIMEOUT, async (journey) => {
  const home = newHome();
  const folder = join(home, "weather");
  photos(folder, 40);
  // A photo that is there twice, under both names.
  writeFileSync(join(folder, "tree", "wrong.png"), photo("sun", 0));
  const window = await opened(journey, home);
  await addData(window, folder);
  await window.find("//dd[. = '81']");
  await window.find("//li/button[contains(., 'sun') and contains(., '40')]");
  await window.find("//*[@role = 'img'][@aria-label = 'sun: sun/0.png']//canvas");
  await window.picture("pictures-data");
  await window.click("//label[contains(., 'Checkup · 1')]");
  await window.find("//h3[contains(., 'in two classes')]");
  await window.picture("pictures-checkup");
  rmSync(join(folder, "tree", "wrong.png"));

  await window.clickUntil("//button[. = 'Train with it']", "//*[@role = 'img'][contains(@aria-label, ', mirrored')]");
  await window.click("//label[normalize-space() = 'Small']");
  await window.click("//option[. = 'steps']");
  await window.fill("//label[. = 'Duration']/..//input", "60");
  await window.picture("pictures-form");
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await badge(window, "Finished");
  await window.find("//h2[contains(., 'Held-out pictures')]");
  await window.find("//*[@role = 'gridcell'][starts-with(@aria-label, 'sun, said to be sun')]");
  await window.find("//p[contains(., 'new pictures: ')]");
  await window.picture("pictures-learned");

  // The driver can't drop a file: it is pasted, with its bytes.
  await window.click("//header//button[. = 'Classify']");
  await window.find("//h2[. = 'Drop pictures here']");
  const paste = `
    const bytes = Uint8Array.from(atob(arguments[0]), (letter) => letter.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], 'new.png', { type: 'image/png' }));
    window.dispatchEvent(new ClipboardEvent('paste', { clipboardData }));`;
  await window.run(paste, photo("sun", 5000).toString("base64"));
  await window.find("//*[@role = 'img'][@aria-label = 'new.png, with what speaks for sun']");
  assert.equal(await window.text("//section[@aria-label = 'Answer']//p[contains(@class, 'first')]"), "sun");
  await window.picture("picture-classified");
});

test("a GGUF file is added, trained on and exported as another, and the server writes what the Playground does", TIMEOUT, async (journey) => {
  const home = newHome();
  makeBaseModel(home, 120);
  const file = join(home, "tiny-q8_0.gguf");
  execFileSync(program, ["export", join(home, "models", "tiny"), "--home", home, "--to", "gguf-q8_0", "--out", file], { stdio: "ignore" });
  rmSync(join(home, "models"), { recursive: true });
  // An export to LM Studio asks for no place in a dialog of the system, which the driver can’t use.
  const studio = join(home, ".lmstudio", "models");
  mkdirSync(studio, { recursive: true });
  const window = await opened(journey, home, { HOME: home });
  await window.run("return window.__TAURI_INTERNALS__.invoke('import_model', { path: arguments[0] })", file);
  await window.goTo("Models");
  await window.find("//*[contains(., 'tiny-q8_0')]");
  await window.picture("gguf-model");

  await pasteData(window, 40, (row) => ({ prompt: `Say ${row}.`, completion: `${row} it is.` }));
  await fillRun(window, 20);
  await window.click("//button[. = 'Start' and not(@disabled)]");
  await badge(window, "Finished");

  await window.click("//button[. = 'Export…']");
  await window.click("//dialog//label[contains(., 'GGUF Q8_0')]");
  await window.click("//dialog//button[. = 'Export to LM Studio']");
  await window.find("//dialog//p[. = 'Exported, reopened and compared']");
  await window.picture("gguf-exported");
  const exported = await window.text("//dialog//p[contains(@class, 'path')]");
  assert.ok(exported.startsWith(studio), exported);
  await window.click("//dialog//button[. = 'Close']");

  // Of the run, the Playground and the server write the same.
  await window.click("//header//button[. = 'Chat']");
  await window.click("//label[normalize-space() = 'Precise']");
  await say(window, "Say 7.");
  await answered(window, 1);
  await window.picture("gguf-chat");
  const folder = join(home, "conversations");
  const written = await until(() => readFileSync(join(folder, readdirSync(folder)[0]), "utf8"), "the conversation is kept");
  await window.goTo("Server");
  await window.click("//button[. = 'Start server' and not(@disabled)]");
  const address = await until(() => window.run("return document.querySelector('code[title^=http]').title"), "the server has an address");
  const body = { messages: [{ role: "user", content: "Say 7." }], temperature: 0, max_tokens: 12 };
  const reply = await fetch(`${address}/chat/completions`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  assert.equal(reply.status, 200);
  const { choices } = await reply.json();
  await window.find("//td[. = 'POST /v1/chat/completions']");
  await window.picture("gguf-served");
  const served = choices[0].message.content;
  const [{ answer: said }] = JSON.parse(written).turns;
  assert.ok(served.trim() !== "" && said.startsWith(served), `the server wrote “${served}”, the Playground “${said}”`);
});

test("in the dark, words can be read on every page, also where web views draw white of their own", TIMEOUT, async (journey) => {
  const home = newHome();
  writeFileSync(join(home, "settings.yaml"), "theme: dark\n");
  const window = await opened(journey, home);
  await window.find("//p[contains(., 'Ready to train on')]");
  for (const page of ["Home", "Train", "Runs", "Models", "Data", "Playground", "Server", "Benchmark"]) {
    await window.goTo(page);
    const { ground, faint } = await window.run(`return (${readable})()`);
    await window.picture(`dark-${page.toLowerCase()}`);
    assert.ok(ground < 0.1, `${page} is as bright as ${ground}`);
    assert.deepEqual(faint, [], page);
  }
});

/** A window that is closed, and its home removed, when the journey ends. */
async function opened(journey, home = newHome(), environment = {}) {
  const window = new Window(home, environment);
  journey.after(async () => {
    await window.close();
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  });
  await window.open();
  return window;
}

/** Runs in the page: how bright it is, from 0 to 1, and the words that stand out from what is behind them by less than 4.5 to 1. */
function readable() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const paint = canvas.getContext("2d", { willReadFrequently: true });
  const luminance = (colours) => {
    for (const colour of colours) {
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 1, 1);
    }
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = [...paint.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    const colours = [];
    for (let at = element; at; at = at.parentElement) colours.unshift(getComputedStyle(at).backgroundColor);
    return ["white", ...colours];
  };
  const speaks = (element) =>
    element.matches("input, select, textarea") || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  const faint = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (!speaks(element) || element.closest("svg, :disabled, [hidden]") || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const ground = behind(element);
    const [dark, light] = [luminance(ground), luminance([...ground, getComputedStyle(element).color])].sort((one, other) => one - other);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) faint.push(`${element.tagName} “${(element.value ?? element.textContent).trim().slice(0, 40)}” ${contrast.toFixed(2)}`);
  }
  return { ground: luminance(behind(document.body)), faint };
}

function newHome() {
  return mkdtempSync(join(tmpdir(), "anneal-window-"));
}

/** A model to start from, trained from scratch for so many steps, where the app keeps its models. */
function makeBaseModel(home, steps = 3) {
  const folder = mkdtempSync(join(tmpdir(), "anneal-base-"));
  const data = join(folder, "talk.jsonl");
  const rows = Array.from({ length: 60 }, (_, row) => JSON.stringify({ prompt: `Say ${row}.`, completion: `It is ${row}.` }));
  writeFileSync(data, rows.join("\n"));
  const settings = [`steps=${steps}`, "scratch.preset=nano", "scratch.vocab_size=300", "evaluate.every=0", "sample.every=0"];
  const words = ["train", "--home", folder, "--data", data, "--quiet", "--device", "cpu"];
  execFileSync(program, [...words, ...settings.flatMap((setting) => ["--set", setting])], { stdio: "ignore" });
  const checkpoints = join(folder, "runs", readdirSync(join(folder, "runs"))[0], "checkpoints");
  mkdirSync(join(home, "models"), { recursive: true });
  cpSync(join(checkpoints, readdirSync(checkpoints).sort().at(-1)), join(home, "models", "tiny"), { recursive: true });
  rmSync(folder, { recursive: true });
}

/** Presses Tab until what has this name has the focus. */
async function tabTo(window, name) {
  const named = `
    const it = document.activeElement;
    const label = it.getAttribute("aria-label") ?? it.labels?.[0]?.textContent ?? it.textContent;
    return label.trim().startsWith(arguments[0]);`;
  for (let turn = 0; turn < 150; turn += 1) {
    if (await window.run(named, name)) return;
    // What has the focus may be drawn anew at this moment.
    await window.press(TAB).catch(() => undefined);
  }
  assert.fail(`Tab never reaches ${name}`);
}

/** Adds a file, and looks at it. The driver can’t drop one: it is added by the command that a drop ends in. */
async function addData(window, file) {
  await window.goTo("Data");
  await window.run("return window.__TAURI_INTERNALS__.invoke('add_data', { path: arguments[0] })", file);
  await window.goTo("Home");
  await window.goTo("Data");
}

/** Adds so many rows as text that is pasted. */
async function pasteData(window, count, rowOf) {
  const rows = Array.from({ length: count }, (_, row) => JSON.stringify(rowOf(row)));
  await window.goTo("Data");
  await window.click("//button[. = 'Paste text']");
  await window.run("const field = document.querySelector('dialog textarea'); field.value = arguments[0]; field.dispatchEvent(new Event('input', { bubbles: true }))", rows.join("\n"));
  await window.click("//dialog//button[. = 'Add']");
}

/** Fills the form of a run on the data that is looked at: the tiny model, and so many steps. */
async function fillRun(window, steps) {
  await window.clickUntil("//button[. = 'Train with it']", "//option[. = 'steps']");
  await window.click("//option[contains(., 'tiny')]");
  await window.click("//option[. = 'steps']");
  await window.fill("//label[. = 'Duration']/..//input", `${steps}`);
}

/** The step a run's page shows. */
async function step(window) {
  const text = await window.text("//dt[contains(., 'step')]/../dd");
  return Number(text.split(" ")[0].replaceAll(",", ""));
}

async function badge(window, text) {
  await window.find(`//header//*[. = '${text}']`);
}

async function say(window, words) {
  await window.fill("//textarea[@aria-label = 'Message']", words);
  await window.click("//button[. = 'Send' and not(@disabled)]");
}

/** Waits until so many have answered: each says how many tokens it wrote. */
async function answered(window, count) {
  const said = "return [...document.querySelectorAll('[role = log] .foot')].filter((it) => /^[\\d,]+ tokens?/.test(it.innerText)).length";
  await until(async () => (await window.run(said)) >= count, `${count} answered`);
}
