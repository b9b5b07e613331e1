// A model that is led along the direction of a probe: what is asked, what it costs, and whose answer stands beside.

import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, describe, expect, test, vi } from "vitest";

import { api, type SteerView } from "../../ui/src/api";
import { kept, Keeper } from "../../ui/src/features/chat/kept.svelte";
import { Flow } from "../../ui/src/features/chat/flow.svelte";
import { keptTurns as keptParts } from "../../ui/src/features/chat/flow";
import { Pair } from "../../ui/src/features/chat/pair.svelte";
import { Talk } from "../../ui/src/features/chat/talk.svelte";
import { keptTurns, MAIN } from "../../ui/src/features/chat/turns";
import SteerBar from "../../ui/src/features/probe/SteerBar.svelte";
import SteerPicker from "../../ui/src/features/probe/SteerPicker.svelte";
import { costOf, Steering } from "../../ui/src/features/probe/steering.svelte";
import { install } from "./fake";
import { refused } from "./made";

beforeAll(() => install());

const FOLDER = "2026-11-21-cognitive-actions-77c1/probes";

/** Along a probe that the made-up app has. */
async function planning(strength: number | null): Promise<SteerView> {
  const [found] = await api.probesFor("any");
  return { folder: found!.folder, label: "planning", strength };
}

/** A model that is open, and a conversation with it that is kept nowhere. */
async function opened(name: string) {
  kept.sampling = { max_tokens: 20 };
  const pair = new Pair();
  const keeper = new Keeper(() => name, () => name);
  const save = vi.spyOn(api, "saveConversation").mockImplementation(async (file) => file);
  await pair.open(name);
  return { pair, talk: new Talk(pair, keeper), flow: new Flow(pair, keeper), save };
}

describe("what it costs", () => {
  const said = (plain: number, steered: number | null) => costOf({ directions: [], perplexity: [plain, steered], warnings: [] });

  test("is said in words where it is much", () => {
    expect(said(20, 20.4)).toEqual({ text: "Perplexity of a plain text 20.0 → 20.4", tone: "quiet" });
    expect(said(20, 25)?.text).toContain("less would leave it more itself");
    expect(said(20, 80)).toMatchObject({ text: expect.stringContaining("hardly itself"), tone: "warn" });
    expect(said(20, null)?.tone).toBe("warn");
    expect(costOf({ directions: [], perplexity: null, warnings: [] })).toBeUndefined();
  });
});

describe("a model that is led", () => {
  test("is asked once for the last of what was wanted meanwhile, and not at all after a refusal", async () => {
    const steering = new Steering();
    const asked = vi.spyOn(api, "steerModel");
    const by = await planning(0.1);
    await Promise.all([0.1, 0.2, 0.3].map((strength) => steering.lead(MAIN, { ...by, strength })));
    expect(asked.mock.calls.map(([, [first]]) => first?.strength)).toEqual([0.3]);
    expect([steering.isOn, steering.by?.strength, steering.busy]).toEqual([true, 0.3, false]);
    await steering.lead(MAIN, { ...by, folder: "/others" });
    expect([steering.isOn, steering.refused?.folder]).toEqual([false, "/others"]);
    await steering.lead(MAIN, steering.refused, true);
    expect([steering.isOn, steering.problem]).toEqual([true, undefined]);
    // What was forced once is forced when the slider moves.
    await steering.lead(MAIN, { ...by, folder: "/others", strength: 0.4 });
    expect(steering.by?.strength).toBe(0.4);
    await steering.lead(MAIN);
    expect([steering.isOn, steering.by]).toEqual([false, undefined]);
    asked.mockRestore();
  });

  test("answers beside itself as it is, which is kept nowhere", async () => {
    const { pair, talk, save } = await opened("/models/SmolLM2-1.7B-Instruct");
    await pair.steering.lead(MAIN, await planning(0.1));
    expect(await talk.say("Why?")).toBe(true);
    const [turn] = talk.turns;
    expect(turn?.answer.text).toMatch(/^I notice that you have waited/);
    expect(turn?.beside).toMatchObject({ isPlain: true, live: false });
    expect(turn?.beside?.text).not.toMatch(/^I notice/);
    expect(keptTurns(talk.turns)[0]?.beside).toBeNull();
    expect(save.mock.calls.at(-1)?.[0].turns[0]?.beside).toBeNull();
    // At strength 0 both are the same.
    await pair.steering.lead(MAIN, await planning(0));
    await talk.again();
    expect(talk.turns[0]?.answer.text).toBe(talk.turns[0]?.beside?.text);
    await pair.steering.lead(MAIN);
    await talk.again();
    expect(talk.turns[0]?.beside).toBeUndefined();
  });

  test("that was stopped is not asked as it is", async () => {
    const { pair, talk } = await opened("/models/SmolLM2-1.7B-Instruct");
    await pair.steering.lead(MAIN, await planning(0.1));
    const asked = vi.spyOn(api, "answer");
    const saying = talk.say("Why?");
    await waitFor(() => expect(talk.turns[0]?.answer.text).not.toBe(""));
    await pair.stop();
    await saying;
    expect(asked).toHaveBeenCalledOnce();
    expect(talk.turns[0]?.beside).toBeUndefined();
    asked.mockRestore();
  });

  test("continues a text beside itself too", async () => {
    const { pair, flow } = await opened("/models/shakespeare");
    await pair.steering.lead(MAIN, await planning(0.1));
    flow.edit("Once");
    await flow.goOn();
    const part = flow.parts.at(-1);
    expect(part?.text).toMatch(/^I notice/);
    expect(part?.beside).toBeTruthy();
    expect(keptParts(flow.parts)[0]?.beside).toBeNull();
  });

  test("is led on after it was opened anew", async () => {
    const { pair } = await opened("/models/SmolLM2-1.7B-Instruct");
    await pair.steering.lead(MAIN, await planning(0.2));
    await pair.open("/models/SmolLM2-1.7B-Instruct");
    expect(pair.steering.by?.strength).toBe(0.2);
  });
});

describe("the slider", () => {
  test("moves the model, takes the direction away, or leaves it be", async () => {
    const steering = new Steering();
    await steering.lead(MAIN, await planning(0.1));
    const view = render(SteerBar, { steering, place: MAIN, by: steering.by! });
    const slider = screen.getByRole<HTMLInputElement>("slider", { name: "Towards “planning”" });
    expect(slider.value).toBe("0.1");
    expect(screen.getByText(/Perplexity of a plain text 24.1/)).toBeTruthy();
    expect(screen.getByText(/difference of the means/)).toBeTruthy();
    await fireEvent.change(slider, { target: { value: "-0.25" } });
    await waitFor(() => expect(steering.by?.strength).toBe(-0.25));
    await view.rerender({ by: steering.by! });
    await userEvent.click(screen.getByRole("checkbox", { name: "Remove" }));
    await waitFor(() => expect(steering.by?.strength).toBeNull());
    await view.rerender({ by: steering.by! });
    expect(slider.disabled).toBe(true);
    await userEvent.click(screen.getByRole("checkbox", { name: "Remove" }));
    await waitFor(() => expect(steering.by?.strength).toBe(-0.25));
    await userEvent.click(screen.getByRole("button", { name: "Off" }));
    await waitFor(() => expect(steering.isOn).toBe(false));
  });
});

describe("the choice of a probe", () => {
  test("is by folder and label, and says what was refused", async () => {
    const { pair } = await opened("/models/SmolLM2-1.7B-Instruct");
    const { steering, probing } = pair;
    const closed = vi.fn();
    render(SteerPicker, { steering, probing, model: "/models/SmolLM2-1.7B-Instruct", onsteer: (by: SteerView, force?: boolean) => pair.steer(by, force), onclose: closed });
    const dialog = screen.getByRole("dialog", { name: "Steer" });
    await userEvent.selectOptions(await within(dialog).findByRole("combobox", { name: "Label" }), "planning");
    const failing = vi.spyOn(api, "steerModel").mockRejectedValueOnce(refused("failed", "the probe of `planning` has no direction"));
    await userEvent.click(within(dialog).getByRole("button", { name: "Steer" }));
    expect((await within(dialog).findByRole("alert")).textContent).toContain("has no direction");
    expect(closed).not.toHaveBeenCalled();
    failing.mockRestore();
    await userEvent.click(within(dialog).getByRole("button", { name: "Steer" }));
    await waitFor(() => expect(closed).toHaveBeenCalled());
    expect(steering.by).toMatchObject({ label: "planning", strength: 0.1 });
    expect(steering.by?.folder).toContain(FOLDER);
  });
});
