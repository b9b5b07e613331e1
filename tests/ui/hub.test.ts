// The Hub in the window: what is asked of it and when, and what its pages say.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";

import { api, Refused, type DataSetView, type DownloadView, type FoundListView, type SplitView } from "../../ui/src/api";
import { install } from "./fake";
import { cardText } from "../../ui/src/features/hub/card";
import { arrived, dataSetOf, downloadOf, partName, percentOf, standing } from "../../ui/src/features/hub/fetching";
import Hub from "../../ui/src/features/hub/Hub.svelte";
import Repository from "../../ui/src/features/hub/Repository.svelte";
import { HubSearch, searches, STEP } from "../../ui/src/features/hub/search.svelte";
import { canDo, named, sentence } from "../../ui/src/features/hub/words";
import { route } from "../../ui/src/routes.svelte";
import { app } from "../../ui/src/status.svelte";
import { EVENLY, growth } from "./growth";
import { download as downloadOfAny, held, refused } from "./made";

const offline = () => refused("offline", "no answer from `huggingface.co` after 10 s", "check the connection");
const download = (part: string | null, state: DownloadView["state"], doneBytes = 0) => downloadOfAny({ key: `${part}`, part, state, doneBytes, totalBytes: 1000 });

beforeAll(install);

afterEach(() => {
  app.downloads = [];
});

describe("words", () => {
  test("of the Hub are said to a person", () => {
    expect(named("openai/gsm8k")).toEqual({ maker: "openai/", name: "gsm8k" });
    expect(named("gpt2")).toEqual({ maker: "", name: "gpt2" });
    expect(sentence("there is no `config.json`")).toBe("There is no “config.json”.");
    expect(sentence("")).toBe("");
    expect(canDo(true, false)).toMatch(/chat, not for training/);
    expect(canDo(false, false)).toMatch(/neither/);
  });
});

describe("a description", () => {
  test("keeps its words without the tags of a web page", () => {
    const card = '<div align="center">\n    <img alt="Banner" src="x.png"/>\n    <h1>Name</h1>\n    Words <b>matter</b>.<br>More.\n</div>\n<!-- hidden -->';
    expect(cardText(card)).toBe("(picture: Banner)\n\n# Name\n\nWords **matter**.\nMore.");
  });

  test("makes links of Markdown out of those of HTML, and of pictures that lead somewhere", () => {
    expect(cardText('See <a href="https://example.org/a">the paper</a>.')).toBe("See [the paper](https://example.org/a).");
    expect(cardText("[![Licence](https://img.example/x.svg)](https://example.org)")).toBe("[Licence](https://example.org)");
    expect(cardText('<a href="https://example.org"><img alt="Chat" src="x"></a>')).toBe("[Chat](https://example.org)");
    expect(cardText("![](x.png)")).toBe("");
  });

  test("leaves code as it is, and words between angle brackets that are no tags", () => {
    const code = "```html\n<p>\n  <b>x</b>\n</p>\n```";
    expect(cardText(code)).toBe(code);
    expect(cardText("It writes `<b>` and <think> and <|im_end|>.")).toBe("It writes `<b>` and <think> and <|im_end|>.");
  });

  test.each(["<a ", "<div ", "![", "[](", "`", "<!--", "~~~\n"])("is read in a time that grows evenly with it, made of %j", (piece) => {
    expect(growth((amount) => cardText(piece.repeat(amount)), 5000)).toBeLessThan(EVENLY);
  });
});

describe("what is fetched of a repository", () => {
  test("is found among the downloads by what the app calls it", () => {
    expect(partName({})).toBeNull();
    expect(partName({ files: ["model-q4.gguf"] })).toBe("model-q4.gguf");
    expect(partName({ config: "main", split: "train" })).toBe("train of main");
    expect(partName({ config: "default", split: "train" })).toBe("train");
    const downloads = [download("model-q4.gguf", "going"), download(null, "paused")];
    expect(downloadOf(downloads, {})?.state).toBe("paused");
    expect(downloadOf(downloads, { files: ["model-q4.gguf"] })?.state).toBe("going");
    expect(downloadOf(downloads, { files: ["other"] })).toBeUndefined();
  });

  test("is never said to be whole before it is", () => {
    expect(percentOf(download(null, "going", 999.9))).toBe("99 %");
    expect(percentOf({ ...download(null, "going"), totalBytes: 0 })).toBe("0 %");
    expect(standing(download(null, "paused", 430))).toBe("Paused at 43 %");
  });

  test("changes what is here once it is done, and not before", () => {
    const before = arrived([download("a", "going"), download("b", "done")], "model");
    expect(arrived([download("a", "paused"), download("b", "done")], "model")).toBe(before);
    expect(arrived([download("a", "done"), download("b", "done")], "model")).not.toBe(before);
    expect(arrived([download("a", "done")], "data")).toBe("");
  });

  test("is found again in the list of data by its first file", () => {
    const sets = ["/cache/abc/main/train.parquet", "/cache/abc/main/test.parquet"].map((path) => ({ path }) as DataSetView);
    const part = (path: string) => ({ path }) as SplitView;
    expect(dataSetOf(sets, part("/cache/abc/main/test.parquet"))?.path).toBe("/cache/abc/main/test.parquet");
    expect(dataSetOf(sets, part("/cache/abc/other/test.parquet"))).toBeUndefined();
  });
});

describe("a search", () => {
  const list = (...ids: string[]): FoundListView => ({
    found: ids.map((id) => ({ id, task: null, license: null, downloads: null, likes: null, changed: null, gated: false, here: false })),
    more: true,
  });
  const ids = (search: HubSearch) => search.found?.found.map(({ id }) => id);

  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  test("asks nothing by itself, and waits until the typing stops", async () => {
    const ask = vi.spyOn(api, "hubSearch").mockResolvedValue(list("a/b"));
    const search = new HubSearch("model");
    await vi.advanceTimersByTimeAsync(1000);
    expect(ask).not.toHaveBeenCalled();
    search.type({ words: "smol" });
    search.type({ words: " smollm " });
    expect(search.busy).toBe(true);
    await vi.advanceTimersByTimeAsync(300);
    expect(ask.mock.calls).toEqual([[{ kind: "model", words: "smollm", author: "", task: "text-generation", sort: "downloads", limit: STEP }]]);
    expect(search.busy).toBe(false);
  });

  test("drops an answer that comes after that to a newer question", async () => {
    const { answer } = held(vi.spyOn(api, "hubSearch"));
    const search = new HubSearch("data");
    search.choose({ sort: "likes" });
    search.choose({ sort: "recent" });
    answer(list("new/one"), 1);
    answer(list("old/one"), 0);
    await vi.advanceTimersByTimeAsync(0);
    expect(ids(search)).toEqual(["new/one"]);
  });

  test("shows more of the same, and begins anew with other words", async () => {
    const ask = vi.spyOn(api, "hubSearch").mockResolvedValue(list("a/b"));
    const search = new HubSearch("model");
    search.enter();
    search.more();
    search.more();
    await vi.advanceTimersByTimeAsync(0);
    expect(ask.mock.calls.map(([{ limit }]) => limit)).toEqual([STEP, 2 * STEP, 3 * STEP]);
    search.choose({ task: "" });
    expect(ask.mock.lastCall?.[0]).toMatchObject({ task: "", limit: STEP });
  });

  test("keeps what was found when the same can't be asked again, but not for other words", async () => {
    const ask = vi.spyOn(api, "hubSearch").mockResolvedValueOnce(list("a/b"));
    const search = new HubSearch("model");
    search.enter();
    await vi.advanceTimersByTimeAsync(0);
    ask.mockRejectedValue(offline());
    search.more();
    await vi.advanceTimersByTimeAsync(0);
    expect([ids(search), search.error instanceof Refused]).toEqual([["a/b"], true]);
    search.type({ words: "other" });
    await vi.advanceTimersByTimeAsync(300);
    expect(search.found).toBeUndefined();
  });
});

describe("the list of the Hub", () => {
  test("is there again as it was left when a repository was looked at", async () => {
    const shown = render(Hub, { kind: "model" });
    await userEvent.type(screen.getByRole("searchbox", { name: /search models/i }), "smollm2-360m");
    await userEvent.click(await screen.findByRole("button", { name: /SmolLM2-360M-Instruct/ }));
    expect(route.now).toEqual({ page: "repository", kind: "model", id: "HuggingFaceTB/SmolLM2-360M-Instruct" });
    shown.unmount();
    render(Hub, { kind: "model" });
    expect(screen.getByRole<HTMLInputElement>("searchbox", { name: /search models/i }).value).toBe("smollm2-360m");
    const name = screen.getByRole("button", { name: /SmolLM2-360M-Instruct/ });
    await waitFor(() => expect(document.activeElement).toBe(name));
    searches.model.clear();
  });

  test("says quietly that the Hub can't be asked, and asks again when it is told to", async () => {
    const ask = vi.spyOn(api, "hubSearch").mockRejectedValueOnce(offline());
    render(Hub, { kind: "data" });
    await screen.findByText("Can’t reach Hugging Face");
    expect(screen.queryByRole("alert")).toBeNull();
    expect(screen.getByText("Check the connection.")).toBeTruthy();
    expect(screen.getByText(/No answer from “huggingface.co” after 10 s/).closest("details")?.open).toBe(false);
    await userEvent.click(screen.getByRole("button", { name: "Try again" }));
    await screen.findByRole("button", { name: /gsm8k/ });
    expect(ask).toHaveBeenCalledTimes(2);
  });

  test("shows how far a repository is that is being fetched", async () => {
    app.downloads = [{ ...download(null, "going", 430), kind: "data", id: "openai/gsm8k" }];
    render(Hub, { kind: "data" });
    const row = (await screen.findByRole("button", { name: /gsm8k/ })).closest("tr") as HTMLElement;
    expect(within(row).getByText("43 %")).toBeTruthy();
  });
});

describe("the page of a repository", () => {
  const show = (kind: "model" | "data", id: string) => render(Repository, { kind, id });

  test("says what a download takes before it starts, and starts it when it is told to", async () => {
    const start = vi.spyOn(api, "startDownload");
    show("model", "HuggingFaceTB/SmolLM2-135M-Instruct");
    const button = await screen.findByRole("button", { name: "Download 271 MB" });
    expect(start).not.toHaveBeenCalled();
    await userEvent.click(button);
    expect(start.mock.calls).toEqual([[{ kind: "model", id: "HuggingFaceTB/SmolLM2-135M-Instruct", revision: "", files: [], config: "", split: "" }]]);
    // What is running is shown in place of the button, and can be paused.
    await screen.findByRole("button", { name: /^Pause: / });
    expect(screen.queryByRole("button", { name: /^Download \d/ })).toBeNull();
  });

  test("is looked at again when its download is whole", async () => {
    const look = vi.spyOn(api, "hubRepository");
    const id = "HuggingFaceTB/SmolLM2-135M-Instruct";
    app.downloads = [{ ...download(null, "going", 430), id }];
    show("model", id);
    await screen.findByText("Downloading 43 %");
    app.downloads = [{ ...download(null, "going", 900), id }];
    await screen.findByText("Downloading 90 %");
    expect(look).toHaveBeenCalledTimes(1);
    app.downloads = [{ ...download(null, "done", 1000), id }];
    await screen.findByText("Downloaded");
    await waitFor(() => expect(screen.queryByText("Downloaded")).toBeNull());
    expect(look).toHaveBeenCalledTimes(2);
  });

  test("asks before it fetches a file that may do harm, in the words of the app", async () => {
    const start = vi.spyOn(api, "startDownload");
    show("model", "openai-community/gpt2-medium-of-2019");
    await userEvent.click(await screen.findByRole("button", { name: "Download pytorch_model.bin" }));
    const dialog = screen.getByRole("dialog", { hidden: true });
    expect(dialog.textContent).toMatch(/can run programs on this machine/);
    expect(start).not.toHaveBeenCalled();
    await userEvent.click(within(dialog).getByRole("button", { name: "Download anyway", hidden: true }));
    expect(start.mock.lastCall?.[0].files).toEqual(["pytorch_model.bin"]);
    const harmless = screen.getByRole<HTMLButtonElement>("button", { name: "Download config.json" });
    await waitFor(() => expect(harmless.disabled).toBe(false));
    await userEvent.click(harmless);
    expect(start.mock.lastCall?.[0].files).toEqual(["config.json"]);
  });

  test("leads to its page on the Hub, and to the account, where its makers ask first", async () => {
    const open = vi.spyOn(api, "openLink");
    vi.spyOn(api, "hub").mockResolvedValue({ endpoint: "https://huggingface.co", offline: null, tokenPlace: null, cache: "/c", freeBytes: null });
    show("model", "meta-llama/Llama-3.2-1B");
    await userEvent.click(await screen.findByRole("button", { name: "Open its page in the browser" }));
    expect(open.mock.calls).toEqual([["https://huggingface.co/meta-llama/Llama-3.2-1B"]]);
    expect(screen.queryByRole("button", { name: /^Download/ })).toBeNull();
    await userEvent.click(await screen.findByRole("button", { name: "Log in under Settings" }));
    expect(route.now).toEqual({ page: "settings" });
  });

  test("fetches the first rows of data only when a part is looked into, and a part only when it is told to", async () => {
    const rows = vi.spyOn(api, "hubFirstRows");
    const start = vi.spyOn(api, "startDownload");
    show("data", "HuggingFaceFW/fineweb-edu");
    const [first] = await screen.findAllByRole("button", { name: "train" });
    expect(rows).not.toHaveBeenCalled();
    await userEvent.click(first as HTMLElement);
    await screen.findByText(/The first 8 rows. 524 kB were fetched to show them/);
    expect(rows).toHaveBeenCalledTimes(1);
    expect(start).not.toHaveBeenCalled();
    await userEvent.click(screen.getByRole("button", { name: "Download train of sample-10BT, 28.5 GB" }));
    expect(start.mock.lastCall?.[0]).toMatchObject({ config: "sample-10BT", split: "train", files: [] });
  });

  test("says why there is nothing, and can be asked for again", async () => {
    show("model", "nobody/nothing");
    expect((await screen.findByRole("alert")).textContent).toMatch(/there is no “nobody\/nothing”/);
    expect(screen.getByRole("button", { name: "Try again" })).toBeTruthy();
  });
});
