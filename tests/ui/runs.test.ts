// What the pages of runs know without a screen.

import { waitFor } from "@testing-library/svelte";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";

import { api, type EventsView, type RunView } from "../../ui/src/api";
import { install } from "./fake";
import { Column } from "../../ui/src/features/runs/column";
import { best, Columns, highest, mean } from "../../ui/src/features/runs/columns";
import { beforeAndNow, latest } from "../../ui/src/features/runs/exhibits";
import { Following } from "../../ui/src/features/runs/following.svelte";
import { lastOf, legendOf, linesOf, looksOf, valuesAt } from "../../ui/src/features/runs/metrics";
import type { Shown } from "../../ui/src/features/kind";
import { comparedBy } from "../../ui/src/features/runs/compare";
import { entriesOf } from "../../ui/src/features/runs/happened";
import { heldOutOf, lossOf, memoryOf, speedOf, stepsOf, timeOf } from "../../ui/src/features/runs/figures";
import { differ, grouped, search, settingsOf } from "../../ui/src/features/runs/plan";
import { KINDS } from "../../ui/src/features/kinds";
import { toldBy } from "../../ui/src/features/runs/series";
import { Smooth } from "../../ui/src/features/runs/smooth";
import { filtered, moved, sorted } from "../../ui/src/features/runs/sort";
import { dataOf, ordinal, standing, word } from "../../ui/src/features/runs/standing";
import { resultOf, verdictOf } from "../../ui/src/features/runs/verdict";
import { ago, day } from "../../ui/src/features/runs/when";

const run = (more: Partial<RunView>) => ({ name: "Run", what: "a new model", data: [], place: null, status: "running", step: 1, steps: 10, started: "2026-11-21T09:00:00Z", ...more }) as RunView;

function told(steps: number[], losses: (number | null)[], evaluations: [number, number][] = []) {
  const same = (value: number | null) => steps.map(() => value);
  return {
    steps,
    millis: same(3_600),
    series: { loss: losses, learning_rate: same(1e-4), gradient_norm: same(1), rate: same(100), memory: same(null) },
    evaluations: evaluations.map(([step, value]) => ({ step, metrics: [{ name: "loss", label: "Loss", value, higherIsBetter: false, of: null }] })),
  };
}

describe("a column of numbers", () => {
  const column = (values: number[]) => {
    const made = new Column();
    for (const value of values) made.push(value);
    return made;
  };

  test("shows all that its pixels can, and never loses a peak", () => {
    const values = Array.from({ length: 100_000 }, (_, at) => Math.sin(at / 900));
    values[54_321] = 9;
    values[60_000] = -9;
    const picked = column(values).pick(0, values.length, 800);
    expect(picked.length).toBeLessThan(2 * 800 + 2);
    expect(picked).toContain(54_321);
    expect(picked).toContain(60_000);
    expect(picked).toEqual([...picked].sort((a, b) => a - b));
    expect(column([1, 2, 3]).pick(0, 3, 800)).toEqual([0, 1, 2]);
  });

  test("is after a cut what it would be without what was cut off", () => {
    const values = Array.from({ length: 5000 }, (_, at) => ((at * 7919) % 1000) / 10);
    for (const length of [4999, 4096, 1234, 9, 8, 1, 0]) {
      const cut = column(values);
      cut.cut(length);
      const fresh = column(values.slice(0, length));
      for (const value of [5, 500, -3]) {
        cut.push(value);
        fresh.push(value);
      }
      expect(cut.pick(0, length + 3, 20)).toEqual(fresh.pick(0, length + 3, 20));
    }
  });

  test("has gaps where a value is not known, and knows the last that is", () => {
    const made = column([1, NaN, 3, NaN]);
    expect([made.last(), made.last(2), column([NaN]).last()]).toEqual([3, 1, undefined]);
    expect(mean(made.values)).toBe(2);
    expect(highest(made.values)).toBe(3);
  });

  test("has a smooth line that does not lag behind where it falls, and stays level in noise", () => {
    const falling = Array.from({ length: 400 }, (_, at) => 3 - at / 100 + (at % 2 ? 0.1 : -0.1));
    const smooth = new Smooth(20);
    for (const value of falling) smooth.add(value);
    const over = smooth.values.filter((value, at) => at >= 10 && value > falling[at]! + 0.15);
    expect(over).toEqual([]);
    expect(smooth.last()).toBeCloseTo(3 - 4 + 0.01, 1);
    // What is seen at the start lies within what was told.
    expect(Math.abs(smooth.values[20]! - 2.8)).toBeLessThan(0.06);
  });

  test("is smooth from its first value on, also after a cut", () => {
    const smooth = new Smooth(10);
    for (let at = 0; at < 50; at += 1) smooth.add(4);
    for (const value of smooth.values) expect(value).toBeCloseTo(4, 10);
    smooth.add(100);
    smooth.cut(50);
    smooth.add(4);
    expect(smooth.last()).toBeCloseTo(4, 10);
  });
});

describe("what a run tells", () => {
  test("steps that are done again take the place of those before, and their time still counts", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2, 3, 4], [5, 4, 3, 2], [[4, 2.1]]));
    columns.take(told([3, 4, 5], [3.5, 2.5, 2], [[5, 1.9]]));
    expect(columns.steps).toEqual([1, 2, 3, 4, 5]);
    expect(columns.of("loss").values).toEqual([5, 4, 3.5, 2.5, 2]);
    expect(columns.hours.at(-1)).toBeCloseTo(0.007);
    expect(columns.heldOutSteps).toEqual([4, 5]);
  });

  test("what was measured of a state that the run went back from is forgotten", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2, 3, 4], [5, 4, 3, 2], [[4, 2.1]]));
    columns.take(told([2], [4]));
    expect(columns.heldOutSteps).toEqual([]);
    expect(columns.heldOutBy("loss", 4)).toBeUndefined();
  });

  test("a loss that is not a number is a gap, and no memory means that nobody knows", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2], [5, null]));
    expect(columns.of("loss").values[1]).toBeNaN();
    expect(columns.of("memory").values[0]).toBeNaN();
    expect(valuesAt(columns, looksOf("words", [columns])[0]!, 2)[0]).toEqual(["raw", "not known"]);
    expect(toldBy({ memoryBytes: [0, 8], evaluations: [], exhibits: [] } as unknown as EventsView).series["memory"]).toEqual([null, 8]);
  });

  test("every metric can draw its lines and write its values", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2, 3], [3, 2, 1], [[2, 2.2]]));
    const looks = looksOf("words", [columns]);
    expect(looks.map(({ title }) => title)).toEqual(["Loss", "Learning rate", "Gradient norm", "Memory", "Words a second"]);
    for (const look of looks) {
      expect(linesOf(look, columns).length).toBeGreaterThan(0);
      expect(look.axis([0, 1, 2])).toHaveLength(3);
      expect(look.value(1)).toMatch(/1/);
    }
    expect(valuesAt(columns, looks[0]!, 3).at(-1)).toEqual(["held-out at 2", "2.200"]);
  });

  test("a series or a measure that nobody knows is drawn and compared too, with gaps where it was not told", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2], [3, 2], [[2, 2.2]]));
    const later = told([3, 4], [2, 1]);
    const accuracy = { name: "accuracy", label: "Accuracy", higherIsBetter: true, of: null };
    columns.take({
      ...later,
      series: { ...later.series, halting_steps: [8, 6] },
      evaluations: [3, 4].map((step) => ({ step, metrics: [{ ...accuracy, value: 1 - step / 10 }] })),
    });
    expect(columns.of("halting_steps").values).toEqual([NaN, NaN, 8, 6]);
    expect(columns.heldOut("accuracy").values).toEqual([NaN, 0.7, 0.6]);
    expect(columns.heldOut("loss").values).toEqual([2.2, NaN, NaN]);
    expect([true, false].map((higher) => best(columns.heldOut("accuracy").values, higher))).toEqual([0.7, 0.6]);
    const [measured, halting] = looksOf("puzzles", [columns]).slice(-2);
    expect([measured?.title, halting?.title]).toEqual(["Accuracy", "Halting steps"]);
    expect([measured, halting].map((look) => lastOf(look!, columns)?.toFixed(1))).toEqual(["0.6", "6.9"]);
    expect(comparedBy("puzzles", [columns]).map(({ title }) => title)).toEqual(["Loss", "Held-out", "Learning rate", "Puzzles a second", "Accuracy", "Halting steps"]);
  });

  test("what a model shows stands beside what it first showed of the same", () => {
    const one = (step: number, title: string, text: string): Shown => ({ step, exhibit: { kind: "text", title, text } });
    const text = (shown: Shown | undefined) => shown?.exhibit.kind === "text" && shown.exhibit.text;
    let shown = latest([], [one(1, "a", "old"), one(1, "b", "old b")]);
    shown = latest(shown, [one(10, "a", "new"), one(10, "b", "new b")]);
    expect(beforeAndNow(shown).map(({ now, before }) => [text(now), text(before)])).toEqual([["new", "old"], ["new b", "old b"]]);
    shown = latest(shown, [one(5, "a", "again")]);
    expect(shown.map(({ step }) => step)).toEqual([1, 1, 5]);
  });
});

describe("a page that looks at a run", () => {
  const id = "2026-11-21-support-tone-7f3a";

  beforeAll(() => install());

  test("gets all that happened before, and then what happens", async () => {
    const following = new Following();
    const stop = following.start(id);
    await waitFor(() => expect(following.columns.steps.length).toBeGreaterThanOrEqual(1284));
    // Steps 201 to 212 were done twice, and stand there once.
    expect(following.columns.steps.slice(0, 300)).toEqual(Array.from({ length: 300 }, (_, at) => at + 1));
    expect(following.sentences.some(({ bad, text }) => bad && text.includes("was not finite"))).toBe(true);
    const { tick } = following;
    await waitFor(() => expect(following.tick).toBeGreaterThan(tick));
    stop();
  });

  test("hears no more once it is left, and says so to the app", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const following = new Following();
    const stop = following.start(id);
    const aSecondLater = async () => {
      await vi.advanceTimersByTimeAsync(1000);
      return following.tick;
    };
    const [first, second] = [await aSecondLater(), await aSecondLater()];
    expect(second).toBeGreaterThan(first);
    const unfollow = vi.spyOn(api, "unfollowRun");
    stop();
    expect(unfollow).toHaveBeenCalledOnce();
    expect(await aSecondLater()).toBe(second);
  });

  test("says what is wrong with a run that is not there", async () => {
    const following = new Following();
    following.start("nothing");
    await waitFor(() => expect(following.error).toMatchObject({ message: "there is no run “nothing”" }));
  });
});

describe("the list of runs", () => {
  test("is sorted by what was asked for, and what is not known comes last either way", () => {
    const runs = [run({ name: "b", bestLoss: 2 }), run({ name: "a", bestLoss: null, smoothedLoss: null }), run({ name: "c10", bestLoss: 1 }), run({ name: "c9", bestLoss: 3 })];
    const names = (...how: [Parameters<typeof sorted>[1], boolean]) => sorted(runs, ...how).map(({ name }) => name);
    expect(names("loss", false)).toEqual(["c10", "b", "c9", "a"]);
    expect(names("loss", true)).toEqual(["c9", "b", "c10", "a"]);
    expect(names("name", false)).toEqual(["a", "b", "c9", "c10"]);
  });

  test("is filtered by words in any order and by status", () => {
    const runs = [run({ name: "Support tone", data: ["support.jsonl"] }), run({ name: "Diary", status: "failed" })];
    expect(filtered(runs, "jsonl TONE", "any")).toHaveLength(1);
    expect(filtered(runs, "", "failed").map(({ name }) => name)).toEqual(["Diary"]);
    expect(filtered(runs, "nothing", "any")).toEqual([]);
  });

  test("moves a run in the line, but not past its ends", () => {
    expect(moved(["a", "b", "c"], "c", -1)).toEqual(["a", "c", "b"]);
    expect(moved(["a", "b", "c"], "a", 1)).toEqual(["b", "a", "c"]);
    expect(moved(["a", "b"], "a", -1)).toEqual(["a", "b"]);
  });

  test("says what a run does", () => {
    const never = run({ status: "interrupted", started: null, step: 0 });
    expect(standing(never)).toBe("new");
    expect(word(never)).toBe("not started");
    expect(word(run({ place: 1 }))).toContain("next");
    expect(word(run({ place: 3 }))).toContain("3rd");
    expect([1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal)).toEqual(["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]);
    expect(dataOf(run({ data: ["a", "b", "c"] }))).toBe("a and 2 more files");
  });

  test("counts days by midnights", () => {
    const now = new Date(2026, 10, 21, 0, 30);
    const before = (minutes: number) => ago(new Date(now.getTime() - minutes * 60_000).toISOString(), now);
    expect([0.5, 5, 90, 60 * 8, 60 * 26].map(before)).toEqual(["now", "5 min ago", "1 h ago", "yesterday", "19 Nov"]);
    expect(ago(null)).toBe("–");
    expect([20, 21].map((date) => day(new Date(2026, 10, date).toISOString(), now))).toEqual(["yesterday", "today"]);
  });
});

describe("settings of a run", () => {
  const line = (field: string, value: string, why = "As asked.") => ({ field, value, why });
  const settings = (...plan: ReturnType<typeof line>[]) => settingsOf(plan, KINDS[0]);

  test("have the labels, values and groups of the form, and no name of a file", () => {
    const all = settings(line("batch.rows", "1024"), line("scratch.config.num_key_value_heads", "2"), line("scratch.config.model_type", "llama"), line("data.files", "[/a/b/train.jsonl]"), line("seed", "42", "the same `seed` gives the same run"));
    expect(all.map(({ label, value, why }) => [label, value, why])).toEqual([
      ["Key/value heads", "2", "Your setting"],
      ["Architecture", "llama", "Your setting"],
      ["Data", "train.jsonl", "Your setting"],
      ["Seed", "42", "The same “Seed” gives the same run."],
      ["Batch size", "1,024", "Your setting"],
    ]);
    expect(grouped(all).map(([group, { length }]) => [group, length])).toEqual([["New model", 2], ["Data", 1], ["Run", 1], ["Batch", 1]]);
  });

  test("differ where their values do, or where one has none", () => {
    const found = differ([
      settings(line("name", "a"), line("steps", "100"), line("seed", "42")),
      settings(line("name", "b"), line("steps", "2000"), line("seed", "42"), line("lora.rank", "16")),
    ]);
    expect(found.different.map(({ label, values }) => [label, values])).toEqual([
      ["Adapter rank", [undefined, "16"]],
      ["Steps", ["100", "2,000"]],
    ]);
    expect(found.same.map(({ label, value }) => [label, value])).toEqual([["Seed", "42"]]);
  });

  test("are searched by label, value and reason", () => {
    const plan = settings(line("steps", "100"), line("seed", "42", "Fixed."));
    expect(search(plan, "fixed").map(({ field }) => field)).toEqual(["seed"]);
    expect(search(plan, "your 100").map(({ field }) => field)).toEqual(["steps"]);
  });
});

describe("the figures of a run", () => {
  const done = run({ status: "finished", step: 2000, steps: 2000, seconds: 980, secondsLeft: null, bestLoss: 1.317, bestStep: 1875, loss: 1.211, smoothedLoss: 1.107, firstLoss: 2.898, unitsPerSecond: 2138.4, unit: "words", memoryBytes: 9.1e9, peakMemoryBytes: 9.6e9 });
  const words = (all: { value: string; rest?: string; text: string }[]) => all.map(({ value, rest, text }) => [value, rest, text].filter(Boolean).join(" "));

  test("say what they are: smoothed, best, mean, or of now", () => {
    expect(words([stepsOf(done), timeOf(done), heldOutOf(done), lossOf(done), speedOf(done), memoryOf(done)])).toEqual([
      "2,000 steps, all done",
      "16 min of training",
      "1.317 step 1,875 best held-out loss",
      "1.107 from 2.898 smoothed loss",
      "2,138 mean words a second",
      "9.6 GB peak memory",
    ]);
    const going = { ...done, status: "running" as const, step: 500, secondsLeft: 720 };
    expect(words([stepsOf(going), timeOf(going), speedOf(going), memoryOf(going)])).toEqual(["500 of 2,000 steps", "12 min left, of 28 min", "2,138 words a second", "9.1 GB memory, peak 9.6 GB"]);
    expect(speedOf({ ...done, unitsPerSecond: null }).value).toBe("–");
  });

  test("are the same in the list of runs", () => {
    expect(resultOf({ ...done, status: "stopped" })).toBe("Best held-out loss 1.317");
    expect(resultOf({ ...done, status: "stopped", bestLoss: null })).toBe("Smoothed loss 1.107");
  });
});

describe("what is said of a run first", () => {
  const base = run({ task: "language", step: 640, steps: 2000, saved: true, problem: null, hint: null, forceHelps: false, secondsLeft: null, busy: false, metrics: [], bestLoss: 1.72, bestStep: 2000, firstHeldOutLoss: 2.31, smoothedLoss: 1.7, firstLoss: 2.4 });
  const said = (more: Partial<RunView>, going?: string) => {
    const view = { ...base, ...more };
    const { title, detail } = verdictOf(view, standing(view), going);
    return `${title} | ${detail}`;
  };

  test("is what came of it when it is finished", () => {
    const finished = { status: "finished" as const, step: 2000 };
    expect(said(finished)).toBe("Held-out loss 2.310 → 1.720 | Lower is better. The best was the last step.");
    expect(said({ ...finished, bestStep: 800 })).toContain("The best was at step 800 of 2,000.");
    expect(said({ ...finished, bestLoss: 2.31, bestStep: 0 })).toBe("Held-out loss 2.310, no better than before training | Lower is better.");
    expect(said({ ...finished, bestLoss: null })).toBe("Loss 1.700 | No held-out data.");
    const right = (value: number) => [{ name: "right_answers", label: "right answers", value, higherIsBetter: true, of: 10 }];
    expect(said({ ...finished, metrics: right(0.9) })).toBe("9 of 10 held-out questions right | Held-out loss 2.310 → 1.720. Lower is better. The best was the last step. On other questions of this kind, expect 59.6–98.2 % right.");
    expect(said({ ...finished, metrics: right(0) })).toMatch(/^Held-out loss.*None of 10 held-out answers matched word for word\.$/);
  });

  test("is the time left while it is running, once that is known, and that the computer is busy", () => {
    expect(said({ secondsLeft: 240 })).toBe("About 4 min left | 32 % done. Held-out loss 2.310 → 1.720 so far.");
    expect(said({ secondsLeft: 240, busy: true })).toContain("This computer is busy");
    expect(said({ step: 7 })).toBe("Training | The time left is known after 20 steps.");
  });

  test("is what to do when it is neither", () => {
    expect(said({ status: "stopped" })).toBe("Stopped at step 640 of 2,000 | Saved. Resume continues from the last checkpoint, with identical results.");
    expect(said({ status: "interrupted", saved: false })).toMatch(/Interrupted.*begins at the first step/);
    expect(said({ status: "paused", problem: "on battery" })).toBe("Paused at step 640 of 2,000: on battery | Saved. The run resumes by itself.");
    expect(said({ status: "failed", problem: "`a.jsonl` is gone" })).toContain("“a.jsonl” is gone.");
    expect(said({ place: 1 }, "Support tone")).toBe("Next in line | Waiting for “Support tone”.");
    expect(said({ place: 3 }, "Support tone")).toContain("3rd in line");
  });
});

describe("what happened in a run", () => {
  const sentence = (step: number, text: string, saved = false) => ({ time: "2026-11-21T18:42:00.000Z", step, text, saved, bad: false });

  test("has saves put together, so that they drown nothing", () => {
    const saves = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => sentence(100 * (from + at), `Step ${from + at} saved.`, true));
    const texts = entriesOf([sentence(0, "Started."), ...saves(1, 16), sentence(1700, "Paused."), ...saves(18, 19), ...saves(20, 20).map((it) => ({ ...it, text: "once" }))]).map(({ text }) => text);
    expect(texts).toEqual(["Saved 3 times, last at step 2,000.", "Paused.", "Saved 16 times, last at step 1,600.", "Started."]);
    expect(entriesOf([sentence(1, "Step 1 saved.", true)]).map(({ text }) => text)).toEqual(["Step 1 saved."]);
  });
});

describe("the chart of a run", () => {
  test("speaks of held-out dots only where there are some", () => {
    const [look] = looksOf("words", []);
    const columns = new Columns(10);
    columns.take(told([1, 2, 3], [3, 2, 1]));
    expect(legendOf(look!, columns)).toBe("line: smoothed");
    columns.take(told([4], [1], [[4, 2.2]]));
    expect(legendOf(look!, columns)).toBe("line: smoothed · dots: held-out");
  });

  test("has none of what was measured only once", () => {
    const columns = new Columns(10);
    columns.take(told([1, 2, 3], [3, 2, 1], [[0, 3], [2, 2]]));
    const answers = { name: "right_answers", label: "right answers", value: 0.9, higherIsBetter: true, of: 10 };
    columns.take({ ...told([4], [1]), evaluations: [{ step: 4, metrics: [answers] }] });
    expect(looksOf("words", [columns]).map(({ title }) => title)).not.toContain("right answers");
  });
});
