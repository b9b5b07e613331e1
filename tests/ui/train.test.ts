// The form of a run: what it asks for, and how it says what is wrong.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

import { api } from "../../ui/src/api";
import { install } from "./fake";
import { draft } from "../../ui/src/features/train/draft.svelte";
import Profile from "../../ui/src/features/train/Profile.svelte";
import { form, methodOf } from "../../ui/src/features/language/form";
import { asked, needs, read, readList, requestOf, written, writtenList } from "../../ui/src/features/train/filled";
import { memoryOf, widths } from "../../ui/src/features/train/memory";
import { gained, millis, sorted, type By } from "../../ui/src/features/train/profile";
import { obstacle } from "../../ui/src/features/train/start";
import { waits } from "../../ui/src/features/train/waits";
import { said, sentence, shown, typed } from "../../ui/src/features/train/words";
import { latest } from "../../ui/src/lib/latest";
import { held } from "./made";

describe("a value of a run file", () => {
  test("is read back as it was typed, whatever YAML would make of it", () => {
    for (const text of ["a name", "12", "yes", "null", "a: b", "# no", "- x", '"quoted"', "{a}", "ü ✓", "~/x", "a\nb", "0x1f", "1e3", "/a b/c.txt"]) {
      expect(read(written(text)), text).toBe(text);
    }
    expect(written("yes")).toBe('"yes"');
    expect(written("  ")).toBe("");
    expect(read("'it''s'")).toBe("it's");
  });

  test("can be a list, with brackets or without", () => {
    expect(readList(writtenList(["/a b.txt", "/c,d.txt"]))).toEqual(["/a b.txt", "/c,d.txt"]);
    expect(readList("[/a.txt, '/b c.txt']")).toEqual(["/a.txt", "/b c.txt"]);
    expect(readList("/a.txt")).toEqual(["/a.txt"]);
    expect(readList("")).toEqual([]);
  });
});

describe("what a run is asked for", () => {
  test("leaves out what belongs to another method, but does not forget it", () => {
    const filled = { model: "/m", "lora.rank": "8", "scratch.preset": "nano", steps: "" };
    expect(asked(filled, form)).toEqual({ method: "lora", model: "/m", "lora.rank": "8" });
    expect(asked({ ...filled, method: "scratch" }, form)).toEqual({ method: "scratch", "scratch.preset": "nano" });
    expect(methodOf({ "scratch.preset": "nano" })).toBe("scratch");
  });

  test("says what nobody chose yet", () => {
    const fields = (filled: Record<string, string>) => needs(filled, form).map(({ field }) => field);
    expect(fields({})).toEqual(["model", "data.files"]);
    expect(fields({ method: "scratch", "data.files": "[]" })).toEqual(["data.files"]);
    expect(fields({ model: "/m", "data.files": "[/a]" })).toEqual([]);
  });

  test("has its data read as it is read on the page of data", () => {
    expect(requestOf({ "data.columns": '{"prompt":"q"}', "data.encoding": "latin-1", "data.skip_bad_rows": "true" })).toEqual({
      format: null,
      columns: { prompt: "q" },
      encoding: "latin-1",
      rows: null,
      skipBadRows: true,
    });
    expect(requestOf({ "data.columns": "nonsense" }).columns).toEqual({});
  });
});

describe("words", () => {
  test("call fields as the form calls them", () => {
    const text = sentence("`batch.rows` is 0, and has to be at least 1", [{ name: "batch.rows", label: "Batch size" }]);
    expect(text).toBe("“Batch size” is 0, and has to be at least 1.");
  });

  test("say what is wrong after the name of its field, and what it takes", () => {
    const names = [{ name: "seed", label: "Seed" }];
    const problem = (field: string, text: string, hint: string | null = null) => Object.values(said({ field, text, hint }, names)).join(" ");
    expect(problem("seed", "`seed` can't be read", "it takes a whole number")).toBe("Seed can't be read. It takes a whole number.");
    expect(problem("seed", "the device has none")).toBe("The device has none. ");
    expect(problem("", "`` could not ask the device")).toBe("Could not ask the device. ");
  });

  test("write values as people do", () => {
    expect([typed("true"), typed("0.0002"), typed("1.0e-8"), typed("{}"), typed("[0, 1, 2, 3]"), typed("[q_proj, v_proj]")]).toEqual(["on", "2e-4", "1e-8", "none", "0 to 3", "q_proj, v_proj"]);
    expect([shown("steps", "12000", form), shown("device", "cuda:1", form), shown("method", "lora", form)]).toEqual(["12,000", "CUDA 1", "Adapter (LoRA)"]);
    const sites = ["embed", ...Array.from({ length: 24 }, (_, at) => `block.${at}`)];
    expect(shown("probe.sites", writtenList(sites), form)).toBe("embed, block.0 … block.23 (25)");
  });

  test("say after what and when a run would begin", async () => {
    await install();
    const { going } = await api.status();
    expect(waits(null, 0)).toBe("");
    expect(waits(going, 2)).toMatch(/^Starts after “Support tone” and the 2 runs that wait, in .* at the earliest\.$/);
  });
});

describe("memory", () => {
  const estimate = { parameters: 1, trainableParameters: 1, weightsBytes: 6e9, optimizerBytes: 2e9, activationsBytes: 3e9, restBytes: 0, parts: [], freeBytes: 10e9, roomBytes: 8e9, seconds: null, rateFrom: null };

  test("is the sum of its parts until it was measured", () => {
    expect(memoryOf(estimate, null)).toMatchObject({ peak: 11e9, fits: false, measured: false, verdict: "of 10.0 GB free · does not fit" });
    expect(memoryOf(estimate, 7.9e9)).toMatchObject({ peak: 7.9e9, fits: true, measured: true, verdict: "of 10.0 GB free · fits" });
  });

  test("fits only with a fifth of what is free to spare", () => {
    expect(memoryOf(estimate, 8e9).fits).toBe(true);
    expect(memoryOf(estimate, 8.1e9)).toMatchObject({ fits: false, verdict: "of 10.0 GB free · too little to spare" });
    expect(memoryOf({ ...estimate, freeBytes: null }, null).fits).toBeUndefined();
  });

  test("is drawn so that what is free marks where it ends", () => {
    const { parts, free } = widths(memoryOf(estimate, null));
    expect(parts.reduce((sum, part) => sum + part)).toBeCloseTo(100);
    expect(free).toBeCloseTo(90.9, 1);
  });
});

describe("questions that change while they are answered", () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  test("are asked once the typing stops, and only the latest is heard", async () => {
    const ask = vi.fn<(question: string) => Promise<string>>();
    const { answer } = held(ask);
    const heard: unknown[] = [];
    const questions = latest(ask, (question: string, outcome) => heard.push([question, outcome]), 300);
    questions.soon("a");
    questions.soon("ab");
    expect(ask).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(300);
    expect(ask.mock.calls).toEqual([["ab"]]);
    questions.soon("abc");
    await vi.advanceTimersByTimeAsync(300);
    answer("new", 1);
    answer("old", 0);
    await vi.advanceTimersByTimeAsync(0);
    expect(heard).toEqual([["abc", { answer: "new" }]]);
  });
});

describe("the form", () => {
  beforeAll(() => install());

  test("is not ready until there is data and a model, and says so without blame", async () => {
    draft.enter({});
    await waitFor(() => expect(draft.plan).toBeDefined());
    expect(draft.needs.map(({ field }) => field)).toEqual(["model", "data.files"]);
    expect(draft.problems).toEqual([]);
    expect(draft.ready).toBe(false);
    expect(obstacle()).toBe("Choose a model and data first");
  });

  test("is ready with both, starts one run however often it is asked to, and names it", async () => {
    draft.enter({ model: "/m/SmolLM2", "data.files": "[/a.jsonl]", name: "My run" });
    await waitFor(() => expect(draft.ready).toBe(true));
    const [first, second] = await Promise.all([draft.start(), draft.start()]);
    expect(first).toMatch(/my-run/);
    expect(second).toBeUndefined();
    expect((await api.run(first ?? "")).name).toBe("My run");
  });

  test("shows a mistake at its field, and opens the part it is folded into", async () => {
    draft.enter({ model: "/m", "data.files": "[/a.jsonl]" });
    await waitFor(() => expect(draft.ready).toBe(true));
    draft.change({ learning_rate: "20" });
    await waitFor(() => expect(draft.problemAt("learning_rate")?.text).toMatch(/has to be above 0/));
    expect(draft.ready).toBe(false);
    expect(draft.more).toBe(true);
    expect(await draft.start()).toBeUndefined();
  });

  test("shows a mistake no longer once something changed, and still can't be started with it", async () => {
    draft.enter({ model: "/m", "data.files": "[/a.jsonl]", learning_rate: "20" });
    await waitFor(() => expect(draft.problemAt("learning_rate")).toBeDefined());
    draft.change({ learning_rate: "2" });
    expect(draft.pending).toBe(true);
    expect(draft.problems).toEqual([]);
    expect(draft.problemAt("learning_rate")).toBeUndefined();
    expect(draft.found).toHaveLength(1);
    expect(draft.ready).toBe(false);
    draft.change({ learning_rate: "20" });
    await waitFor(() => expect(draft.problemAt("learning_rate")).toBeDefined());
  });

  test("a trial of what was asked before is not shown for what is asked now", async () => {
    draft.enter({ model: "/m", "data.files": "[/a.jsonl]" });
    await waitFor(() => expect(draft.ready).toBe(true));
    const trial = draft.try();
    draft.change({ steps: "10" });
    await trial;
    expect(draft.measure).toBeUndefined();
    expect(draft.trialProblem).toBeUndefined();
    await draft.try();
    expect(draft.measure?.steps).toBe(5);
  });

  test("a profile is shown for what was asked when it was taken, sorted by what is looked for", async () => {
    draft.enter({ model: "/m", "data.files": "[/a.jsonl]" });
    await waitFor(() => expect(draft.ready).toBe(true));
    await draft.lookInside();
    const parts = draft.profile?.parts ?? [];
    const names = (by: By) => sorted(parts, by).parts.map(({ operation, place }) => `${operation}, ${place}`);
    expect(names("time")[0]).toBe("linear with adapter, backward");
    expect(names("kept")[0]).toBe("linear with adapter, forward");
    expect(names("kept").at(-1)).toBe("linear with adapter, backward");
    const { parts: shown, small } = sorted(parts, "moved");
    expect(shown.length + (small?.count ?? 0)).toBe(parts.length);
    const all = shown.reduce((sum, { share }) => sum + share, small?.share ?? 0);
    expect(all).toBeCloseTo(1, 2);
    draft.change({ steps: "10" });
    expect(draft.profile).toBeUndefined();
  });

  test("what a GPU did in a step is shown kernel by kernel, the others together", async () => {
    draft.enter({ model: "/m", "data.files": "[/a.jsonl]" });
    await waitFor(() => expect(draft.ready).toBe(true));
    await draft.lookInside();
    const profile = draft.profile;
    if (!profile?.gpu) throw new Error("a profile of a GPU");
    render(Profile, { profile, onclose: () => undefined });
    expect(screen.queryByRole("group", { name: "Kernels of a step" })).toBeNull();
    await userEvent.click(screen.getByRole("radio", { name: "GPU kernels" }));
    const [, ...rows] = within(screen.getByRole("group", { name: "Kernels of a step" })).getAllByRole("row");
    expect(rows).toHaveLength(25);
    expect(rows[0]?.textContent).toContain(profile.gpu.kernels[0]?.name);
    expect(rows.at(-1)?.textContent).toContain(profile.gpu.others?.name);
  });

  test("a step of any length has figures that can be compared", () => {
    expect([0.137, 24.214, 292.5, 2859, 75_000].map(millis)).toEqual(["0.14 ms", "24.21 ms", "293 ms", "2.9 s", "1 min"]);
    expect([644_000_000, -219_000_000, 0].map(gained)).toEqual(["644 MB", "−219 MB", "0 B"]);
  });

  test("what does not fit starts only when that is wanted, or after a change that makes it fit", async () => {
    const filled = { model: "/m", "data.files": "[/a.jsonl]", "batch.rows": "2" };
    draft.enter(filled);
    await waitFor(() => expect(draft.ready).toBe(true));
    expect(draft.memory?.fits).toBe(false);
    expect(await draft.start()).toBeUndefined();
    expect(draft.refused).toBe(draft.key);
    const fix = draft.plan?.fit?.fixes[0];
    expect(fix?.message).toBe("1 row at once instead of 2: learns the same");
    draft.change((fix?.fields ?? {}) as Record<string, string>);
    expect(draft.refused).not.toBe(draft.key);
    await waitFor(() => expect(draft.pending).toBe(false));
    expect(draft.memory?.fits).toBe(true);
    expect(await draft.start()).toBeDefined();

    draft.enter(filled);
    await waitFor(() => expect(draft.pending).toBe(false));
    expect(await draft.start(true)).toBeDefined();
  });
});
