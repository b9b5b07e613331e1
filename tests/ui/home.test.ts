// The first page, and the commands that are at hand on every page.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

import { api, type HomeView, type RunView, type StatusView } from "../../ui/src/api";
import Home from "../../ui/src/features/home/Home.svelte";
import Search from "../../ui/src/features/home/Search.svelte";
import { needsOf } from "../../ui/src/features/home/needs";
import StartButton from "../../ui/src/features/train/StartButton.svelte";
import { draft } from "../../ui/src/features/train/draft.svelte";
import { go, goBack, goForward, route, trail } from "../../ui/src/routes.svelte";
import { app, choose } from "../../ui/src/status.svelte";
import { install } from "./fake";
import { held } from "./made";

let home: HomeView;
let finished: RunView;

beforeAll(async () => {
  await install();
  home = await api.home();
  finished = await api.run("2026-11-20-support-tone-3e90");
});

beforeEach(() => {
  app.status = undefined;
  go({ page: "home" });
});

const starter = (more: Partial<RunView>): RunView => ({ ...finished, id: "starter-1", name: "starter", method: "scratch", ...more });
const show = (runs: RunView[]) => {
  vi.spyOn(api, "home").mockResolvedValue({ ...home, runs });
  render(Home);
};

describe("the first page", () => {
  test("begins the first model once, and leads to the one that runs or was stopped", async () => {
    const begin = vi.spyOn(api, "startStarter");
    for (const more of [{ status: "running", step: 40 }, { status: "stopped", step: 483 }, { status: "interrupted", step: 5 }] as const) {
      show([starter(more)]);
      await userEvent.click(await screen.findByRole("button", { name: /^First model/ }));
      expect(route.now).toEqual({ page: "run", id: "starter-1" });
      document.body.replaceChildren();
    }
    expect(begin).not.toHaveBeenCalled();
  });

  test("opens the finished first model for what it can do", async () => {
    show([starter({ status: "finished" })]);
    await userEvent.click(await screen.findByRole("button", { name: /^First model/ }));
    expect(route.now).toMatchObject({ page: "chat", name: "starter-1" });
  });

  test("takes nobody to a run who has gone elsewhere while its data was made", async () => {
    const { answer } = held(vi.spyOn(api, "startStarter"));
    show([]);
    await userEvent.click(await screen.findByRole("button", { name: "Start" }));
    go({ page: "models" });
    answer("starter-1");
    await new Promise((done) => setTimeout(done));
    expect(route.now).toEqual({ page: "models" });
  });

  test("says in words what came of finished runs", async () => {
    show([{ ...finished, firstHeldOutLoss: 2.31, bestLoss: 1.72 }]);
    const row = within(await screen.findByRole("row", { name: /Support tone/ }));
    expect(row.getByText("Held-out loss 2.310 → 1.720")).toBeTruthy();
    await userEvent.click(row.getByRole("button", { name: "Chat: Support tone" }));
    expect(route.now).toMatchObject({ page: "chat" });
  });

  test("lists what needs somebody: what was offered first, and nothing that only waits", () => {
    const run = (id: string, more: Partial<RunView>): RunView => ({ ...finished, id, ...more });
    const offered = run("offered", { status: "interrupted" });
    const runs = [offered, run("failed", { status: "failed", problem: "the disk is full" }), run("waits", { status: "interrupted", place: 1 }), run("new", { status: "interrupted", started: null }), finished];
    expect(needsOf(runs, [offered]).map(({ run: { id }, text }) => [id, text])).toEqual([
      ["offered", "Step 2,000 of 2,000. The app or the computer went down."],
      ["failed", "the disk is full"],
    ]);
  });
});

describe("commands", () => {
  const find = async (words: string) => {
    const { unmount } = render(Search);
    await userEvent.type(screen.getByRole("combobox"), words);
    const names = screen.queryAllByRole("option").map((option) => option.firstElementChild?.textContent);
    unmount();
    return names;
  };

  test("are found by their names and by what else they are called", async () => {
    app.status = { going: { ...finished, status: "running" } } as StatusView;
    expect(await find("stop")).toContain("Stop and Save Run");
    expect(await find("dark")).toContain("Dark Appearance");
    expect((await find("talk"))[0]).toBe("Playground");
  });

  test("that mean nothing now are not offered", async () => {
    app.status = { going: { ...finished, status: "paused" } } as StatusView;
    expect(await find("run")).toContain("Resume Run");
    expect(await find("pause")).not.toContain("Pause Run");
  });

  test("stop the run in progress, and say why they could not", async () => {
    app.status = { going: { ...finished, id: "going", status: "running" } } as StatusView;
    const stop = vi.spyOn(api, "stopRun").mockRejectedValueOnce(new Error("it is gone"));
    await choose("stop-run");
    expect(stop).toHaveBeenCalledWith("going");
    expect(app.failed).toMatchObject({ message: "it is gone" });
  });
});

describe("the way back", () => {
  test("leads through the pages in their order, and forward again until another is chosen", () => {
    trail.back = [];
    go({ page: "runs" });
    go({ page: "data" });
    goBack();
    goBack();
    expect(route.now).toEqual({ page: "home" });
    goForward();
    expect(route.now).toEqual({ page: "runs" });
    go({ page: "models" });
    goForward();
    expect([route.now, trail.forward]).toEqual([{ page: "models" }, []]);
  });
});

describe("a plan", () => {
  test("can't be started while it is worked out anew", async () => {
    draft.enter({ method: "lora", model: "/m", "data.files": "[/Users/mira/Documents/support.jsonl]" });
    render(StartButton);
    const button = screen.getByRole<HTMLButtonElement>("button", { name: "Start" });
    await waitFor(() => expect(button.disabled).toBe(false));
    const { answer } = held(vi.spyOn(api, "planRun"));
    const before = draft.plan;
    draft.change({ steps: "200" });
    await waitFor(() => expect(button.disabled).toBe(true));
    expect(button.title).toBe("The plan is being worked out");
    await waitFor(() => expect(api.planRun).toHaveBeenCalled());
    answer(before!);
    await waitFor(() => expect(button.disabled).toBe(false));
  });
});
