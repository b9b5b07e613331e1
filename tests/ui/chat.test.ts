// What the page of chat knows without a screen.

import { render, screen } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { describe, expect, test, vi } from "vitest";

import { api, type ModelView, type RunView, type SamplingView } from "../../ui/src/api";
import App from "../../ui/src/App.svelte";
import { aboutOf, firstOf, runChoices } from "../../ui/src/features/chat/choices";
import { edited, keptTurns, partsOf, textOf, withoutLast } from "../../ui/src/features/chat/flow";
import { fileName, titleOf } from "../../ui/src/features/chat/names";
import { chipsOf, FIELDS, presetOf, valueOf, withPreset, withValue } from "../../ui/src/features/chat/sampling";
import { BASE, MAIN, messagesOf, seedOf, turnsOf, wordsOf } from "../../ui/src/features/chat/turns";
import { go } from "../../ui/src/routes.svelte";
import { app, look } from "../../ui/src/status.svelte";
import { install } from "./fake";

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

describe("what can be used for chat", () => {
  const run = (id: string, more: Partial<RunView> = {}) => ({ id, name: id, saved: true, uses: ["chat"], step: 2000, base: "/models/SmolLM2", status: "finished", ...more }) as RunView;
  const model = (name: string, more: Partial<ModelView> = {}) => ({ name, path: `/models/${name}`, answers: true, parameters: 1.7e9, chatOnly: null, problem: null, ...more }) as ModelView;

  test("is what was used last, else the newest run that saved something, else a model", () => {
    const runs = [run("new", { saved: false }), run("puzzle", { uses: ["solve"] }), run("tone"), run("old")];
    const models = [model("broken", { problem: "config.json is damaged" }), model("SmolLM2")];
    const nameOf = (last?: string) => firstOf(last, runs, models)?.name;
    expect([nameOf("old"), nameOf("SmolLM2"), nameOf("gone"), nameOf()]).toEqual(["old", "/models/SmolLM2", "tone", "tone"]);
    expect(firstOf(undefined, [], models)?.name).toBe("/models/SmolLM2");
    expect(firstOf("old", [], [])).toBeUndefined();
  });

  test("says what it is", () => {
    const runs = [run("tone"), run("verse", { base: null, status: "running" })];
    const models = [model("Base", { answers: false }), model("Talks", { chatOnly: "Chat only." })];
    const names = ["tone", "verse", "/models/Base", "/models/Talks", "gone"];
    expect(names.map((name) => aboutOf(name, runs, models))).toEqual(["Step 2,000 · SmolLM2", "Step 2,000 · from scratch", "1.7 B parameters · continues text", "1.7 B parameters · chat only", ""]);
    expect(runChoices(runs).map(({ isRunning }) => isRunning)).toEqual([false, true]);
  });
});

describe("a conversation", () => {
  const usual: SamplingView = { temperature: 0.7, top_k: 0, top_p: 0.9, min_p: 0, repetition_penalty: 1, seed: 42, max_tokens: 512, cache: "auto" };

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
    expect(wordsOf({ ...answer, tokensPerSecond: 0, firstSeconds: 12.3, cut: "stopped" })).toBe("54 tokens · first after 12 s · stopped");
  });

  test("has no rate over a few tokens", () => {
    const answer = { text: "", tokens: 2, tokensPerSecond: 1073, firstSeconds: 0.14, contextUsed: 9, forgottenTurns: 0, cut: null };
    expect(wordsOf(answer)).toBe("2 tokens");
    expect(wordsOf({ ...answer, tokens: 1, cut: "stopped" })).toBe("1 token · stopped");
    expect(wordsOf({ ...answer, tokens: 10 })).toContain("1073 a second");
  });

  test("shows what differs from the model’s own settings, and takes only what can be", () => {
    expect(chipsOf(usual, usual)).toEqual([]);
    expect(chipsOf({ ...usual, max_tokens: 2048, seed: 1234 }, usual)).toEqual(["max tokens 2,048", "seed 1234"]);
    expect(chipsOf({ ...usual, cache: "q8" }, usual)).toEqual(["KV cache q8"]);
    const [temperature] = FIELDS;
    const seed = FIELDS.at(-1);
    expect(temperature && [0, 10, 10.1, -1, NaN].map((typed) => valueOf(temperature, typed))).toEqual([0, 10, undefined, undefined, undefined]);
    expect(seed && valueOf(seed, 1.5)).toBeUndefined();
  });

  test("has presets, which leave alone what they say nothing about", () => {
    const own: SamplingView = { ...usual, temperature: 0.6, top_p: 0.95, top_k: 20 };
    const chosen = withPreset("creative", { seed: 7 }, own);
    // What is as the model has it by itself does not differ from it.
    expect(chosen).toEqual({ seed: 7, temperature: 1 });
    expect(presetOf({ ...own, ...chosen })).toBe("creative");
    expect(presetOf({ ...own, ...withPreset("precise", chosen, own) })).toBe("precise");
    expect([presetOf(own), presetOf(usual)]).toEqual([undefined, "balanced"]);
    expect(withValue("temperature", 0.6, chosen, own)).toEqual({ seed: 7 });
  });

  test("has a name for what is used for chat, and a file name that every system takes", () => {
    const runs = [{ id: "2026-11-21-a", name: "Support tone" }] as RunView[];
    expect(titleOf("2026-11-21-a", runs, [])).toBe("Support tone");
    expect(titleOf("/cache/models--Qwen--Qwen3-0.6B/snapshots/da87", [], [])).toBe("Qwen3-0.6B");
    expect(fileName('../a: "b"? <c>')).not.toMatch(/[/\\:*?"<>|]|^\./);
    expect(fileName("...")).toBe("Conversation.md");
    expect(fileName("x".repeat(300)).length).toBeLessThan(100);
  });
});

test("the Playground takes memory from a run that is running only when it is told to", async () => {
  await install();
  await look();
  expect(app.status?.going).not.toBeNull();
  go({ page: "chat" });
  const open = vi.spyOn(api, "openChat");
  render(App);
  const button = await screen.findByRole("button", { name: /^Open / }, { timeout: 10_000 });
  expect(open).not.toHaveBeenCalled();
  await userEvent.click(button);
  expect(open).toHaveBeenCalledOnce();
});
