// Scores of tokens while a model writes: what is shown of them.

import { render, screen, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { describe, expect, test } from "vitest";

import type { LiveProbeView, ScoredToken } from "../../ui/src/api";
import { above, courseOf, coursesOf, curveOf, keyOf, scoreText, shadeOf, wordsOf } from "../../ui/src/features/probe/live";
import { Probing } from "../../ui/src/features/probe/probing.svelte";
import ScoredAnswer from "../../ui/src/features/probe/ScoredAnswer.svelte";

const probe = (label: string, more: Partial<LiveProbeView> = {}): LiveProbeView => ({ folder: "/probes", label, site: "block.14", threshold: 0, scale: null, readsSuffix: false, ...more });
const token = (text: string, ...scores: (number | null)[]): ScoredToken => ({ text, isAnswer: true, scores });

describe("a score", () => {
  test("is shaded in steps from just below the threshold", () => {
    const shades = [-3, -0.5, -0.1, 0, 0.9, 1, 2, 9].map((score) => shadeOf(probe("joy"), score));
    expect(shades).toEqual([0, 1, 1, 2, 2, 3, 4, 4]);
    expect(shadeOf(probe("joy"), undefined)).toBe(0);
    expect(shadeOf(probe("joy", { threshold: 5 }), 4)).toBe(0);
  });

  test("is a probability only where the probe was calibrated", () => {
    expect(wordsOf(probe("joy"), -1.234)).toBe("score −1.23");
    expect(wordsOf(probe("joy", { scale: { scale: 2, shift: -1 } }), 0.5)).toBe("score +0.50, probability 0.50, active");
    expect(wordsOf(probe("joy"), undefined)).toBe("no score");
    expect(scoreText(0)).toBe("+0.00");
  });

  test("of a calibrated probe is as far above the threshold as its odds say", () => {
    expect(above(probe("joy", { threshold: 1, scale: { scale: 2, shift: -1 } }), 2)).toBe(2);
    // A probe that ranks the wrong way round is shaded by its score, which the threshold is one of.
    expect(above(probe("joy", { threshold: 1, scale: { scale: -2, shift: 0 } }), 2)).toBe(1);
  });
});

describe("the scores of an answer", () => {
  const tokens = [token("a", 1, null), token("b", null, -5), token("c", 3, 2), token("d", 2, 1)];

  test("have a mean, a moving average and a peak of the tokens that have one", () => {
    const course = courseOf(tokens, 0, probe("joy", { threshold: 2.5 }));
    expect(course).toMatchObject({ mean: 2, peak: 3, at: 2, isActive: true });
    expect(course?.average).toBeCloseTo(1.72);
    expect(courseOf([token("a", null)], 0, probe("joy"))).toBeUndefined();
  });

  test("are listed by how far their mean lies above the threshold", () => {
    const probes = [probe("low", { threshold: 9 }), probe("high", { threshold: -9 })];
    expect(coursesOf(tokens, probes).map(({ probe }) => probe.label)).toEqual(["high", "low"]);
  });

  test("are a curve that stays in its box with the threshold", () => {
    const course = courseOf(tokens, 0, probe("joy"));
    const { points, threshold } = curveOf(course!, 10, 100, 20);
    expect(points.split(" ")).toHaveLength(3);
    expect(points.split(" ")[0]).toMatch(/^0\.0,/);
    for (const point of points.split(" ")) expect(Number(point.split(",")[1])).toBeLessThanOrEqual(19);
    expect(threshold).toBe(1);
  });
});

describe("an answer with scores", () => {
  const probes = [probe("joy"), probe("anger", { site: "block.3" })];
  const scored = { tokens: [token("It", -2, 1), token(" is", 3, -1), token(" fine", 0.2, -1)], probes };

  function shown() {
    const probing = new Probing();
    Object.assign(probing, { probes });
    probing.shown = keyOf(probes[0]!);
    render(ScoredAnswer, { scored, text: "It is fine.", probing });
    return probing;
  }

  test("keeps its words, and says the score of the token that the slider is at", async () => {
    shown();
    const words = screen.getByText((_, element) => element?.matches("p.pre") ?? false);
    expect(words.textContent).toBe("It is fine.");
    expect([...words.querySelectorAll("span")].map(({ className }) => className.match(/shade-\d/)?.[0])).toEqual(["shade-0", "shade-4", "shade-2"]);
    const slider = screen.getByRole<HTMLInputElement>("slider");
    slider.focus();
    slider.value = "1";
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await screen.findByText(/score \+3\.00, active/);
    expect(slider.getAttribute("aria-valuetext")).toBe("“is”: score +3.00, active");
  });

  test("is shaded by another probe, or by none, with a click", async () => {
    const probing = shown();
    const anger = within(screen.getByRole("table")).getByRole("button", { name: /^anger/ });
    await userEvent.click(anger);
    expect(probing.shown).toBe("/probes block.3 anger");
    expect(anger.getAttribute("aria-pressed")).toBe("true");
    await userEvent.click(anger);
    expect(probing.shown).toBeUndefined();
    expect(screen.queryByRole("slider")).toBeNull();
  });
});
