// What needs no page: how numbers are read, what keys mean, where axes stand.

import { describe, expect, test } from "vitest";

import { bytes, count, counted, day, duration, loss, short, toneOf } from "../../ui/src/lib/format";
import { countBelow } from "../../ui/src/lib/ordered";
import { ranked } from "../../ui/src/lib/ranked";
import { decimals, logTicks, roundRange, ticks } from "../../ui/src/lib/scale";
import { COMMANDS, keyText, shortcut } from "../../ui/src/lib/shortcut";
import { whole } from "../../ui/src/lib/words";

describe("numbers are read by people", () => {
  test("bytes count in powers of ten and never show four figures", () => {
    const said = [0, 999, 1000, 9_949, 9_951, 999_499, 999_500, 3_424_735_232, 28_991_029_248, 2e12].map(bytes);
    expect(said).toEqual(["0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "3.4 GB", "29.0 GB", "2.0 TB"]);
  });

  test("a time has the two units that matter, and none when it is not known", () => {
    expect([0.4, 59, 61, 3599, 3600, 90_000].map(duration)).toEqual(["0 s", "59 s", "1 min", "59 min", "1 h 0 min", "25 h 0 min"]);
    expect([NaN, Infinity].map(duration)).toEqual(["–", "–"]);
  });

  test("a number agrees with what it counts", () => {
    expect([counted(0, "row"), counted(1, "row"), counted(2000, "row")]).toEqual(["0 rows", "1 row", "2,000 rows"]);
    expect([counted(1, "class", "classes"), counted(2, "class", "classes")]).toEqual(["1 class", "2 classes"]);
  });

  test("a loss keeps what can be told apart, however small", () => {
    expect([2.8341, 0.0098, 0.00001234, null, undefined].map(loss)).toEqual(["2.834", "0.0098", "0.000012", "–", "–"]);
  });

  test("models are spoken of in three figures", () => {
    expect([999, 134_515_008, 1_711_376_384, 7e12].map(short)).toEqual(["999", "135 M", "1.7 B", "7.0 T"]);
    expect(count(1_711_376_384)).toBe("1,711,376,384");
  });

  test("a day is called as people call it", () => {
    const now = new Date(2026, 10, 21, 9, 30);
    const at = (...parts: [number, number, number, number]) => day(new Date(...parts).toISOString(), now);
    expect(at(2026, 10, 21, 8)).toBe("08:00");
    expect(at(2026, 10, 20, 23)).toBe("yesterday");
    expect(at(2026, 10, 12, 12)).toBe("12 Nov");
    expect(at(2025, 10, 12, 12)).toBe("12 Nov 2025");
    expect(day(null)).toBe("–");
  });

  test("only what needs somebody looks bad", () => {
    expect(["running", "paused", "finished", "stopped", "failed", "interrupted"].map(toneOf)).toEqual(["running", "stopped", "finished", "stopped", "failed", "stopped"]);
  });
});

describe("a sentence", () => {
  test("begins large and ends with a full stop, but for the name of a format", () => {
    expect(["the CPU is slower", "Is it?", "f32 is used", ""].map(whole)).toEqual(["The CPU is slower.", "Is it?", "f32 is used.", ""]);
  });
});

describe("keys", () => {
  const pressed = (key: string, held: Partial<KeyboardEvent> = { ctrlKey: true }) => shortcut(new KeyboardEvent("keydown", { key, ...held }));

  test("mean the same with the command key and with Control, and nothing with both or neither", () => {
    expect(pressed("k")).toBe("search");
    expect(pressed("k", { metaKey: true })).toBe("search");
    expect(pressed("k", { metaKey: true, ctrlKey: true })).toBeUndefined();
    expect(pressed("k", {})).toBeUndefined();
    expect(pressed("k", { ctrlKey: true, altKey: true })).toBeUndefined();
  });

  test("1 to 9 are pages, and what is shifted is something else", () => {
    expect(["1", "2", "6", "9", "0"].map((key) => pressed(key))).toEqual(["home", "train", "chat", "device", undefined]);
    expect(pressed("1", { ctrlKey: true, shiftKey: true })).toBeUndefined();
    expect(pressed("o")).toBe("open-run");
    expect(pressed("O", { ctrlKey: true, shiftKey: true })).toBe("add-data");
    expect(pressed("n", { ctrlKey: true, shiftKey: true })).toBeUndefined();
    expect(pressed(",")).toBe("settings");
    expect(["[", "]"].map((key) => pressed(key))).toEqual(["back", "forward"]);
  });

  test("are unique, and written as the system writes them", () => {
    const keys = COMMANDS.flatMap(({ key }) => key ?? []);
    expect(new Set(keys).size).toBe(keys.length);
    expect([keyText("CmdOrCtrl+Shift+O", true), keyText("CmdOrCtrl+Shift+O", false)]).toEqual(["⇧⌘O", "Ctrl+Shift+O"]);
  });
});

describe("a search", () => {
  const find = (words: string, ...names: string[]) => ranked(names, words, (name) => name);

  test("finds things by what else is known of them, after those whose names fit", () => {
    const things = [{ name: "train", path: "/Users/mira/gsm8k/train.jsonl" }, { name: "gsm results", path: "/tmp" }];
    expect(ranked(things, "gsm", ({ name }) => name, ({ path }) => path).map(({ name }) => name)).toEqual(["gsm results", "train"]);
  });

  test("shows all in their order when nothing was typed", () => {
    expect(find("  ", "b", "a")).toEqual(["b", "a"]);
  });

  test("has beginnings first, then words, then parts, then letters in order", () => {
    expect(find("ru", "Train unit", "Forum", "Open run file", "Runs", "Data")).toEqual(["Runs", "Open run file", "Forum", "Train unit"]);
    expect(find("zz", "Runs")).toEqual([]);
  });
});

describe("an axis", () => {
  test("has round ticks inside its ends", () => {
    expect(ticks(0.81, 3.02, 6)).toEqual([1, 1.5, 2, 2.5, 3]);
    expect(ticks(0, 0.7, 7)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
    expect(ticks(0, 3, 10, true)).toEqual([0, 1, 2, 3]);
    expect(logTicks(0.01, 100, 8)).toEqual([0.01, 0.1, 1, 10, 100]);
  });

  test("shows all of the data, and has room even for one value or none", () => {
    const [low, high] = roundRange(0.812, 3.017);
    expect(low).toBeLessThan(0.812);
    expect(high).toBeGreaterThan(3.017);
    expect(roundRange(5, 5)).toEqual([4.5, 5.5]);
    expect(roundRange(0, 0)).toEqual([-1, 1]);
    expect(roundRange(0, 0, true)).toEqual([0, 1]);
    expect(roundRange(NaN, NaN)).toEqual([0, 1]);
    expect(roundRange(2, 8, true)[0]).toBe(0);
  });

  test("writes as many decimals as tell its ticks apart", () => {
    expect([decimals([1, 1.5]), decimals([0.1, 0.15]), decimals([100, 200]), decimals([3])]).toEqual([1, 2, 0, 0]);
  });

  test("finds the place of a value among others", () => {
    expect([0, 2, 3, 9].map((value) => countBelow([1, 2, 2, 5], value))).toEqual([0, 1, 3, 4]);
    expect(countBelow([], 1)).toBe(0);
  });
});
