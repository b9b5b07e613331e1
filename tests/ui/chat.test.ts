// What the page of chat knows without a screen.

import { describe, expect, test } from "vitest";

import type { RunView } from "../../ui/src/api";
import { edited, keptTurns, partsOf, textOf, withoutLast } from "../../ui/src/features/chat/flow";
import { fileName, titleOf } from "../../ui/src/features/chat/names";
import { chipsOf, FIELDS, valueOf } from "../../ui/src/features/chat/sampling";
import { BASE, MAIN, messagesOf, seedOf, turnsOf, wordsOf } from "../../ui/src/features/chat/turns";

describe("a text that two write", () => {
  const parts = partsOf([
    { said: "Once ", answer: "upon a time", beside: "there was" },
    { said: ", ", answer: "in a land", beside: null },
  ]);

  test("remembers who wrote what when a person changes the middle", () => {
    const changed = edited(parts, "Once upon no time, in a land");
    expect(textOf(changed)).toBe("Once upon no time, in a land");
    expect(changed.map(({ text, isWritten }) => [text, isWritten])).toEqual([
      ["Once ", false],
      ["upon ", true],
      ["no", false],
      [" time", true],
      [", ", false],
      ["in a land", true],
    ]);
    expect(edited(parts, textOf(parts))).toBe(parts);
  });

  test("is the same after it was kept", () => {
    expect(partsOf(keptTurns(parts))).toEqual(parts);
    expect(keptTurns(partsOf([{ said: "Only begun", answer: "", beside: null }]))).toEqual([{ said: "Only begun", answer: "", beside: null }]);
  });

  test("can have only what the model wrote last written again", () => {
    expect(textOf(withoutLast(parts) ?? [])).toBe("Once upon a time, ");
    expect(withoutLast(edited(parts, `${textOf(parts)} far away`))).toBeUndefined();
  });
});

describe("a conversation", () => {
  test("gives each model its own answers", () => {
    const turns = turnsOf([{ said: "Hello", answer: "Hi.", beside: "Greetings." }]);
    const answers = (place: 0 | 1) => messagesOf("Be kind.", turns, "And now?", place).map(({ role, content }) => `${role}: ${content}`);
    expect(answers(MAIN)).toEqual(["system: Be kind.", "user: Hello", "assistant: Hi.", "user: And now?"]);
    expect(answers(BASE)[2]).toBe("assistant: Greetings.");
    expect(messagesOf("  ", [], "Hello", MAIN)).toHaveLength(1);
  });

  test("draws another answer for another attempt, and the same for the same", () => {
    expect(seedOf(42, 0)).toBe(42);
    expect(seedOf(42, 1)).not.toBe(42);
    expect(seedOf(2 ** 32 - 1, 3)).toBeLessThan(2 ** 32);
  });

  test("says how an answer went, with units", () => {
    const answer = { text: "", tokens: 54, tokensPerSecond: 61.2, firstSeconds: 0.14, contextUsed: 90, forgottenTurns: 0, cut: null };
    expect(wordsOf(answer)).toBe("54 tokens · 61 a second · first after 0.14 s");
    expect(wordsOf({ ...answer, tokens: 1, tokensPerSecond: 0, firstSeconds: 12.3, cut: "stopped" })).toBe("1 token · first after 12 s · stopped");
  });

  test("shows what is not as it was, and takes only what can be", () => {
    const usual = { temperature: 0.7, top_k: 0, top_p: 0.9, min_p: 0, repetition_penalty: 1, seed: 42, max_tokens: 512 };
    expect(chipsOf(usual, usual)).toEqual(["temperature 0.7", "top-p 0.9"]);
    expect(chipsOf({ ...usual, seed: 1234 }, usual).at(-1)).toBe("seed 1234");
    const [temperature] = FIELDS;
    const seed = FIELDS.at(-1);
    expect(temperature && [0, 10, 10.1, -1, NaN].map((typed) => valueOf(temperature, typed))).toEqual([0, 10, undefined, undefined, undefined]);
    expect(seed && valueOf(seed, 1.5)).toBeUndefined();
  });

  test("has a name for what is talked to, and a file name that every system takes", () => {
    const runs = [{ id: "2026-11-21-a", name: "Support tone" }] as RunView[];
    expect(titleOf("2026-11-21-a", runs, [])).toBe("Support tone");
    expect(titleOf("/cache/models--Qwen--Qwen3-0.6B/snapshots/da87", [], [])).toBe("Qwen3-0.6B");
    expect(fileName('../a: "b"? <c>')).not.toMatch(/[/\\:*?"<>|]|^\./);
    expect(fileName("...")).toBe("Conversation.md");
    expect(fileName("x".repeat(300)).length).toBeLessThan(100);
  });
});
