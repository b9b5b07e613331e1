// What the page of data knows without a screen.

import { afterEach, describe, expect, test, vi } from "vitest";

import { api, type CountProgressView, type DataSetView, type InspectionView } from "../../ui/src/api";
import inspections from "./fake/answers/inspections.json";
import { filledFrom, laidOut, mapped, partsFor } from "../../ui/src/features/data/parts";
import { isPasted } from "../../ui/src/features/data/pasted";
import { folderOf, nameOf } from "../../ui/src/lib/paths";
import { piecesOf } from "../../ui/src/features/data/pieces";
import { Inspecting } from "../../ui/src/features/data/inspecting.svelte";
import { controlOf, problemOf, proposalsOf } from "../../ui/src/features/data/proposed";
import { Rows } from "../../ui/src/features/data/rows.svelte";
import { held } from "./made";

afterEach(() => void vi.restoreAllMocks());

describe("data", () => {
  const reading = { format: null, columns: {}, encoding: null, rows: null, skipBadRows: false };

  test("keeps only parts that can be in one row", () => {
    expect(mapped({ prompt: "q" }, "completion", "a")).toEqual({ prompt: "q", completion: "a" });
    expect(mapped({ prompt: "q", completion: "a" }, "text", "t")).toEqual({ text: "t" });
    expect(mapped({ prompt: "q", completion: "a" }, "prompt", "")).toEqual({ completion: "a" });
    expect(laidOut({ ...reading, columns: { prompt: "q", text: "t" } }, "text").columns).toEqual({ text: "t" });
    expect(partsFor({ ...reading, format: "alpaca", columns: { odd: "x" } })).toEqual(["instruction", "input", "output", "system", "odd"]);
  });

  test("becomes the fields of a run, and nothing that was not asked for", () => {
    expect(filledFrom("/a b.txt", reading)).toEqual({ "data.files": '["/a b.txt"]' });
    expect(filledFrom("/a", { ...reading, encoding: "latin-1", columns: { text: "t" } })).toMatchObject({ "data.encoding": "latin-1", "data.columns": '{"text":"t"}' });
  });

  test("that can't be read proposes what would help", () => {
    const all = inspections.map(({ answer }) => answer.inspection as unknown as InspectionView);
    const [sums, questions] = all.filter(({ problem }) => problem !== null);
    expect(proposalsOf(questions!.problem!)).toEqual([{ text: "Read it as Latin-1", change: { encoding: "latin-1" } }]);
    expect([sums, questions].map((it) => controlOf(it!.problem!))).toEqual(["columns", "encoding"]);
    expect(proposalsOf(sums!.problem!)[0]?.change.columns).toEqual({ prompt: "problem", completion: "solution" });
    // Where only a person can know, there is a control and no button.
    const fault = { code: "failed" as const, message: "the columns are `a` and `b`", hint: null, field: "data.columns", proposal: { columns: [] } };
    expect(proposalsOf(fault)).toEqual([]);
    expect(controlOf(fault)).toBe("columns");
    expect(controlOf({ ...fault, message: "No such file", field: null })).toBeUndefined();
  });

  test("that can’t be read says so without the words of a run file", () => {
    const columns: [string, string][] = [["prompt", "problem"], ["completion", "solution"]];
    const fault = { code: "failed" as const, hint: "say which column is what, for example `columns: {prompt: problem}`", field: null };
    const unmapped = { ...fault, message: "the columns are `problem` and `solution`, which is none of the layouts known: `/a/b.jsonl`", proposal: { columns } };
    expect(problemOf(unmapped, ["problem", "solution"])).toMatchObject({ message: "Which column is the prompt?", hint: "The columns are “problem”, “solution”." });
    const latin = { ...fault, message: "not UTF-8 at byte 3 (0xE9, line 1): `/a/b.txt`", proposal: { encoding: "latin-1" } };
    expect(problemOf(latin, [])).toEqual({ ...latin, hint: null });
  });

  test("is read as its page says while it is counted, and a count that was left is not heard", async () => {
    const set: DataSetView = { id: "a", name: "a", path: "/a.jsonl", request: reading, added: "", exists: true };
    const content = { isStream: false, rows: 9, example: [] };
    vi.spyOn(api, "inspectData").mockResolvedValue({ files: [], columns: [], problemCount: 0, problem: null, content });
    vi.spyOn(api, "closeData").mockResolvedValue(null);
    let tell: (progress: CountProgressView) => void = () => undefined;
    const counting = held(vi.spyOn(api, "countData").mockImplementation(() => Promise.resolve(null)));
    const inspecting = new Inspecting(set, () => undefined);
    await inspecting.look();
    expect([inspecting.reads, inspecting.busy, inspecting.counting]).toEqual([true, false, { done: 0, rows: 9 }]);
    tell = vi.mocked(api.countData).mock.calls[0]![3];
    tell({ done: 4, rows: 9 });
    expect(inspecting.counting).toEqual({ done: 4, rows: 9 });
    inspecting.stopCounting();
    tell({ done: 5, rows: 9 });
    counting.answer(null);
    await Promise.resolve();
    expect([inspecting.counting, inspecting.counted]).toEqual([undefined, undefined]);
    expect(api.closeData).toHaveBeenCalledOnce();
  });

  test("has rows that are asked for a page at a time, and from the first when they are searched", async () => {
    const asked = vi.spyOn(api, "dataRows").mockResolvedValue({ total: 120, matching: 120, searched: 120, rows: [] });
    const rows = new Rows("a");
    rows.show(reading);
    rows.turn(1);
    await vi.waitFor(() => expect(rows.answer?.total).toBe(120));
    rows.search("steel");
    await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(3));
    expect(asked.mock.calls.map(([, , words, from, count]) => [words, from, count])).toEqual([["", 0, 50], ["", 50, 50], ["steel", 0, 50]]);
  });

  test("has paths that are told apart by their folders, in either system's spelling", () => {
    expect([nameOf("/a/b/c.txt"), nameOf("C:\\a\\c.txt"), nameOf("c.txt")]).toEqual(["c.txt", "c.txt", "c.txt"]);
    expect(folderOf("/Users/mira/Downloads/gsm8k/train.jsonl")).toBe("…/Downloads/gsm8k");
    expect(folderOf("/a/c.txt")).toBe("/a");
    expect(isPasted("/x/pasted-2026-11-21-184210-0f0a.txt")).toBe(true);
    expect(isPasted("/x/pasted.txt")).toBe(false);
  });

  test("shows the tokens that only a model sees", () => {
    const pieces = piecesOf([{ text: "<|im_start|>user\nHi<|im_end|>", learned: false }, { text: "a < b", learned: true }]);
    expect(pieces.map(({ text, special }) => [text, special])).toEqual([["<|im_start|>", true], ["user\nHi", false], ["<|im_end|>", true], ["a < b", false]]);
  });
});
