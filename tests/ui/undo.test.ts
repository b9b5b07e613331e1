// What is done at once, and can be taken back for a moment.

import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import Undo from "../../ui/src/components/Undo.svelte";
import { MOMENT, undoable, undoing } from "../../ui/src/lib/undo.svelte";
import { go } from "../../ui/src/routes.svelte";
import { refused } from "./made";

beforeEach(() => void vi.useFakeTimers());

afterEach(async () => {
  await undoing.settle();
  vi.useRealTimers();
});

async function deleted(commit: () => unknown = () => undefined) {
  const made = { undo: vi.fn(), commit: vi.fn(commit) };
  render(Undo);
  undoable("Deleted “Greetings”.", made.undo, made.commit);
  await tick();
  return made;
}

describe("what was done", () => {
  test("is said, and done for good when nobody takes it back", async () => {
    const { undo, commit } = await deleted();
    expect(screen.getByRole("status").textContent).toContain("Deleted “Greetings”.");
    await vi.advanceTimersByTimeAsync(MOMENT - 1);
    expect(commit).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(commit).toHaveBeenCalledTimes(1);
    expect(undo).not.toHaveBeenCalled();
    expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  });

  for (const [how, act] of [
    ["the button", () => fireEvent.click(screen.getByRole("button", { name: "Undo" }))],
    ["the keys", () => fireEvent.keyDown(document.body, { key: "z", metaKey: true })],
  ] as const) {
    test(`is taken back with ${how}`, async () => {
      const { undo, commit } = await deleted();
      await act();
      await vi.advanceTimersByTimeAsync(MOMENT);
      expect([undo, commit].map(({ mock }) => mock.calls.length)).toEqual([1, 0]);
      expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
    });
  }

  test("waits for whoever is at the button", async () => {
    const { commit } = await deleted();
    await fireEvent.focusIn(screen.getByRole("button", { name: "Undo" }));
    await vi.advanceTimersByTimeAsync(3 * MOMENT);
    expect(commit).not.toHaveBeenCalled();
    await fireEvent.focusOut(screen.getByRole("button", { name: "Undo" }));
    await vi.advanceTimersByTimeAsync(MOMENT);
    expect(commit).toHaveBeenCalledTimes(1);
  });

  test("is done for good when the page is left, or something else is done", async () => {
    const { commit } = await deleted();
    const other = vi.fn();
    undoable("Removed “support”.", vi.fn(), other);
    expect(commit).toHaveBeenCalledTimes(1);
    await tick();
    go({ page: "runs" });
    await tick();
    expect(other).toHaveBeenCalledTimes(1);
  });

  test("can be taken back on the page that it leads to", async () => {
    render(Undo);
    const commit = vi.fn();
    go({ page: "runs" });
    undoable("Deleted “starter”.", vi.fn(), commit);
    await tick();
    expect(commit).not.toHaveBeenCalled();
    expect(screen.getByRole("button", { name: "Undo" })).toBeTruthy();
  });

  test("is put back with a reason where it could not be done", async () => {
    const { undo } = await deleted(() => Promise.reject(refused("failed", "the disk is full")));
    await vi.advanceTimersByTimeAsync(MOMENT);
    expect(undo).toHaveBeenCalledTimes(1);
    expect(screen.getByRole("alert").textContent).toContain("the disk is full");
  });

  test("leaves the keys to a field that is typed in", async () => {
    const { undo } = await deleted();
    const field = document.body.appendChild(document.createElement("textarea"));
    await fireEvent.keyDown(field, { key: "z", ctrlKey: true });
    expect(undo).not.toHaveBeenCalled();
    field.remove();
  });
});
