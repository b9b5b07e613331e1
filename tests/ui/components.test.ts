// The parts that all pages are made of, as a person meets them.

import { render, screen, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { createRawSnippet } from "svelte";
import { describe, expect, test, vi } from "vitest";

import type { Refused } from "../../ui/src/api";
import Dialog from "../../ui/src/components/Dialog.svelte";
import Problem from "../../ui/src/components/Problem.svelte";
import Progress from "../../ui/src/components/Progress.svelte";
import Segmented from "../../ui/src/components/Segmented.svelte";
import ModelUnavailable from "../../ui/src/features/chat/ModelUnavailable.svelte";
import Ranks from "../../ui/src/features/runs/Ranks.svelte";
import { refused } from "./made";

const words = (text: string) => createRawSnippet(() => ({ render: () => `<p>${text}</p>` }));
const buttons = (...names: string[]) => createRawSnippet(() => ({ render: () => `<div>${names.map((name) => `<button>${name}</button>`).join("")}</div>` }));

describe("a choice of a few", () => {
  const options = [
    { value: "lora", text: "Adapter" },
    { value: "full", text: "Full fine-tune", disabled: true },
    { value: "scratch", text: "From scratch" },
  ];

  test("is a group of radio buttons with a name, and tells what was chosen", async () => {
    const onchange = vi.fn();
    render(Segmented, { label: "How", options, value: "lora", onchange });
    expect(screen.getByRole("group", { name: "How" })).toBeTruthy();
    const adapter = screen.getByRole<HTMLInputElement>("radio", { name: "Adapter" });
    const scratch = screen.getByRole<HTMLInputElement>("radio", { name: "From scratch" });
    expect([adapter.checked, scratch.checked]).toEqual([true, false]);
    await userEvent.click(scratch);
    expect(onchange.mock.calls).toEqual([["scratch"]]);
    expect([adapter.checked, scratch.checked]).toEqual([false, true]);
  });

  test("does not let what can't be chosen be chosen", async () => {
    const onchange = vi.fn();
    render(Segmented, { label: "How", options, value: "lora", onchange });
    await userEvent.click(screen.getByRole("radio", { name: "Full fine-tune" }));
    expect(onchange).not.toHaveBeenCalled();
  });

  test("shows another value when it is given one", async () => {
    const { rerender } = render(Segmented, { label: "How", options, value: "lora" });
    await rerender({ value: "scratch" });
    expect(screen.getByRole<HTMLInputElement>("radio", { name: "From scratch" }).checked).toBe(true);
  });
});

describe("a problem", () => {
  test("is said aloud, with what to try next", () => {
    render(Problem, { error: refused("failed", "the plan needs 14.2 GB and 9.8 GB are free", "shorten the rows") });
    const { textContent } = screen.getByRole("alert");
    expect(textContent).toMatch(/the plan needs 14\.2 GB and 9\.8 GB are free/i);
    expect(textContent).toMatch(/shorten the rows/i);
  });

  test("has what can be done about it in it", () => {
    render(Problem, { error: "engine gone", children: buttons("Try again") });
    expect(within(screen.getByRole("alert")).getByRole("button", { name: "Try again" })).toBeTruthy();
  });

  test("has words whatever was thrown", () => {
    render(Problem, { error: "engine gone" });
    expect(screen.getByRole("alert").textContent).toMatch(/engine gone/i);
  });
});

describe("a model that can't be opened", () => {
  const shown = { title: "Large", isKept: false, onother: vi.fn() };
  const again = (code: Refused["code"]) => {
    const problem = refused(code, "the model needs about 9.1 GB, and 4.0 GB are free on the CPU");
    const onretry = vi.fn();
    render(ModelUnavailable, { ...shown, problem, onretry });
    return onretry;
  };

  test("is opened anyway where that is for the user to say", async () => {
    const onretry = again("needs_force");
    await userEvent.click(screen.getByRole("button", { name: "Try again" }));
    await userEvent.click(screen.getByRole("button", { name: "Open anyway" }));
    expect(onretry.mock.calls).toEqual([[false], [true]]);
  });

  test("can only be tried again where force would not help", () => {
    again("failed");
    expect(screen.queryByRole("button", { name: "Open anyway" })).toBeNull();
  });

  test("says so in a sentence, and keeps the words of a library under Details", () => {
    again("failed");
    expect(screen.getByRole("alert").textContent).toContain("Can’t open “Large”.");
    const told = screen.getByText("The model needs about 9.1 GB, and 4.0 GB are free on the CPU.");
    expect(told.closest("details")?.open).toBe(false);
  });

  test("says at once what a person can decide on", () => {
    again("needs_force");
    expect(screen.getByText(/The model needs about 9\.1 GB/).closest("details")).toBeNull();
  });
});

describe("progress", () => {
  test("has a name and a value, and stays between nothing and all", async () => {
    const { rerender } = render(Progress, { done: 0.64, label: "Progress of the run" });
    const bar = screen.getByRole<HTMLProgressElement>("progressbar", { name: "Progress of the run" });
    expect(bar.value).toBeCloseTo(0.64);
    await rerender({ done: 1.7 });
    expect(bar.value).toBe(1);
    await rerender({ done: -1 });
    expect(bar.value).toBe(0);
  });
});

describe("a dialog", () => {
  const show = () => {
    const onclose = vi.fn();
    render(Dialog, { title: "Delete the run", onclose, children: words("It can't be brought back."), actions: buttons("Cancel", "Delete") });
    return { onclose, dialog: screen.getByRole("dialog", { hidden: true }) };
  };

  test("is called by its title and opens over the page", () => {
    const { dialog } = show();
    const title = document.getElementById(dialog.getAttribute("aria-labelledby") ?? "");
    expect(title?.textContent).toBe("Delete the run");
    expect((dialog as HTMLDialogElement).open).toBe(true);
  });

  test("closes with Escape and with a click beside it, but not with one inside", async () => {
    const { onclose, dialog } = show();
    await userEvent.click(screen.getByText("It can't be brought back."));
    expect(onclose).toHaveBeenCalledTimes(0);
    const escape = new Event("cancel", { cancelable: true });
    dialog.dispatchEvent(escape);
    expect(onclose).toHaveBeenCalledTimes(1);
    // Whoever asked for it takes it away; it does not close by itself.
    expect(escape.defaultPrevented).toBe(true);
    dialog.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect(onclose).toHaveBeenCalledTimes(2);
  });
});

describe("the devices of a run", () => {
  const ranks = [
    { device: "NVIDIA H200", memoryBytes: 31.2e9, peakBytes: 33.8e9 },
    { device: "NVIDIA H200 on gpu08", memoryBytes: null, peakBytes: null },
  ];
  const rows = () => screen.getAllByRole("row").map((row) => [...row.children].slice(1).map((cell) => cell.textContent?.trim()));

  test("have a line each, with what is in use while it runs", async () => {
    const { rerender } = render(Ranks, { ranks, now: true });
    expect(rows()).toEqual([
      ["Device", "Memory", "Peak memory"],
      ["NVIDIA H200", "31.2 GB", "33.8 GB"],
      ["NVIDIA H200 on gpu08", "–", "–"],
    ]);
    await rerender({ ranks, now: false });
    expect(rows()[1]).toEqual(["NVIDIA H200", "33.8 GB"]);
  });
});
