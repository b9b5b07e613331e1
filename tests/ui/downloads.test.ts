// Downloads, the shared cache and the account: what is known without a screen, and what a person meets.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { api, type CachedRevisionView, type CachedView, type DownloadFileView, type DownloadView, type HubView, type News, type RunView } from "../../ui/src/api";
import Sidebar from "../../ui/src/components/Sidebar.svelte";
import { contents, largestFirst, neededWords, needing, titleOf } from "../../ui/src/features/downloads/cached";
import DeleteCached from "../../ui/src/features/downloads/DeleteCached.svelte";
import Downloads from "../../ui/src/features/downloads/Downloads.svelte";
import DownloadList from "../../ui/src/features/downloads/DownloadList.svelte";
import { amount, gistOf, lostBytes, pace, share, wholeFiles } from "../../ui/src/features/downloads/words";
import HuggingFace from "../../ui/src/features/settings/HuggingFace.svelte";
import { go, route } from "../../ui/src/routes.svelte";
import { app, follow } from "../../ui/src/status.svelte";
import { download, held, MB, refused } from "./made";

const file = (doneBytes: number, totalBytes: number): DownloadFileView => ({ path: `${doneBytes}-of-${totalBytes}`, doneBytes, totalBytes });
const revision = (more: Partial<CachedRevisionView> = {}): CachedRevisionView => ({
  commit: "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
  names: ["main"],
  path: "/cache/models--maker--small/snapshots/93efa2f",
  files: 6,
  bytes: 271 * MB,
  freedBytes: 271 * MB,
  fetched: null,
  ...more,
});
const repository = (id: string, bytes: number, kind: CachedView["kind"] = "model"): CachedView => ({ kind, id, bytes, revisions: [revision({ bytes, freedBytes: bytes })] });
const hub: HubView = { endpoint: "https://huggingface.co", offline: null, tokenPlace: null, cache: "/cache", freeBytes: 9.8e9 };
const button = (name: string | RegExp) => screen.getByRole("button", { name });

beforeEach(() => {
  vi.spyOn(api, "hub").mockResolvedValue(hub);
  vi.spyOn(api, "runs").mockResolvedValue([]);
  vi.spyOn(api, "cached").mockResolvedValue([]);
  vi.spyOn(api, "downloads").mockImplementation(async () => app.downloads);
});

afterEach(() => {
  app.downloads = [];
  go({ page: "home" });
});

describe("a download in words", () => {
  test("says how much of it is here, and no more than is known", () => {
    expect(amount({ doneBytes: 43 * MB, totalBytes: 271 * MB })).toBe("43 MB of 271 MB");
    expect(amount({ doneBytes: 0, totalBytes: 271 * MB })).toBe("271 MB");
    expect(amount({ doneBytes: 271 * MB, totalBytes: 271 * MB })).toBe("271 MB");
    expect(amount({ doneBytes: 0, totalBytes: 0 })).toBe("");
    expect([share({ doneBytes: 0, totalBytes: 0 }), share({ doneBytes: 1, totalBytes: 4 })]).toEqual([0, 0.25]);
  });

  test("has a rate and the time left as soon as they are known", () => {
    expect(pace(12 * MB, 20)).toBe("12 MB/s · 20 s left");
    expect(pace(12 * MB, null)).toBe("12 MB/s");
    expect([pace(null, null), pace(0, null)]).toEqual(["starting", "starting"]);
  });

  test("loses only parts of files when it is cancelled", () => {
    const files = [file(10, 10), file(4, 10), file(0, 10), file(3, 5)];
    expect(lostBytes(download({ files }))).toBe(7);
    expect(wholeFiles(download({ files }))).toEqual([file(10, 10)]);
  });
});

describe("the foot of the sidebar", () => {
  test("is silent when nothing is downloaded, and when all of it is here", () => {
    expect(gistOf([])).toBeUndefined();
    expect(gistOf([download({ state: "done" })])).toBeUndefined();
  });

  test("names the only one, with how far and how fast it is", () => {
    expect(gistOf([download(), download({ state: "done" })])).toMatchObject({ title: "small", amount: "43 MB of 271 MB", pace: "12 MB/s · 19 s left", held: "" });
    expect(gistOf([download({ state: "retrying" })])?.pace).toBe("waiting for the network");
    expect(gistOf([download({ state: "paused" })])).toMatchObject({ title: "small", pace: "paused", isHeld: true, hasFailed: false });
    expect(gistOf([download({ state: "failed" })])).toMatchObject({ pace: "failed", hasFailed: true });
  });

  test("counts several, and says when all of them are here", () => {
    const waiting = download({ state: "waiting", doneBytes: 0, totalBytes: 12 * MB, bytesPerSecond: null, secondsLeft: null });
    expect(gistOf([download(), waiting])).toMatchObject({ title: "2 downloads", amount: "43 MB of 283 MB", pace: "12 MB/s · 20 s left" });
    // Nobody knows how long something takes whose size nobody knows.
    expect(gistOf([download(), { ...waiting, totalBytes: 0 }])?.pace).toBe("12 MB/s");
  });

  test("speaks of what is running, and beside it of what waits for somebody", () => {
    const held = [download({ state: "paused", totalBytes: 9e9 }), download({ state: "failed", totalBytes: 9e9 })];
    expect(gistOf([download(), ...held])).toMatchObject({ title: "small", amount: "43 MB of 271 MB", held: "1 paused, 1 failed", isHeld: false });
    expect(gistOf(held)).toMatchObject({ title: "2 downloads", pace: "1 paused, 1 failed", held: "", isHeld: true });
  });

  test("leads to the downloads from every page", async () => {
    app.downloads = [download()];
    render(Sidebar);
    await userEvent.click(button(/^small/));
    expect(route.now).toEqual({ page: "activity" });
  });

  test("keeps Models chosen while a model of the Hub is looked at, and Data for data", async () => {
    render(Sidebar);
    const chosen = () => screen.queryAllByRole("button", { current: "page" }).map((it) => it.textContent?.trim());
    for (const [kind, name] of [["model", "Models"], ["data", "Data"]] as const) {
      go({ page: "repository", kind, id: "maker/small" });
      await waitFor(() => expect(chosen()).toEqual([name]));
    }
    go({ page: "activity" });
    await waitFor(() => expect(chosen()).toEqual(["Activity"]));
  });
});

describe("the window", () => {
  test("shows the downloads as they were told last, even when an older answer comes later", async () => {
    let hear: (news: News) => void = () => undefined;
    vi.spyOn(api, "listen").mockImplementation(async (heard) => ((hear = heard), null));
    vi.spyOn(api, "settings").mockRejectedValue(new Error("none"));
    vi.spyOn(api, "status").mockRejectedValue(new Error("none"));
    const { answer } = held(vi.mocked(api.downloads));
    const stop = follow();
    hear({ kind: "downloads", downloads: [download({ doneBytes: 200 * MB })] });
    answer([download({ doneBytes: 0 })]);
    await new Promise((done) => setTimeout(done));
    expect(app.downloads.map(({ doneBytes }) => doneBytes)).toEqual([200 * MB]);
    stop();
  });
});

describe("a list of downloads", () => {
  test("pauses what is running, and continues with what does not", async () => {
    const pause = vi.spyOn(api, "pauseDownload").mockResolvedValue(null);
    const resume = vi.spyOn(api, "resumeDownload").mockResolvedValue(null);
    const { rerender } = render(DownloadList, { downloads: [download()] });
    await userEvent.click(button("Pause: maker/small"));
    expect(pause.mock.calls).toEqual([["a"]]);
    // It is the same button, so the keyboard stays where it is.
    const before = document.activeElement;
    for (const [state, name] of [["paused", "Resume: maker/small"], ["failed", "Try again: maker/small"]] as const) {
      await rerender({ downloads: [download({ state })] });
      expect(button(name)).toBe(before);
      await userEvent.click(button(name));
    }
    expect(resume.mock.calls).toEqual([["a"], ["a"]]);
  });

  test("asks before much is lost, and says what is lost and what stays", async () => {
    const cancel = vi.spyOn(api, "cancelDownload").mockResolvedValue(null);
    render(DownloadList, { downloads: [download({ files: [file(900 * MB, 900 * MB), file(322 * MB, 900 * MB)] })] });
    await userEvent.click(button("Cancel: maker/small"));
    expect(cancel).not.toHaveBeenCalled();
    const dialog = screen.getByRole("dialog", { hidden: true });
    expect(dialog.textContent).toMatch(/322 MB .* are deleted/);
    expect(dialog.textContent).toMatch(/whole stays in the shared cache, 900 MB/);
    await userEvent.click(within(dialog).getByText("Cancel the download"));
    expect(cancel.mock.calls).toEqual([["a"]]);
  });

  test("does not ask where little or nothing is lost", async () => {
    const cancel = vi.spyOn(api, "cancelDownload").mockResolvedValue(null);
    const { rerender } = render(DownloadList, { downloads: [download({ files: [file(900 * MB, 900 * MB), file(MB, 900 * MB)] })] });
    await userEvent.click(button("Cancel: maker/small"));
    await rerender({ downloads: [download({ state: "done", files: [file(900 * MB, 900 * MB)] })] });
    await userEvent.click(button("Remove maker/small from the list"));
    expect(cancel.mock.calls).toEqual([["a"], ["a"]]);
  });

  test("says why one failed, and what could not be done", async () => {
    const problem = refused("failed", "the download needs 2.1 GB more and 0.3 GB are free", "free some space");
    vi.spyOn(api, "resumeDownload").mockRejectedValue(refused("failed", "the disk is still full"));
    render(DownloadList, { downloads: [download({ state: "failed", problem })] });
    expect(screen.getByRole("alert").textContent).toMatch(/needs 2\.1 GB more.*free some space/s);
    await userEvent.click(button("Try again: maker/small"));
    expect(screen.getAllByRole("alert").map((it) => it.textContent).join()).toMatch(/still full/);
  });

  test("is calm about one that waits for the network", () => {
    const problem = refused("offline", "The Hub can't be reached.");
    render(DownloadList, { downloads: [download({ state: "retrying", problem })] });
    expect(screen.queryByRole("alert")).toBeNull();
    expect(screen.getByText("The Hub can't be reached.")).toBeTruthy();
  });

  test("shows the files only when they are asked for, each with how far it is", async () => {
    render(DownloadList, { downloads: [download({ files: [file(10 * MB, 10 * MB), file(4 * MB, 10 * MB)] })] });
    expect(screen.getAllByRole("progressbar").length).toBe(1);
    await userEvent.click(button("Files of maker/small"));
    const files = within(screen.getByRole("list", { name: "Files of maker/small" }));
    expect(files.getAllByRole<HTMLProgressElement>("progressbar").map(({ value }) => value)).toEqual([1, 0.4]);
    expect(files.getByText("4.0 MB of 10 MB")).toBeTruthy();
  });

  test("leads on from what is here: to a chat, to training, and to the data", async () => {
    const { rerender } = render(DownloadList, { downloads: [download({ state: "done", path: "/cache/small" })] });
    await userEvent.click(button("Chat with maker/small"));
    expect(route.now).toEqual({ page: "chat", name: "/cache/small", title: "maker/small" });
    await userEvent.click(button("Train maker/small"));
    expect(route.now).toEqual({ page: "train", filled: { model: "/cache/small" } });
    // A single file is no model.
    await rerender({ downloads: [download({ state: "done", path: "/cache/small", part: "small-q4.gguf", usable: false })] });
    expect(screen.queryByRole("button", { name: /^Chat/ })).toBeNull();
    vi.spyOn(api, "dataSets").mockResolvedValue([{ id: "other", path: "/other" }, { id: "sums", path: "/cache/sums" }] as never);
    await rerender({ downloads: [download({ kind: "data", id: "maker/sums", state: "done", path: "/cache/sums", part: "train" })] });
    await userEvent.click(button("Open maker/sums, train in Data"));
    await waitFor(() => expect(route.now).toEqual({ page: "data", id: "sums" }));
  });
});

describe("the shared cache", () => {
  test("has the largest first, and is summed up in words", () => {
    const cached = [repository("maker/small", MB), repository("maker/sums", 3 * MB, "data"), repository("maker/large", 2 * MB)];
    expect(largestFirst(cached).map(({ id }) => id)).toEqual(["maker/sums", "maker/large", "maker/small"]);
    expect(contents(cached)).toBe("2 models and 1 data set");
    expect(contents(cached.slice(1, 2))).toBe("1 data set");
    expect([titleOf(revision({ names: ["main", "v1"] })), titleOf(revision({ names: [] }))]).toEqual(["main, v1", "93efa2f"]);
  });

  test("knows which runs are nothing without a model in it", () => {
    const { path } = revision();
    const runs = [{ name: "a", method: "lora", base: path }, { name: "b", method: "full", base: path }, { name: "c", method: "lora", base: "/other" }, { name: "d", task: "probe", method: "", base: path }] as RunView[];
    expect(needing(runs, revision()).map(({ name }) => name)).toEqual(["a", "d"]);
    expect(neededWords(runs)).toBe("4 runs can’t be used without it: “a”, “b”, “c” and 1 more.");
  });

  test("deletes a revision only after saying exactly what that frees", async () => {
    const shared = revision({ freedBytes: 2 * MB });
    const remove = vi.spyOn(api, "deleteCached").mockResolvedValue(2 * MB);
    vi.mocked(api.cached).mockResolvedValue([{ kind: "model", id: "maker/small", bytes: 273 * MB, revisions: [shared, revision({ commit: "0ld", names: [], freedBytes: 2 * MB })] }]);
    render(Downloads);
    await userEvent.click(await screen.findByRole("button", { name: "maker/small" }));
    await userEvent.click(button("Delete main of maker/small"));
    const dialog = screen.getByRole("dialog", { hidden: true });
    expect(dialog.textContent).toMatch(/frees 2\.0 MB: 269 MB of its files belong to another revision too, and stay/);
    expect(dialog.textContent).toMatch(/Python’s, will fetch it again/);
    expect(remove).not.toHaveBeenCalled();
    await userEvent.click(within(dialog).getByText("Delete"));
    expect(remove.mock.calls).toEqual([["model", "maker/small", shared.commit]]);
    await screen.findByText(/2\.0 MB are free again/);
  });

  test("says so when deleting frees nothing, and which runs would be left without their model", () => {
    const needed = [{ name: "Support tone" }] as RunView[];
    render(DeleteCached, { repository: repository("maker/small", MB), revision: revision({ freedBytes: 0 }), needed, onclose: vi.fn(), onremove: vi.fn() });
    const { textContent } = screen.getByRole("dialog", { hidden: true });
    expect(textContent).toMatch(/frees nothing: all of its files belong to another revision/);
    expect(textContent).toMatch(/“Support tone” can’t be used without it\./);
  });

  test("is looked at again when a download is done, and not before", async () => {
    app.downloads = [download()];
    render(Downloads);
    await waitFor(() => expect(api.cached).toHaveBeenCalledTimes(1));
    app.downloads = [download({ doneBytes: 200 * MB })];
    await new Promise((done) => setTimeout(done));
    expect(api.cached).toHaveBeenCalledTimes(1);
    app.downloads = [download({ state: "done" })];
    await waitFor(() => expect(api.cached).toHaveBeenCalledTimes(2));
  });

  test("and the list of downloads say what to do next when there is nothing in them", async () => {
    render(Downloads);
    await userEvent.click(await screen.findByRole("button", { name: "Find a model" }));
    expect(route.now).toEqual({ page: "models", tab: "hub" });
  });

  test("and the list of downloads say why they can't be shown, and can be asked again", async () => {
    vi.mocked(api.downloads).mockRejectedValueOnce(refused("failed", "no list"));
    vi.mocked(api.cached).mockRejectedValueOnce(refused("failed", "no cache")).mockResolvedValue([repository("maker/small", MB)]);
    render(Downloads);
    await waitFor(() => expect(screen.getAllByRole("alert").map((it) => it.querySelector("p")?.textContent)).toEqual(["no list", "no cache"]));
    for (const again of screen.getAllByRole("button", { name: "Try again" })) await userEvent.click(again);
    await screen.findByRole("button", { name: "maker/small" });
    expect(screen.queryByRole("alert")).toBeNull();
  });
});

describe("the account", () => {
  const user = { name: "mira", fullName: null, tokenPlace: "the keychain of the system" };

  test("takes a token that is never shown, and gone once it was sent", async () => {
    vi.spyOn(api, "hubUser").mockResolvedValue(null);
    const login = vi.spyOn(api, "hubLogin");
    const { answer } = held(login);
    render(HuggingFace);
    const field = await screen.findByLabelText<HTMLInputElement>("Token");
    expect(field.type).toBe("password");
    await userEvent.type(field, " hf_secret ");
    await userEvent.click(button("Log in"));
    expect(login.mock.calls).toEqual([["hf_secret"]]);
    expect(field.value).toBe("");
    answer(user);
    await screen.findByText("Logged in as mira.");
    expect(document.body.innerHTML).not.toContain("hf_secret");
    expect(screen.getByText("The token is in the keychain of the system.")).toBeTruthy();
  });

  test("opens the page of tokens in the browser", async () => {
    vi.spyOn(api, "hubUser").mockResolvedValue(null);
    const open = vi.spyOn(api, "openLink").mockResolvedValue(null);
    render(HuggingFace);
    await userEvent.click(await screen.findByRole("button", { name: "access token" }));
    expect(open.mock.calls).toEqual([["https://huggingface.co/settings/tokens"]]);
  });

  test("shows the rest while the Hub is asked, and says quietly that it can't be", async () => {
    vi.mocked(api.hub).mockResolvedValue({ ...hub, tokenPlace: user.tokenPlace, endpoint: "https://hub.example.org" });
    const { refuse } = held(vi.spyOn(api, "hubUser"));
    render(HuggingFace);
    await screen.findByText(/Checking whose it is/);
    expect(screen.getByText("/cache")).toBeTruthy();
    expect(screen.getByText("https://hub.example.org")).toBeTruthy();
    refuse(refused("offline", "There is no network."));
    await screen.findByText(/Can’t check whose it is\. There is no network\./);
    expect(screen.queryByRole("alert")).toBeNull();
    vi.mocked(api.hubUser).mockResolvedValue(user);
    await userEvent.click(button("Try again"));
    await screen.findByText("mira");
  });

  test("says when a token stays that is not Anneal's to forget", async () => {
    vi.mocked(api.hub).mockResolvedValue({ ...hub, tokenPlace: "the login of another program: `/users/mira/token`" });
    vi.spyOn(api, "hubUser").mockResolvedValue(user);
    const logout = vi.spyOn(api, "hubLogout").mockResolvedValue(null);
    vi.mocked(api.hubUser).mockResolvedValue({ ...user, tokenPlace: "the login of another program: `/users/mira/token`" });
    render(HuggingFace);
    // Its path stands apart.
    expect((await screen.findByText("/users/mira/token")).className).toContain("path");
    expect(screen.getByText(/The token is in the login of another program\./)).toBeTruthy();
    await userEvent.click(await screen.findByRole("button", { name: "Log out" }));
    expect(logout).toHaveBeenCalledTimes(1);
    await screen.findByText(/There is another one in the login of another program\./);
  });

  test("names what is wrong with a token, and takes another", async () => {
    vi.spyOn(api, "hubUser").mockResolvedValue(null);
    vi.spyOn(api, "hubLogin").mockRejectedValue(refused("failed", "the Hub does not know this token"));
    render(HuggingFace);
    await userEvent.type(await screen.findByLabelText("Token"), "hf_wrong{Enter}");
    await waitFor(() => expect(screen.getByRole("alert").textContent).toMatch(/does not know this token/));
    expect(screen.getByLabelText<HTMLInputElement>("Token").value).toBe("");
    expect(button("Log in").hasAttribute("disabled")).toBe(true);
  });
});
