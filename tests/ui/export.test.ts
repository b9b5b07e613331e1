// Exports: which formats there are, what is lost in them, and how what was written compares.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

import { api, type ComparedView, type ExportView, type OfferView } from "../../ui/src/api";
import Export from "../../ui/src/features/export/Export.svelte";
import { fidelityOf, figuresOf } from "../../ui/src/features/export/fidelity";
import { audienceOf, firstOf, suggestedName, wordsOf } from "../../ui/src/features/export/formats";
import Results from "../../ui/src/features/home/Results.svelte";
import Models from "../../ui/src/features/models/Models.svelte";
import Actions from "../../ui/src/features/runs/Actions.svelte";
import RunMenu from "../../ui/src/features/runs/RunMenu.svelte";
import { whole } from "../../ui/src/lib/words";
import { route } from "../../ui/src/routes.svelte";
import { install } from "./fake";
import { held, refused } from "./made";

const TONE = "2026-11-20-support-tone-3e90";

let language: OfferView[];

beforeAll(async () => {
  await install();
  language = await api.exports(TONE);
});

const offer = (name: string, more: Partial<OfferView> = {}): OfferView => ({ name, title: name, ending: "gguf", bytes: null, readers: "", losses: [], refused: null, uncomparable: null, forLmStudio: false, ...more });
const named = (name: string) => language.find((each) => each.name === name)!;
const compared = (more: Partial<ComparedView> = {}): ComparedView => ({ what: "held-out answers", tokens: 8192, sameNextToken: 0.982, divergence: 0.011, lossBefore: 1.21, lossAfter: 1.222, tokenizedAlike: 14, ...more });
const written = (figures: ComparedView | null): ExportView => ({ path: "/a.gguf", bytes: 1, readers: "", isCompared: true, compared: "", notes: [], figures, forOllama: false });

describe("a format", () => {
  test("says how many bits a weight has on average, by the sizes of the others", () => {
    expect(["gguf-q8_0", "gguf-f16", "gguf-f32"].map((name) => wordsOf(named(name), language).note)).toEqual(["8.5 bits a weight", "16 bits a weight", "32 bits a weight"]);
    expect(wordsOf(named("gguf-q8_0"), language).about).toContain("rounded to about 8.5 bits a weight");
    // Nothing is guessed where they are not known.
    expect(wordsOf(offer("gguf-q8_0", { bytes: 9 }), [])).toEqual({ note: "", about: "One file with the whole model." });
    expect(wordsOf(offer("new", { ending: null }), [])).toEqual({ note: "", about: "" });
  });

  test("is proposed when it is half the size and hardly different, or else the first that can be written", () => {
    expect(firstOf(language)?.name).toBe("gguf-q8_0");
    expect(firstOf([offer("adapter", { refused: "no" }), offer("onnx"), offer("coreml")])?.name).toBe("onnx");
    expect(firstOf([offer("gguf-q8_0", { refused: "no" })])).toBeUndefined();
  });

  test("is for apps or for code", () => {
    const apps = language.filter((each) => audienceOf(each) === "apps").map(({ name }) => name);
    expect(apps).toHaveLength(12);
    expect(["onnx", "coreml", "safetensors"].map((name) => audienceOf(offer(name)))).toEqual(["code", "apps", "code"]);
  });

  test("gives a file a name that every system takes", () => {
    expect(suggestedName("Support tone", named("gguf-q4_k_m"))).toBe("Support-tone-Q4_K_M.gguf");
    expect(suggestedName("tone", named("gguf-bf16"))).toBe("tone-BF16.gguf");
    expect(suggestedName("tone", named("gguf-adapter"))).toBe("tone-adapter.gguf");
    expect(suggestedName("tone", named("merged"))).toBe("tone-merged");
    expect(suggestedName("flowers", offer("onnx", { ending: "onnx" }))).toBe("flowers.onnx");
    expect(suggestedName("flowers", offer("coreml", { ending: "mlmodel" }))).toBe("flowers.mlmodel");
    expect(suggestedName("../a:b?", named("merged"))).toBe("a-b-merged");
    expect(suggestedName("…", named("merged"))).toBe("…-merged");
    expect(suggestedName(" ", named("merged"))).toBe("export-merged");
    expect(suggestedName("a".repeat(200), named("merged"))).toHaveLength(67);
  });
});

describe("how near an export is", () => {
  test("is said of the format before it is written", () => {
    expect(fidelityOf(offer("mlx-4bit", {})).text).toBe("Rounded");
    expect(["merged", "gguf-f16", "gguf-q8_0", "mlx"].map((name) => fidelityOf(named(name)).text)).toEqual(["Faithful", "Faithful", "Rounded", "Something is lost"]);
  });

  test("is what was measured, once it is", () => {
    const q8 = named("gguf-q8_0");
    expect(fidelityOf(q8, written(compared()))).toEqual({ text: "Loss 1.210 → 1.222", tone: "warn" });
    expect(fidelityOf(q8, written(compared({ lossAfter: 1.211 })))).toEqual({ text: "Faithful to 0.001", tone: "ok" });
    expect(fidelityOf(q8, written(compared({ lossAfter: 1.2101 })))).toEqual({ text: "Faithful", tone: "ok" });
    // Held-out rows may be too short to show what is lost of longer texts.
    expect(fidelityOf(named("mlx"), written(compared({ lossAfter: 1.21 }))).text).toBe("Something is lost");
    expect(fidelityOf(offer("onnx"), written(null)).text).toBe("Faithful");
  });

  test("has its figures, of which texts that were never tokenized are none", () => {
    expect(figuresOf(compared()).map(({ value }) => value)).toEqual(["98.2 %", "1.210 → 1.222", "0.011", "14 of 14"]);
    expect(figuresOf(compared({ divergence: 0.00142, tokenizedAlike: null, what: "texts that come with Anneal" })).map(({ value, text }) => `${value} ${text}`)).toEqual([
      "98.2 % same next token",
      "1.210 → 1.222 loss",
      "0.0014 divergence, nats",
    ]);
    expect(figuresOf(compared({ divergence: 3e-9 }))[2]?.value).toBe("< 0.0001");
  });

  test("is said with the names of programs as they are written", () => {
    expect([whole("mlx-lm does not load it"), whole("llama.cpp differs")]).toEqual(["mlx-lm does not load it.", "llama.cpp differs."]);
  });
});

describe("the dialog of an export", () => {
  const onclose = vi.fn();
  let about = 0;

  // Another one each time, since exports outlive their dialog.
  beforeEach(() => void (about += 1));

  const open = (model = TONE, name = "Support tone") => render(Export, { model, name, about: `Adapter, ${about}`, onclose });
  const radio = (name: RegExp) => screen.getByRole<HTMLInputElement>("radio", { name });
  const choose = async (name: RegExp) => userEvent.click(await screen.findByRole("radio", { name }));
  const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));

  test("lists what can be written, and why something can’t", async () => {
    open();
    await screen.findByRole("radio", { name: "GGUF Q8_0 8.5 bits a weight 1.8 GB llama.cpp, Ollama, LM Studio, Jan Rounded" });
    expect(radio(/^GGUF Q8_0/).checked).toBe(true);
    expect(document.activeElement).toBe(radio(/^GGUF Q8_0/));
    expect(radio(/^MLX adapter/).disabled).toBe(true);
    expect(screen.getByText("mlx-lm computes this model otherwise: it does not know the attention factor of its positions; export it as GGUF.")).toBeTruthy();
  });

  test("shows those for apps or for code, of which one is always chosen", async () => {
    open();
    await choose(/^Adapter/);
    await choose(/^For apps$/);
    expect(screen.queryByRole("radio", { name: /^Adapter/ })).toBeNull();
    expect(radio(/^GGUF Q8_0/).checked).toBe(true);
    await choose(/^For code$/);
    expect(radio(/^Adapter/).checked).toBe(true);
    expect(screen.getAllByRole("radio")).toHaveLength(5);
  });

  test("asks where to, tells how far it is, and shows what was measured", async () => {
    const answers = held(vi.spyOn(api, "exportModel"));
    const pick = vi.spyOn(api, "pick");
    open();
    await choose(/^GGUF Q4_K_M/);
    await press("Export");
    expect(pick).toHaveBeenCalledWith("new_network", "Support-tone-Q4_K_M.gguf");
    await screen.findByText("Writing GGUF Q4_K_M…");
    const [model, format, path, force, compares, hear] = vi.mocked(api.exportModel).mock.calls[0]!;
    expect([model, format, path, force, compares]).toEqual([TONE, "gguf-q4_k_m", "/Users/mira/Documents/Support-tone-Q4_K_M.gguf", false, true]);
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Exporting…" }).disabled).toBe(true);
    hear({ written: 0.456 });
    await screen.findByText("45 %");
    hear({ written: null });
    await screen.findByText("Opening it again and comparing…");
    answers.answer({ ...written(compared()), path: path, bytes: 1.06e9 });
    await screen.findByText("Exported, reopened and compared");
    expect(screen.getByText("1.1 GB, compared on 8,192 tokens of held-out answers.")).toBeTruthy();
    expect(screen.getByText("same next token").parentElement?.textContent).toBe("same next token98.2 %");
    expect(radio(/^GGUF Q4_K_M.* Loss 1\.210 → 1\.222$/)).toBeTruthy();
    // What is told late has nothing to say any more.
    hear({ written: 1 });
    const reveal = vi.spyOn(api, "reveal").mockResolvedValue(null);
    await press("Reveal");
    expect(reveal).toHaveBeenCalledWith(path);
    expect(screen.queryByText(/^Writing/)).toBeNull();
  });

  test("writes nothing when nobody says where to", async () => {
    vi.spyOn(api, "pick").mockResolvedValue(null);
    const write = vi.spyOn(api, "exportModel");
    open();
    await choose(/^Merged model/);
    await press("Export");
    expect(write).not.toHaveBeenCalled();
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Export" }).disabled).toBe(false);
  });

  test("goes among the models of LM Studio without a question", async () => {
    const [write, pick] = [vi.spyOn(api, "exportModel"), vi.spyOn(api, "pick")];
    open();
    await choose(/^Merged model/);
    expect(screen.queryByRole("button", { name: "Export to LM Studio" })).toBeNull();
    await choose(/Q8_0/);
    await press("Export to LM Studio");
    await screen.findByText("Exported, reopened and compared");
    expect(write.mock.lastCall?.slice(1, 3)).toEqual(["gguf-q8_0", null]);
    expect(pick).not.toHaveBeenCalled();
    expect(screen.getByText(/\.lmstudio/)).toBeTruthy();
  });

  test("is added to Ollama where that is, and says what it is called there", async () => {
    vi.spyOn(api, "pick").mockResolvedValue("/Users/mira/Tone.gguf");
    open();
    await choose(/Q8_0/);
    await press("Export");
    await screen.findByText("Exported, reopened and compared");
    const add = vi.spyOn(api, "addToOllama").mockRejectedValueOnce(refused("failed", "Ollama did not take the model: could not connect"));
    await press("Add to Ollama");
    expect(await screen.findByText(/could not connect/)).toBeTruthy();
    await press("Add to Ollama");
    expect((await screen.findByText("anneal/tone")).tagName).toBe("CODE");
    expect(add.mock.lastCall).toEqual(["/Users/mira/Tone.gguf"]);
  });

  test("says what is lost before it is written, and then insists", async () => {
    const write = vi.spyOn(api, "exportModel");
    open();
    await choose(/^MLX model/);
    expect(screen.getByText(/^mlx-lm does not know that layers of this model see no further/)).toBeTruthy();
    await press("Export anyway");
    await screen.findByText("Exported, reopened and compared");
    expect(write.mock.lastCall?.[3]).toBe(true);
  });

  test("says at the format what went wrong, and insists only where that helps", async () => {
    const write = vi.spyOn(api, "exportModel").mockRejectedValueOnce(refused("failed", "the disk is full")).mockRejectedValueOnce(refused("needs_force", "the window is lost"));
    open();
    await choose(/^Merged model/);
    await press("Export");
    expect((await screen.findByRole("alert")).textContent).toContain("the disk is full");
    await choose(/^GGUF F16/);
    expect(screen.queryByRole("alert")).toBeNull();
    await press("Export");
    await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("the window is lost"));
    await press("Export anyway");
    expect(write.mock.lastCall?.[3]).toBe(true);
  });

  test("can be closed meanwhile, and shows the export when it is opened again", async () => {
    const answers = held(vi.spyOn(api, "exportModel"));
    const { unmount } = open();
    await choose(/^GGUF F32/);
    await press("Export");
    await screen.findByText("Writing GGUF F32…");
    unmount();
    const again = open();
    await screen.findByText("Writing GGUF F32…");
    answers.answer(written(compared({ lossAfter: 1.21 })));
    await screen.findByText("Exported, reopened and compared");
    expect(radio(/^GGUF F32/).checked).toBe(true);
    again.unmount();
    // A run that learned more is another.
    about += 1;
    open();
    await choose(/^GGUF F32/);
    expect(screen.queryByText("Exported, reopened and compared")).toBeNull();
  });

  test("ends when it is stopped, and what was stopped has not failed", async () => {
    const stopExport = vi.spyOn(api, "stopExport").mockResolvedValue(null);
    let fail = (_: Error) => {};
    vi.spyOn(api, "exportModel").mockReturnValueOnce(new Promise((_, reject) => (fail = reject)));
    open();
    await choose(/^GGUF F32/);
    await press("Export");
    await screen.findByText("Writing GGUF F32…");
    await press("Stop export");
    expect(stopExport).toHaveBeenCalledExactlyOnceWith(TONE);
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Stopping…" }).disabled).toBe(true);
    fail(new Error("it was asked to stop before it was done"));
    await waitFor(() => expect(screen.queryByRole("button", { name: "Stopping…" })).toBeNull());
    expect(screen.queryByText(/asked to stop/)).toBeNull();
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Export" }).disabled).toBe(false);
  });

  test("is written without a comparison that does not fit into memory once that is chosen", async () => {
    const exportModel = vi.spyOn(api, "exportModel");
    open();
    await choose(/^GGUF BF16/);
    const button = () => screen.getByRole<HTMLButtonElement>("button", { name: "Export" });
    expect(screen.getByText(/^Comparing what is written with the model takes 8 GB of memory/)).toBeTruthy();
    expect(button().disabled).toBe(true);
    await userEvent.click(screen.getByRole("checkbox", { name: "Export without comparing" }));
    await press("Export");
    await screen.findByText("Not compared with what was trained", { exact: false });
    expect(exportModel.mock.lastCall?.slice(1, 5)).toEqual(["gguf-bf16", expect.anything(), false, false]);
    expect(screen.queryByText("Exported, reopened and compared")).toBeNull();
    // What fits is compared as always.
    await choose(/^GGUF Q8_0/);
    expect(screen.queryByRole("checkbox", { name: "Export without comparing" })).toBeNull();
    await press("Export");
    await screen.findByText("Exported, reopened and compared");
    expect(exportModel.mock.lastCall?.[4]).toBe(true);
  });

  test("says why nothing can be written of a model", async () => {
    open("/models/Qwen3", "Qwen3");
    expect((await screen.findByRole("alert")).textContent).toContain("the weights are incomplete");
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Export" }).disabled).toBe(true);
    await press("Close");
    expect(onclose).toHaveBeenCalled();
  });
});

describe("an export is offered", () => {
  test("of finished runs of a kind that can be, and of no others", async () => {
    const view = await api.run(TONE);
    const { unmount } = render(Actions, { run: view, place: null, onerror: vi.fn() });
    await userEvent.click(screen.getByRole("button", { name: "Export…" }));
    expect(screen.getByRole("dialog", { name: "Export “Support tone”" }).textContent).toContain("Adapter for SmolLM2-1.7B-Instruct, best step 2,000");
    unmount();
    render(Actions, { run: { ...view, task: "puzzle" }, place: null, onerror: vi.fn() });
    expect(screen.queryByRole("button", { name: "Export…" })).toBeNull();
  });

  test("once on a page", async () => {
    render(Actions, { run: await api.run(TONE), place: null, onerror: vi.fn() });
    await userEvent.click(screen.getByRole("button", { name: "More" }));
    expect(screen.queryByRole("menuitem", { name: "Export…" })).toBeNull();
  });

  test("beside whatever else can be done with a run, in the same order everywhere", async () => {
    const view = await api.run(TONE);
    const { unmount } = render(RunMenu, { run: view, text: "More", onerror: vi.fn(), onrenamed: vi.fn(), ondeleted: vi.fn() });
    await userEvent.click(screen.getByRole("button", { name: "More" }));
    expect(screen.getAllByRole("menuitem").slice(0, 4).map((item) => item.textContent?.trim())).toEqual(["Chat", "Serve", "Export…", "Same settings again"]);
    await userEvent.click(screen.getByRole("menuitem", { name: "Serve" }));
    expect(route.now).toEqual({ page: "serve", name: TONE });
    unmount();
    render(Results, { runs: [view] });
    expect(screen.getAllByRole("button", { name: /: Support tone$/ }).map((button) => button.textContent)).toEqual(["Chat", "Serve", "Export"]);
    await userEvent.click(screen.getByRole("button", { name: "Export: Support tone" }));
    expect(await screen.findByRole("dialog", { name: "Export “Support tone”" })).toBeTruthy();
  });

  test("of a run that was stopped, in its menu", async () => {
    render(Actions, { run: await api.run("2026-11-15-tone-of-voice-0d3c"), place: null, onerror: vi.fn() });
    expect(screen.queryByRole("button", { name: "Export…" })).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "More" }));
    await userEvent.click(screen.getByRole("menuitem", { name: "Export…" }));
    expect(await screen.findByRole("dialog", { name: "Export “Tone of voice”" })).toBeTruthy();
  });

  test("of models that can be used, by the last part of their name", async () => {
    const pick = vi.spyOn(api, "pick").mockResolvedValue(null);
    vi.spyOn(api, "exports").mockResolvedValue([named("gguf-q8_0")]);
    render(Models);
    const about = async (name: RegExp) => {
      const head = (await screen.findByRole("button", { name })).closest("tr")!;
      await userEvent.click(within(head).getByRole("button", { name }));
      return within(head.nextElementSibling as HTMLElement);
    };
    expect((await about(/^EleutherAI/)).queryByRole("button", { name: "Export…" })).toBeNull();
    await userEvent.click((await about(/^Qwen\/Qwen3/)).getByRole("button", { name: "Export…" }));
    expect(screen.getByRole("dialog", { name: "Export “Qwen/Qwen3-0.6B-Base”" }).textContent).toContain("qwen3 · 596 M parameters");
    await screen.findByRole("radio", { name: /^GGUF Q8_0/ });
    await userEvent.click(screen.getByRole("button", { name: "Export" }));
    expect(pick).toHaveBeenCalledWith("new_network", "Qwen3-0.6B-Base-Q8_0.gguf");
  });
});
