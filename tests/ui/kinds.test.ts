// A kind of learning that only this test knows finds its place on the pages, which know none.

import { render, screen, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

import { api, type RunView } from "../../ui/src/api";
import type { Exhibit } from "../../ui/src/components/exhibits/exhibit";
import { base64Of, rasterOf } from "../../ui/src/components/pixels";
import { install } from "./fake";
import Home from "../../ui/src/features/home/Home.svelte";
import { KINDS, kindOf } from "../../ui/src/features/kinds";
import { PARTS } from "../../ui/src/features/parts";
import Actions from "../../ui/src/features/runs/Actions.svelte";
import Exhibits from "../../ui/src/features/runs/Exhibits.svelte";
import Figures from "../../ui/src/features/runs/Figures.svelte";
import { Following } from "../../ui/src/features/runs/following.svelte";
import Run from "../../ui/src/features/runs/Run.svelte";
import RunChart from "../../ui/src/features/runs/RunChart.svelte";
import { kindOfRun } from "../../ui/src/features/runs/series";
import { draft } from "../../ui/src/features/train/draft.svelte";
import Train from "../../ui/src/features/train/Train.svelte";
import { route } from "../../ui/src/routes.svelte";
import * as toy from "./toy";
import * as parts from "./toy/parts";

const run = async (): Promise<RunView> => ({ ...(await api.run("2026-11-20-support-tone-3e90")), task: "toy", unit: "toys", uses: ["play"] });

beforeAll(async () => {
  await install();
  KINDS.push(toy);
});

beforeEach(() => {
  PARTS.toy = parts;
});

afterAll(() => {
  KINDS.pop();
  delete PARTS.toy;
});

describe("a kind of learning", () => {
  test("is found by its name, and without one it is the first", () => {
    expect(kindOf("toy")).toBe(toy);
    expect([kindOf(undefined), kindOf("nobody knows")]).toEqual([KINDS[0], KINDS[0]]);
  });

  test("brings its section to the form, and asks only for what is its own", async () => {
    render(Train, { filled: { name: "My run", model: "/m", "lora.rank": "8" } });
    expect(screen.getByRole("radio", { name: "Adapter (LoRA)" })).toBeTruthy();
    await userEvent.click(screen.getByRole("radio", { name: "Toys" }));
    expect(screen.queryByRole("radio", { name: "Adapter (LoRA)" })).toBeNull();
    expect(screen.getByRole("button", { name: "Choose a colour" })).toBeTruthy();
    await userEvent.type(screen.getByRole("textbox", { name: "Colour" }), "red");
    expect(screen.getByText("A toy in red")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Choose a colour" })).toBeNull();
    expect(draft.asked).toEqual({ task: "toy", name: "My run", "toy.colour": "red" });
    // Whoever goes back finds what was there.
    await userEvent.click(screen.getByRole("radio", { name: "Fine-tune" }));
    expect(draft.asked).toEqual({ method: "lora", name: "My run", model: "/m", "lora.rank": "8" });
  });

  test("offers on the first page what can be made with it", async () => {
    const { container } = render(Home);
    await userEvent.click(screen.getByRole("button", { name: /^Toys/ }));
    expect(route.now).toEqual({ page: "train", filled: { task: "toy" } });
    await userEvent.click(screen.getByRole("button", { name: /^From scratch/ }));
    expect(route.now).toEqual({ page: "train", filled: { method: "scratch" } });
    expect(container.textContent).toContain("It learns one colour");
  });

  test("draws what its model shows, beside what it showed at first", async () => {
    const grid = (step: number, rows: string[][]) => ({ step, exhibit: { kind: "grid" as const, title: "Red", rows, marks: [] } });
    render(Exhibits, { kind: kindOfRun(await run()), run: await run(), shown: [grid(0, [["1", "2"]]), grid(10, [["3", "4"]])] });
    const card = screen.getByRole("heading", { name: "Toys now" }).parentElement!;
    expect(within(card).getByText("Red: 3,4, before 1,2")).toBeTruthy();
  });

  test("has its exhibits drawn by their form, where it does not draw them itself", async () => {
    const shown = (exhibit: Exhibit, step = 10) => ({ step, exhibit });
    const { Choices, Example } = parts;
    PARTS.toy = { Choices, Example };
    const mark = { row: 0, column: 1, meaning: "wrong" as const };
    const picture = { kind: "image" as const, title: "A pet", label: "cat", expected: "dog", confidence: 0.913, width: 1, pixels: base64Of(new Uint8Array([1, 2, 3, 4, 5, 6])), map: { rows: 1, columns: 1, strengths: base64Of(new Uint8Array([255])) } };
    render(Exhibits, {
      kind: toy,
      run: await run(),
      shown: [
        shown({ kind: "text", title: "To be", text: "" }),
        shown({ kind: "grid", title: "A puzzle", rows: [["1", "9"]], marks: [mark] }),
        shown(picture),
        shown({ kind: "confusion", title: "Pets", classes: ["cat", "dog"], counts: [[3, 1], [0, 4]] }),
        shown({ kind: "table", title: "Layers", columns: ["layer", "accuracy"], rows: [["10", "0.75"]] }),
      ],
    });
    expect(screen.getByText("Nothing.")).toBeTruthy();
    expect(within(screen.getByRole("table", { name: "A puzzle" })).getByText("9").className).toContain("wrong");
    expect(screen.getByRole("img", { name: "A pet" }).querySelector("canvas")?.height).toBe(2);
    expect(screen.getByText("is dog")).toBeTruthy();
    expect(screen.getByText("91.3 %")).toBeTruthy();
    expect(screen.getByRole("img", { name: "What speaks for cat" }).querySelectorAll("canvas").length).toBe(2);
    expect(screen.getByRole("gridcell", { name: "cat, said to be dog: 1 of 4, 25 %" })).toBeTruthy();
    expect(within(screen.getByRole("table", { name: "Layers" })).getByText("0.75")).toBeTruthy();
    expect(rasterOf(picture)?.rgba).toEqual(new Uint8ClampedArray([1, 2, 3, 255, 4, 5, 6, 255]));
    expect([rasterOf({ ...picture, pixels: "AQI=" }), rasterOf({ ...picture, pixels: "?" })]).toEqual([undefined, undefined]);
  });

  test("has charts of its own series and measures, in its own unit", async () => {
    const view = await run();
    const following = new Following();
    following.columns.take({
      steps: [1, 2],
      millis: [5, 5],
      series: { loss: [2, 1], rate: [40, 40], halting_steps: [6, 4] },
      evaluations: [{ step: 2, metrics: [{ name: "accuracy", label: "Accuracy", value: 0.75, higherIsBetter: true, of: null }] }],
    });
    following.tick += 1;
    render(RunChart, { run: view, following });
    const titles = screen.getAllByRole("radio").map((radio) => radio.closest("label")?.textContent.trim());
    expect(titles).toEqual(["Loss", "Learning rate", "Gradient norm", "Memory", "Toys a second", "Accuracy", "Halting steps"]);
    await userEvent.click(screen.getByRole("radio", { name: "Accuracy" }));
    expect(screen.getByRole("img", { name: "Accuracy by step, now 0.750" })).toBeTruthy();
    render(Figures, { run: { ...view, unitsPerSecond: 40 } });
    expect(screen.getByText("mean toys a second").parentElement?.textContent).toBe("mean toys a second40");
  });

  test("has what a finished run found in place of its charts", async () => {
    const view: RunView = { ...(await run()), status: "finished" };
    const events = await api.runEvents(view.id);
    const follow = vi.spyOn(api, "followRun").mockImplementation(async (_, __, hear) => (hear({ run: view, events }), 1));
    const { unmount } = render(Run, { id: view.id });
    expect(await screen.findByText(`Toys of ${view.name}`)).toBeTruthy();
    expect(screen.queryByRole("img", { name: /by step/ })).toBeNull();
    unmount();
    // While it learns, its charts say more.
    view.status = "running";
    render(Run, { id: view.id });
    expect(await screen.findByRole("img", { name: /by step/ })).toBeTruthy();
    expect(screen.queryByText(`Toys of ${view.name}`)).toBeNull();
    follow.mockRestore();
  });

  test("says what can be done with what it learned", async () => {
    const view = await run();
    render(Actions, { run: view, place: null, onerror: vi.fn() });
    await userEvent.click(screen.getByRole("button", { name: "Play with it" }));
    expect(toy.uses[0]?.open).toHaveBeenCalledWith(view);
  });
});

describe("the pages of runs", () => {
  test("know no kind of learning", () => {
    const files = import.meta.glob<string>("../../ui/src/features/runs/*", { query: "?raw", import: "default", eager: true });
    expect(Object.keys(files).length).toBeGreaterThan(20);
    for (const [path, text] of Object.entries(files)) {
      // What the app says is put into general words in one place.
      if (!path.endsWith("/series.ts")) expect(text, path).not.toMatch(/token|prompt|lora|vocab|chat/i);
    }
  });
});
