// What a person comes for: a run from its data to a talk with it.

import assert from "node:assert/strict";
import { describe } from "node:test";

import { asked, going, heading, scenario, shows, status, until } from "./scenario.mjs";

const filled = { name: "My run", method: "lora", model: "SmolLM2-1.7B-Instruct", "data.files": "[/Users/mira/Documents/support.jsonl]" };
const button = (page, name) => page.getByRole("main").getByRole("button", { name, exact: true });

describe("a person", { concurrency: 2 }, () => {
  scenario("takes what is proposed for data that can't be read, and trains with it", { page: "data", id: "trec-77d0" }, async (page) => {
    await shows(page.getByRole("alert"), "not UTF-8 at byte 425");
    await page.getByRole("button", { name: "Read it as Latin-1" }).click();
    await until(() => asked(page, "changeData"), (all) => all.at(-1)?.[1].encoding === "latin-1");
    await page.getByText("How far is it from Denver to Aspen").first().waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await button(page, "Train with it").click();
    await shows(heading(page), "Train");
    await until(() => asked(page, "planRun"), (all) => all.at(-1)?.[0]["data.encoding"] === "latin-1");
  });

  scenario("starts a run that waits for the one that is running", { page: "train", filled }, async (page) => {
    await page.getByText("14.3 GB").first().waitFor();
    await button(page, "Start").click();
    await shows(heading(page), "My run");
    await shows(status(page), "Waiting");
    assert.equal((await asked(page, "startRun")).length, 1);
  });

  scenario("is offered what makes a run fit, one click each", { page: "train", filled: { ...filled, "batch.rows": "2" } }, async (page) => {
    await button(page, "Start").click();
    await button(page, "Start anyway").waitFor();
    assert.equal((await asked(page, "startRun")).length, 0);
    await page.getByRole("main").getByRole("button", { name: "Gradient checkpointing: 50 % slower" }).click();
    await until(() => button(page, "Start anyway").count(), (count) => count === 0);
    await until(() => asked(page, "planRun"), (all) => all.at(-1)?.[0].gradient_checkpointing === "true");
    await button(page, "Start").click();
    await shows(heading(page), "My run");
    assert.deepEqual((await asked(page, "startRun")).map(([, force]) => force), [false]);
  });

  scenario("can start a run anyway that does not fit", { page: "train", filled: { ...filled, "batch.rows": "2" } }, async (page) => {
    await button(page, "Start").click();
    await button(page, "Start anyway").click();
    await shows(heading(page), "My run");
    assert.deepEqual((await asked(page, "startRun")).map(([, force]) => force), [true]);
  });

  scenario("is told at the field what is wrong with it, and can't start", { page: "train", filled: { ...filled, learning_rate: "20" } }, async (page) => {
    const rate = page.getByRole("textbox", { name: "Learning rate", exact: true });
    await rate.waitFor();
    await until(() => rate.getAttribute("aria-invalid"), (invalid) => invalid === "true");
    assert.ok(await button(page, "Start").isDisabled());
    await rate.fill("2e-4");
    await until(() => button(page, "Start").isEnabled(), Boolean);
  });

  scenario("pauses a run, continues with it, and stops it", going, async (page) => {
    await button(page, "Pause").click();
    await shows(status(page), "Paused");
    await button(page, "Resume").click();
    await shows(status(page), "Running");
    await button(page, "Stop and save").click();
    await shows(status(page), "Stopped");
    // The next in line has begun.
    await page.getByRole("complementary").getByText("Sums, step by step").waitFor();
  });

  scenario("continues with a run whose data changed only when that is insisted on", { page: "run", id: "2026-11-08-desk-77b0" }, async (page) => {
    await shows(page.getByRole("alert"), "is not what it was when the run began");
    await button(page, "Resume").click();
    await until(() => asked(page, "resumeRun"), (all) => all.length === 1);
    const insists = button(page, "Resume anyway");
    await until(() => insists.isEnabled(), (enabled) => enabled);
    await insists.click();
    await until(() => asked(page, "resumeRun"), (all) => all.length === 2);
    assert.deepEqual(await asked(page, "resumeRun"), [["2026-11-08-desk-77b0", false], ["2026-11-08-desk-77b0", true]]);
    await shows(status(page), "Waiting");
  });

  scenario("looks into the settings of a run in the words of the form, and comes back", { page: "run", id: "2026-11-20-support-tone-3e90" }, async (page) => {
    const settings = button(page, "Settings of the run");
    await settings.click();
    const panel = page.getByRole("dialog", { name: "Settings of Support tone" });
    await panel.getByText("Adapter rank").waitFor();
    assert.equal(await panel.getByText("lora.rank").count(), 0);
    await panel.getByRole("searchbox").fill("learning rate");
    await until(() => panel.getByText("Adapter rank").count(), (count) => count === 0);
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    assert.ok(await settings.evaluate((it) => it === document.activeElement));
  });

  scenario("finds a run among others by words", { page: "runs" }, async (page) => {
    await page.getByRole("searchbox", { name: "Search runs" }).fill("shakespeare rate");
    // One, and the head of the table.
    await until(() => page.getByRole("table").getByRole("row").count(), (rows) => rows === 2);
    await page.getByText("Shakespeare at a high rate").first().waitFor();
  });

  scenario("exports a run with the keyboard, and finds what was measured when the dialog is opened again", { page: "run", id: "2026-11-20-support-tone-3e90" }, async (page) => {
    await button(page, "Export…").click();
    const dialog = page.getByRole("dialog", { name: "Export “Support tone”" });
    const chosen = () => page.evaluate(() => document.activeElement.value);
    await until(chosen, (format) => format === "gguf-q8_0");
    for (const format of ["gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m"]) {
      await page.keyboard.press("ArrowUp");
      await until(chosen, (now) => now === format);
    }
    await dialog.getByRole("button", { name: "Export", exact: true }).press("Enter");
    await dialog.getByText("Exported, reopened and compared").waitFor();
    // The model, the format, where to, and that nothing is insisted on.
    assert.deepEqual((await asked(page, "exportModel"))[0].slice(0, 4), ["2026-11-20-support-tone-3e90", "gguf-q4_k_m", "/Users/mira/Documents/Support-tone-Q4_K_M.gguf", false]);
    await dialog.getByText("Loss 0.732 → 0.744").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await button(page, "Export…").click();
    await dialog.getByText("Loss 0.732 → 0.744").waitFor();
  });

  scenario("talks to a model: the answer grows, can be stopped, and is kept", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, async (page) => {
    const message = page.getByRole("textbox", { name: /message/i });
    await message.fill("Where is my order?");
    await page.keyboard.press("Enter");
    await page.getByText("Here is").first().waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText(/stopped/).first().waitFor();
    await until(() => asked(page, "saveConversation"), (all) => all.length > 0);
    const [[kept]] = await asked(page, "saveConversation");
    assert.equal(kept.turns[0].said, "Where is my order?");
    assert.match(kept.turns[0].answer, /^Here is/);
  });

  scenario("reads an answer with a table, code and links, and a link opens elsewhere", { page: "chat", conversation: "2026-11-20-table" }, async (page) => {
    await page.getByRole("main").getByRole("table").waitFor();
    await page.getByRole("main").locator("pre code").waitFor();
    const before = page.url();
    await page.getByRole("link", { name: "link" }).click();
    await until(() => asked(page, "openLink"), (all) => all.length === 1);
    assert.deepEqual(await asked(page, "openLink"), [["https://example.org/guide"]]);
    assert.equal(page.url(), before);
  });

  scenario("hears what went wrong with an answer, and loses nothing that was typed", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, async (page) => {
    const message = page.getByRole("textbox", { name: /message/i });
    await message.fill("This will fail");
    await page.keyboard.press("Enter");
    await shows(page.getByRole("alert"), "out of memory");
    await until(() => message.inputValue(), (text) => text === "This will fail");
  });

  scenario("finds something to chat with, opens it beside a run when told to, and finds another by its name", { page: "chat" }, async (page) => {
    await shows(heading(page), "Support tone");
    await shows(page.locator("header"), "Step 2,000 · SmolLM2-1.7B-Instruct");
    await button(page, "Open Support tone").click();
    const message = page.getByRole("textbox", { name: "Message" });
    await until(() => message.evaluate((field) => field === document.activeElement), Boolean);
    await button(page, "Change model").click();
    await page.keyboard.type("135");
    await shows(page.getByRole("option"), "SmolLM2-135M-Instruct");
    await page.keyboard.press("Enter");
    await shows(heading(page), "SmolLM2-135M-Instruct");
    await until(() => asked(page, "openChat"), (all) => /135M/.test(all.at(-1)?.[1]));
    await button(page, "Back").click();
    await shows(heading(page), "Support tone");
  });

  scenario("comes back to a conversation as it was left", { page: "chat" }, async (page) => {
    await button(page, "A table of units, a formula, code and everything else that Markdown can do, in one very long title that does not end").click();
    await shows(heading(page), "SmolLM2-1.7B-Instruct");
    await page.getByRole("textbox", { name: "Message" }).fill("Half a thou");
    await page.getByRole("complementary").getByRole("button", { name: "Device" }).click();
    await shows(heading(page), "Device");
    await page.getByRole("navigation", { name: "Pages" }).getByRole("button", { name: "Playground" }).click();
    await shows(page.getByRole("log"), "What was promised is done.");
    assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "Half a thou");
  });

  scenario("deletes conversations at once, and puts one back", { page: "chat", conversation: "2026-11-21-parcel" }, async (page) => {
    const rows = page.getByRole("region", { name: "Conversations" }).getByRole("listitem");
    await until(() => rows.count(), (count) => count === 3);
    await rows.first().getByRole("button").first().focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Delete");
    await shows(page.getByRole("status"), "Deleted “A table of units");
    await until(() => rows.count(), (count) => count === 2);
    // The one after it has the focus.
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Shall I compare thee");
    await button(page, "Delete My parcel was due on Tuesday").click({ force: true });
    await until(() => rows.count(), (count) => count === 1);
    assert.deepEqual(await asked(page, "deleteConversation"), [["2026-11-20-table"]]);
    assert.equal(await page.getByRole("log").getByText("That's annoying").count(), 0);
    await page.getByRole("button", { name: "Undo" }).click();
    await until(() => rows.count(), (count) => count === 2);
    await shows(page.getByRole("log"), "That's annoying");
    await button(page, "Delete Shall I compare thee").click({ force: true });
    await page.getByRole("complementary").getByRole("button", { name: "Device" }).click();
    await until(() => asked(page, "deleteConversation"), (all) => all.length === 2);
    assert.deepEqual((await asked(page, "deleteConversation"))[1], ["2026-11-19-verse"]);
  });

  scenario("has answers sampled otherwise: a preset, and from there by keys", { page: "chat" }, async (page) => {
    await button(page, "Open Support tone").click();
    await page.getByRole("radio", { name: "Creative" }).check({ force: true });
    await page.getByRole("button", { name: /^Sampling….*temperature 1/ }).click();
    const temperature = page.getByRole("slider", { name: "Temperature" });
    await temperature.press("ArrowRight");
    assert.equal(await page.getByRole("spinbutton", { name: "Temperature, exact" }).inputValue(), "1.05");
    await until(() => page.getByRole("radio", { name: "Creative" }).isChecked(), (checked) => !checked);
    await page.getByRole("spinbutton", { name: "Top-k, exact" }).fill("-1");
    await page.getByText("Enter a whole number from 0.").waitFor();
    await page.getByRole("slider", { name: "Top-k" }).press("ArrowRight");
    await page.keyboard.press("Escape");
    await page.getByRole("textbox", { name: "Message" }).fill("Hello");
    await page.keyboard.press("Control+Enter");
    const [[, , sampling]] = await until(() => asked(page, "answer"), (all) => all.length === 1);
    assert.deepEqual([sampling.temperature, sampling.top_p, sampling.top_k], [1.05, 0.95, 1]);
    await page.getByText("Here is").first().waitFor();
    await page.keyboard.press("Escape");
    await page.getByText(/· stopped$/).first().waitFor();
  });

  for (const [what, route] of [
    ["an answer", { page: "chat", conversation: "2026-11-20-table" }],
    ["two answers", { page: "chat", conversation: "2026-11-21-parcel" }],
    ["a text", { page: "chat", conversation: "2026-11-19-verse" }],
  ]) {
    scenario(`reads ${what} enlarged twice without scrolling sideways`, route, async (page) => {
      await page.setViewportSize({ width: 450, height: 400 });
      await page.getByRole("log").waitFor();
      await page.getByRole("button", { name: /^Sampling/ }).click();
      await button(page, "Conversations").click();
      await page.getByRole("region", { name: "Conversations" }).waitFor();
      const wide = await page.evaluate(() => {
        const edge = document.querySelector("main").getBoundingClientRect().right + 1;
        const inFrames = (it) => it.closest("pre, .wide, .cut, .unseen");
        return [...document.querySelectorAll("main, main *")].filter((it) => !inFrames(it) && it.getBoundingClientRect().right > edge).map((it) => it.outerHTML.slice(0, 120));
      });
      assert.deepEqual(wide, []);
      await page.keyboard.press("Escape");
      await until(() => page.getByRole("region", { name: "Conversations" }).count(), (count) => count === 0);
    });
  }

  scenario("deletes a run only after being asked", { page: "run", id: "2026-11-15-tone-of-voice-0d3c" }, async (page) => {
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: /^Delete/ }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.deepEqual(await asked(page, "deleteRun"), []);
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: /^Delete/ }).click();
    await dialog.getByRole("button", { name: /^Delete/ }).click();
    await until(() => asked(page, "deleteRun"), (all) => all.length === 1);
    await shows(heading(page), "Runs");
  });

  scenario("goes to the downloads from any page, pauses one, and opens the data that comes next", { page: "home" }, async (page) => {
    await page.getByRole("complementary").getByRole("button", { name: /2 downloads|GB of/ }).click();
    await shows(heading(page), "Activity");
    await button(page, "Pause: HuggingFaceTB/SmolLM2-1.7B-Instruct").click();
    await button(page, "Resume: HuggingFaceTB/SmolLM2-1.7B-Instruct").waitFor();
    await button(page, "Open openai/gsm8k, train of socratic in Data").click();
    await shows(heading(page), "Data");
    await page.getByRole("complementary").getByText("2 paused, 1 failed").waitFor();
  });

  scenario("measures the machine, leaves the page meanwhile, stops it, and has what was measured", { page: "bench" }, async (page) => {
    await page.getByRole("checkbox", { name: /processor/ }).uncheck();
    await page.getByRole("combobox", { name: "Size" }).selectOption("Small");
    await button(page, "Measure again").click();
    await page.getByRole("main").getByText(/^9 of 21/).waitFor();
    assert.deepEqual((await asked(page, "runBenchmark"))[0].slice(0, 2), [["metal"], "small"]);
    await button(page, "LoRA step, f32, 2 x 256 tokens: its steps").waitFor();
    await page.getByRole("complementary").getByRole("button", { name: "Device" }).click();
    await shows(heading(page), "Device");
    await page.getByRole("complementary").getByRole("button", { name: /^Benchmark \S/ }).click();
    await page.getByRole("main").getByText(/^9 of 21/).waitFor();
    await button(page, "Stop").click();
    await page.getByRole("main").getByText("Stopped before the end.").waitFor();
    await button(page, "LoRA step, f32, 2 x 256 tokens: its steps").click();
    await page.getByRole("slider", { name: "Milliseconds, by step" }).press("End");
    await page.getByText(/^step \d+ · \d+ ms$/).waitFor();
    await page.getByRole("radio", { name: "History" }).check({ force: true });
    await until(() => page.getByRole("table").getByRole("row").count(), (rows) => rows === 7);
  }, { more: "&bench=stays" });

  scenario("compares two benchmarks, writes one, and keeps its bars as a picture", { page: "bench" }, async (page) => {
    const others = page.getByRole("combobox", { name: "Compare with" });
    await others.selectOption(await others.getByRole("option", { name: /on battery/ }).getAttribute("value"));
    await page.getByRole("cell", { name: "1.27x faster" }).waitFor();
    const [[earlier, later]] = await asked(page, "compareBenchmarks");
    assert.ok(earlier < later, "the older one comes first, whichever is shown");
    await button(page, "Export…").click();
    await page.getByRole("status").filter({ hasText: /saved\..*-apple-m3-max-medium\.json/s }).waitFor();
    assert.equal((await asked(page, "exportBenchmark"))[0][0], later);
    await button(page, "Save as picture").click();
    await page.getByRole("status").filter({ hasText: /saved\..*-apple-m3-max-medium\.png/s }).waitFor();
    const [[path, bytes]] = await asked(page, "savePicture");
    assert.match(path, /\.png$/);
    assert.deepEqual(bytes.slice(0, 8), [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    assert.ok(bytes.length > 20_000, `${bytes.length} bytes`);
  });

  scenario("brings a benchmark from elsewhere, hears that it is here already, and deletes it after being asked", { page: "bench" }, async (page) => {
    await button(page, "Import…").click();
    await shows(page.getByRole("heading", { level: 2 }), "NVIDIA GeForce RTX 4090 Laptop GPU");
    await button(page, "Import…").click();
    await shows(page.getByRole("alert"), "this benchmark is here already");
    await button(page, "Delete").click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    assert.deepEqual(await asked(page, "deleteBenchmark"), []);
    await button(page, "Delete").click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("Metal is 4.76x faster than the CPU").waitFor();
    assert.equal((await asked(page, "deleteBenchmark")).length, 1);
  });

  scenario("reads what others publish, and goes to where they do", { page: "bench", part: "published" }, async (page) => {
    await page.getByText("not measured here").waitFor();
    await button(page, "Source of gpt-fast, Llama 3.1 8B, bf16, NVIDIA A100, 330 W").click();
    await until(() => asked(page, "openLink"), (all) => all.length === 1);
    assert.deepEqual(await asked(page, "openLink"), [["https://github.com/meta-pytorch/gpt-fast/blob/main/README.md"]]);
  });

  scenario(
    "at the first start finds on every page what to do next",
    { page: "home" },
    async (page) => {
      for (const name of ["Models", "Data", "Runs", "Playground"]) {
        await page.getByRole("navigation", { name: "Pages" }).getByRole("button", { name }).click();
        await shows(heading(page), name);
        await until(() => page.getByRole("main").getByRole("button").count(), (buttons) => buttons > 0);
      }
    },
    { scene: "empty" },
  );
});
