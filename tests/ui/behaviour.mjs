// What a person does in the window, and what happens then.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import { asked, going, heading, news, scenario, shows, stepOf, until } from "./scenario.mjs";
import { build, open, settled } from "./stage.mjs";

describe("a person in the window", { concurrency: 2 }, () => {
  scenario("the keyboard alone reaches every page of the sidebar and opens it", { page: "home" }, async (page) => {
    const names = await page.getByRole("navigation", { name: "Pages" }).getByRole("button").allInnerTexts();
    assert.ok(names.length >= 6, names.join());
    for (const name of names) {
      for (let turn = 0; ; turn += 1) {
        assert.ok(turn < 200, `Tab never reaches ${name}`);
        await page.keyboard.press("Tab");
        const focused = await page.evaluate(() => {
          const { activeElement } = document;
          return activeElement?.closest("nav") && activeElement.textContent.trim();
        });
        if (focused === name.trim()) break;
      }
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(outline, "none", `the focus on ${name} can't be seen`);
      await page.keyboard.press("Enter");
      const chosen = page.getByRole("navigation", { name: "Pages" }).locator("[aria-current=page]");
      await shows(chosen, name.trim());
      await heading(page).first().waitFor();
    }
  });

  for (const keys of ["Meta+k", "Control+k"]) {
    scenario(`${keys} opens the search, which goes to a page`, { page: "home" }, async (page) => {
      await page.keyboard.press(keys);
      const search = page.getByRole("dialog").getByRole("combobox");
      await search.waitFor();
      await page.keyboard.type("devi");
      await page.keyboard.press("Enter");
      await shows(heading(page), "Device");
      assert.equal(await page.getByRole("dialog").count(), 0);
    });
  }

  scenario("the search finds a run by its name, and Escape closes it", { page: "home" }, async (page) => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("shakespeare, sm");
    await shows(page.getByRole("option"), "Shakespeare, small");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await page.keyboard.type("shakespeare, sm");
    await shows(page.getByRole("option"), "Shakespeare, small");
    await page.keyboard.press("Enter");
    await shows(heading(page), "Shakespeare, small");
  });

  scenario("the menu of the system opens pages", { page: "home" }, async (page) => {
    await news(page, { kind: "chosen", page: "device" });
    await shows(heading(page), "Device");
    await news(page, { kind: "chosen", page: "settings" });
    await until(() => asked(page, "openSettings"), (all) => all.length === 1);
  });

  scenario("a reload in the middle of a run shows all of its curve again, and continues", going, async (page) => {
    const chart = page.getByRole("main").locator("canvas").first();
    const drawn = () =>
      chart.evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let painted = 0;
        for (let at = 3; at < data.length; at += 4) painted += data[at] > 0 ? 1 : 0;
        return painted / (data.length / 4);
      });
    const before = await until(drawn, (share) => share > 0.005);
    await page.reload();
    await settled(page);
    const again = await until(drawn, (share) => share > before * 0.8);
    assert.ok(Math.abs(again - before) < before * 0.3, `${before} of the chart was painted before, ${again} after`);
    const first = await stepOf(page);
    assert.ok(first >= 1284, `at step ${first}`);
    await until(() => stepOf(page), (now) => now > first);
  });

  scenario("closing the window while a run is running asks what is to become of it", { page: "home" }, async (page) => {
    await news(page, { kind: "quit_asked" });
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    const buttons = await dialog.getByRole("button").allInnerTexts();
    assert.ok(buttons.length >= 2, buttons.join());
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(await asked(page, "leave"), []);
    for (const [choice, how] of [[/background|without/i, "background"], [/stop|save/i, "save"]]) {
      await news(page, { kind: "quit_asked" });
      await page.getByRole("dialog").getByRole("button", { name: choice }).first().click();
      await until(() => asked(page, "leave"), (all) => all.some(([it]) => it === how));
      await page.keyboard.press("Escape");
    }
  });

  scenario("files that are dropped are added, and the page of data shows them", { page: "home" }, async (page) => {
    await news(page, { kind: "hovered", over: true });
    await page.getByText("Drop data, pictures, models or a run file").waitFor();
    await news(page, { kind: "dropped", paths: ["/Users/mira/Desktop/poems.jsonl"] });
    await shows(heading(page), "Data");
    await page.getByText("poems").first().waitFor();
    assert.equal(await page.getByText("Drop data, pictures, models or a run file").count(), 0);
  });

  scenario("a folder of a model that is dropped is added to the models, and a GGUF file says what to use", { page: "home" }, async (page) => {
    await news(page, { kind: "dropped", paths: ["/Users/mira/models/tiny"] });
    await shows(heading(page), "Models");
    assert.deepEqual(await asked(page, "importModel"), [["/Users/mira/models/tiny"]]);
    await news(page, { kind: "dropped", paths: ["/Users/mira/models/tiny.gguf"] });
    await shows(page.getByRole("alert"), "is a GGUF file, which can’t be opened yet");
  });

  scenario("data is removed at once, and taken back with Undo", { page: "data", id: "trec-77d0" }, async (page) => {
    const list = page.getByRole("navigation", { name: "Data" });
    await shows(page.getByRole("heading", { level: 2 }), "TREC_10");
    const before = await list.getByRole("button").count();
    await page.getByRole("main").getByRole("button", { name: "Remove" }).click();
    await until(() => list.getByRole("button").count(), (sets) => sets === before - 1);
    await page.getByRole("button", { name: "Undo" }).click();
    await shows(page.getByRole("heading", { level: 2 }), "TREC_10");
    assert.deepEqual(await asked(page, "removeData"), []);
    await page.getByRole("main").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("navigation", { name: "Pages" }).getByRole("button", { name: "Runs" }).click();
    await until(() => asked(page, "removeData"), (all) => all.length === 1);
  });

  scenario("the rows of data are searched and opened with the keyboard", { page: "data", id: "support-4b1e" }, async (page) => {
    const rows = page.getByRole("table", { name: "Rows" });
    await rows.getByText("This line is not complete JSON").waitFor();
    await page.getByRole("searchbox", { name: "Search rows" }).fill("ORDER number");
    await until(() => page.getByText(/found$/).count(), (found) => found === 1);
    const first = rows.getByRole("button", { name: /^Line/ }).first();
    await first.focus();
    await page.keyboard.press("Enter");
    await rows.getByText("Assistant", { exact: true }).waitFor();
    assert.equal(await first.getAttribute("aria-expanded"), "true");
  });

  scenario(
    "files that can't be added say why on the page of data",
    { page: "home" },
    async (page) => {
      await news(page, { kind: "dropped", paths: ["/Users/mira/Desktop/poems.jsonl"] });
      await shows(page.getByRole("alert"), "could not read the data");
    },
    { scene: "broken" },
  );

  scenario(
    "the first start offers a first model, and starts it",
    { page: "home" },
    async (page) => {
      await page.getByRole("main").getByRole("button", { name: /talk to it|start/i }).first().click();
      await shows(heading(page), "starter");
      await page.getByRole("main").locator("canvas").first().waitFor();
    },
    { scene: "empty" },
  );

  scenario(
    "runs that were running when the app ended are offered again",
    { page: "home" },
    async (page) => {
      await page.getByRole("button", { name: /continue|resume/i }).first().click();
      await until(() => asked(page, "resumeOffered"), (all) => all.length === 1);
      await page.getByRole("complementary").getByText("Support tone").waitFor();
    },
    { scene: "offered" },
  );

  scenario("the header of a talk is one line at every width, and where buttons have no room a menu has them", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, async (page) => {
    const header = page.locator("main header");
    await page.getByRole("button", { name: "Probes…" }).waitFor();
    for (const width of [1280, 1101, 1100, 1001, 1000, 900]) {
      await page.setViewportSize({ width, height: 640 });
      assert.equal((await header.boundingBox()).height, 65, `at ${width}`);
    }
    assert.equal(await page.getByRole("button", { name: "Probes…" }).isVisible(), false);
    await header.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Probes…" }).click();
    await page.getByRole("dialog", { name: "Probes" }).waitFor();
  });

  for (const task of ["language", "puzzle", "picture", "probe"]) {
    scenario(`Start is in sight at the end of a long form: ${task}`, { page: "train", filled: task === "language" ? {} : { task } }, async (page) => {
      await page.getByRole("main").getByText("More settings").click();
      await page.evaluate(() => document.querySelectorAll("main details").forEach((it) => (it.open = true)));
      for (const [width, height] of [[1280, 800], [900, 640]]) {
        await page.setViewportSize({ width, height });
        for (const to of [0, 400, 1e6]) {
          await page.evaluate((to) => document.querySelector("main").scrollTo(0, to), to);
          const { y, height: own } = await page.getByRole("button", { name: /^Start/ }).boundingBox();
          assert.ok(y > 65 && y + own <= height, `at ${y} of ${height}, scrolled to ${to}`);
        }
      }
    });
  }

  scenario("a dialog gives the focus back to what opened it: a button, or the button of a menu", { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, async (page) => {
    const hasFocus = (button) => until(() => button.evaluate((it) => it === document.activeElement), (has) => has);
    const dialog = page.getByRole("dialog", { name: "Probes" });
    const probes = page.getByRole("button", { name: "Probes…" });
    await probes.click();
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await hasFocus(probes);
    await page.setViewportSize({ width: 900, height: 640 });
    const more = page.getByRole("button", { name: "More" });
    await more.click();
    await page.getByRole("menuitem", { name: "Probes…" }).click();
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await hasFocus(more);
  });

  scenario("the theme that is chosen is worn at once", { page: "settings" }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    await until(ground, (now) => now !== light);
    assert.deepEqual(await asked(page, "setSetting"), [["theme", "dark"]]);
  });

  for (const [name, more] of [["the window", ""], ["the window of the settings", "&window=settings"]]) {
    test(`${name} is in place before its program has come, and nothing moves when it does`, async () => {
      /** Where the parts stand, and their colours. */
      const parts = (page) =>
        page.evaluate(() =>
          [".sidebar", ".header"].map((part) => {
            const it = document.querySelector(part);
            const { x, y, width, height } = it?.getBoundingClientRect() ?? {};
            return it === null || width === 0 ? null : [part, x, y, width, height, getComputedStyle(it).backgroundColor];
          }),
        );
      for (const [width, theme] of [[1280, "light"], [900, "dark"]]) {
        let before;
        const early = async (page, go) => {
          await page.setViewportSize({ width, height: 640 });
          await page.emulateMedia({ colorScheme: theme });
          let release;
          const released = new Promise((done) => (release = done));
          await page.route(/assets.*\.js/, (request) => released.then(() => request.continue()));
          await go();
          await page.locator(".header").waitFor();
          before = await parts(page);
          release();
        };
        const { page, faults, close } = await open({ page: "home" }, { more, early });
        assert.deepEqual(await parts(page), before);
        assert.equal(before[0] === null, more !== "", "only the window of the settings has no sidebar");
        assert.equal(await page.locator(".window").count(), 1);
        assert.deepEqual(faults, []);
        await page.unrouteAll();
        close();
      }
    });
  }

  scenario("the theme that was chosen is there from the first moment", { page: "settings" }, async (page) => {
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    await until(() => page.evaluate(() => localStorage.getItem("theme")), (theme) => theme === "dark");
    await page.route(/assets.*\.js/, () => {});
    await page.goto(page.url().replace("visit=", "visit=again"), { waitUntil: "commit" });
    await page.locator(".header").waitFor();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(26, 25, 24)");
    await page.unroute(/assets.*\.js/);
  });

  test("who wants less motion sees none", async () => {
    const moving = (page) =>
      page.evaluate(() =>
        [...document.querySelectorAll("*")].flatMap((it) =>
          ["", "::before", "::after"].flatMap((part) => {
            const { animationName, animationDuration, transitionDuration } = getComputedStyle(it, part || null);
            const seconds = [animationName === "none" ? "0s" : animationDuration, transitionDuration].flatMap((all) => all.split(",").map(parseFloat));
            return Math.max(...seconds) > 0.01 ? [`${it.localName}.${it.className}${part}`] : [];
          }),
        ),
      );
    for (const route of [{ page: "home" }, { page: "train" }, going, { page: "chat", conversation: "2026-11-21-parcel" }, { page: "bench" }]) {
      const { page, close } = await open(route);
      assert.deepEqual(await moving(page), [], route.page);
      if (route.page === "train") {
        await page.emulateMedia({ reducedMotion: "no-preference" });
        assert.notDeepEqual(await moving(page), []);
      }
      close();
    }
  });

  test("all of this happens under the rules of the real window", async () => {
    const { page, faults, close } = await open({ page: "home" });
    const colour = await page.evaluate(() => {
      document.body.insertAdjacentHTML("beforeend", "<p id='styled' style='color: rgb(1, 2, 3)'>x</p>");
      return getComputedStyle(document.getElementById("styled")).color;
    });
    assert.notEqual(colour, "rgb(1, 2, 3)");
    assert.equal(await page.evaluate(() => fetch("https://example.org").then(() => "came", () => "refused")), "refused");
    assert.ok(faults.every((fault) => fault.includes("Content Security Policy")) && faults.length >= 2, faults.join("\n"));
    close();
  });

  test("the program that is given to people has nothing made up in it", async () => {
    const folder = await build("production");
    try {
      const texts = readdirSync(join(folder, "assets")).map((name) => readFileSync(join(folder, "assets", name), "utf8"));
      assert.ok(texts.some((text) => text.includes("follow_run")), "the pages ask the app");
      for (const marker of ["annealFake", "/Users/mira", "mockIPC"]) {
        assert.ok(!texts.some((text) => text.includes(marker)), `the pages have \`${marker}\` in them`);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
