// Models as the page and the form know them, and what is done with what is dropped.

import { render, screen } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { afterEach, describe, expect, test, vi } from "vitest";

import { api, type ModelView } from "../../ui/src/api";
import ModelTable from "../../ui/src/features/models/ModelTable.svelte";
import { problemOf, smallest } from "../../ui/src/features/models/models";
import { quoted, whole, withoutPath } from "../../ui/src/lib/words";
import { route } from "../../ui/src/routes.svelte";
import { app, receive } from "../../ui/src/status.svelte";
import { refused } from "./made";

afterEach(() => void vi.restoreAllMocks());

function model(name: string, bytes: number, more: Partial<ModelView> = {}): ModelView {
  return { name, path: `/models/${name}`, place: "own", architecture: "llama", parameters: 1, bytes, context: 512, answers: true, chatOnly: null, problem: null, ...more };
}

describe("a model", () => {
  const cut = { code: "failed" as const, message: "the weights are incomplete: `/models/a/model.safetensors`", hint: "download the model again", details: "x", field: null };

  test("whose weights were cut off says so and what to do, without a path", () => {
    expect(problemOf(model("a", 1, { problem: cut }))).toBe("The weights are incomplete. Download the model again.");
    expect(problemOf(model("a", 1))).toBeNull();
  });

  test("that is damaged in the cache is downloaded again from its repository, and one that is strange isn’t", async () => {
    const strange = { ...cut, message: "the architecture is not known", hint: null, details: null };
    const models = [
      model("maker/cut/cut-q8_0.gguf", 1, { problem: cut, place: "cache" }),
      model("maker/strange", 1, { problem: strange, place: "cache" }),
      model("own", 1, { problem: cut }),
    ];
    render(ModelTable, { models, onexport: vi.fn(), onreveal: vi.fn(), onaway: vi.fn() });
    await userEvent.click(screen.getByRole("button", { name: /^Download .* again$/ }));
    expect(route.now).toEqual({ page: "repository", kind: "model", id: "maker/cut" });
  });

  test("is proposed when it is the smallest that can be used, before all one that answers", () => {
    const models = [model("large", 9), model("talks", 1, { chatOnly: "Chat only." }), model("cut", 1, { problem: cut }), model("base", 2, { answers: false }), model("small", 3)];
    expect(smallest(models)?.name).toBe("small");
    expect(smallest(models.slice(0, 4))?.name).toBe("large");
    expect(smallest(models.slice(3, 4))?.name).toBe("base");
    expect(smallest([])).toBeUndefined();
  });

  test("that is for chat only says so, and is offered for nothing else", async () => {
    const models = [model("talks", 1, { chatOnly: "Chat only: training knows llama." })];
    render(ModelTable, { models, onexport: vi.fn(), onreveal: vi.fn(), onaway: vi.fn() });
    expect(screen.getByText(/chat only/)).toBeTruthy();
    expect(screen.getByRole("button", { name: "Chat with talks" })).toBeTruthy();
    expect(screen.queryByRole("button", { name: /^Train from/ })).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: /^talks/ }));
    expect(screen.getByText("Chat only: training knows llama.")).toBeTruthy();
    expect(screen.queryByRole("button", { name: /^Export/ })).toBeNull();
  });
});

describe("words of the app", () => {
  test("have names between quotes, and a path apart", () => {
    expect(quoted("`a` is missing")).toBe("“a” is missing");
    expect(withoutPath("not text: `/a/b c.txt`")).toEqual({ text: "not text", path: "/a/b c.txt" });
    expect(withoutPath("not text: `C:\\a.txt`").path).toBe("C:\\a.txt");
    expect(withoutPath("there is no data `7`")).toEqual({ text: "there is no data `7`", path: undefined });
  });

  test("leave out what only a run file could say", () => {
    expect(whole("conversations in the layout `messages`; not used: `ticket`")).toBe("Conversations in the layout “messages”; not used: “ticket”.");
  });
});

describe("what is dropped", () => {
  test("goes where it belongs", async () => {
    const look = vi.spyOn(api, "lookAtPath");
    vi.spyOn(api, "importModel").mockResolvedValue(null);
    vi.spyOn(api, "readRunFile").mockResolvedValue({ method: "lora" });
    look.mockResolvedValueOnce({ kind: "model", path: "/models/tiny" });
    await receive(["/models/tiny/config.json"]);
    expect(api.importModel).toHaveBeenCalledWith("/models/tiny");
    expect(route.now).toEqual({ page: "models" });
    look.mockResolvedValueOnce({ kind: "run_file" });
    await receive(["/run.yaml"]);
    expect(route.now).toEqual({ page: "train", filled: { method: "lora" } });
  });

  test("and can’t be used says why, beside what can", async () => {
    const problem = { code: "invalid_request" as const, message: "pic.png is a picture", hint: null, field: null };
    vi.spyOn(api, "lookAtPath").mockImplementation(async (path) => (path.endsWith("png") ? { kind: "nothing", problem } : { kind: "data" }));
    vi.spyOn(api, "addData").mockResolvedValue({ id: "a" } as never);
    await receive(["/pic.png", "/a.txt"]);
    expect(route.now).toEqual({ page: "data", id: "a" });
    expect(app.problem).toMatchObject({ message: "pic.png is a picture" });
    vi.mocked(api.lookAtPath).mockRejectedValue(refused("failed", "gone"));
    await receive(["/x.gguf"]);
    expect(route.now).toEqual({ page: "models" });
    expect(app.problem).toMatchObject({ message: "gone" });
  });
});
