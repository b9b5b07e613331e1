// What the page of data knows without a screen.

import { describe, expect, test } from "vitest";

import type { InspectionView } from "../../ui/src/api";
import inspections from "./fake/answers/inspections.json";
import { filledFrom, laidOut, mapped, partsFor } from "../../ui/src/features/data/parts";
import { isPasted } from "../../ui/src/features/data/pasted";
import { folderOf, nameOf } from "../../ui/src/lib/paths";
import { piecesOf } from "../../ui/src/features/data/pieces";
import { controlOf, proposalsOf } from "../../ui/src/features/data/proposed";

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
    const [sums, questions] = inspections.map(({ answer }) => answer).filter(({ problem }) => problem !== null) as InspectionView[];
    expect(proposalsOf(questions!.problem!, [])).toEqual([{ text: "Read it as Latin-1", change: { encoding: "latin-1" } }]);
    expect([sums, questions].map((it) => controlOf(it!.problem!))).toEqual(["columns", "encoding"]);
    expect(proposalsOf(sums!.problem!, sums!.columns)[0]?.change.columns).toEqual({ prompt: "problem", completion: "solution" });
    // A column that is not there is no proposal.
    expect(proposalsOf(sums!.problem!, ["other"])).toEqual([]);
    const fault = { code: "failed" as const, message: "say which column is what, for example `columns: {prompt: question, completion: the answer}`", hint: null, field: null };
    expect(proposalsOf(fault, ["question", "the answer"])[0]?.change.columns).toEqual({ prompt: "question", completion: "the answer" });
    expect(controlOf({ ...fault, message: "No such file" })).toBeUndefined();
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
