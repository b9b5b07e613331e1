// What the page of the server knows without a screen.

import { render, screen, within } from "@testing-library/svelte";
import { userEvent } from "@testing-library/user-event";
import { beforeEach, describe, expect, test, vi } from "vitest";

import { api } from "../../ui/src/api";
import App from "../../ui/src/App.svelte";
import { example, LANGUAGES } from "../../ui/src/features/serve/examples";
import { serving } from "../../ui/src/features/serve/serving.svelte";
import { go } from "../../ui/src/routes.svelte";
import { install } from "./fake";

describe("an example", () => {
  const asked = { address: "http://127.0.0.1:1414/v1", model: "Mira's \"tone\"", answers: true, key: "" };

  test("asks as the model answers, in each language", () => {
    for (const { value } of LANGUAGES) {
      expect(example(value, asked)).toContain("chat");
      const text = example(value, { ...asked, answers: false });
      expect(text).not.toContain("chat");
      expect(text).toMatch(/prompt/);
    }
  });

  test("is whole for a shell, whatever the model is called", () => {
    const text = example("curl", { ...asked, key: "it's" });
    expect(text).toContain(`Authorization: Bearer it'\\''s`);
    // What the shell makes of the last word is JSON with the name.
    const word = /-d '(.*)'$/s.exec(text)?.[1]?.replaceAll("'\\''", "'") ?? "";
    expect(JSON.parse(word)).toMatchObject({ model: asked.model, messages: [{ role: "user" }] });
  });

  test("has a key only where one is needed, but clients that insist get a word", () => {
    expect(example("curl", asked)).not.toContain("Authorization");
    expect(example("python", asked)).toContain('api_key="none"');
    expect(example("javascript", { ...asked, key: "k" })).toContain('apiKey: "k"');
  });
});

describe("the page of the server", () => {
  beforeEach(async () => {
    await install();
    await serving.stop();
    go({ page: "serve", name: "2026-11-20-support-tone-3e90" });
    render(App);
  });

  const start = () => screen.findByRole("button", { name: "Start server" }, { timeout: 10_000 });

  test("starts it, shows where it is and what it did, and stops it", async () => {
    await userEvent.click(await start());
    expect(await screen.findByText("http://127.0.0.1:1414/v1")).toBeTruthy();
    expect(screen.getByText("Any key is accepted.")).toBeTruthy();
    const rows = within(screen.getByRole("group", { name: "Requests" })).getAllByRole("row");
    expect(rows).toHaveLength(8);
    // The newest comes first.
    expect(rows[1]?.textContent).toContain("the client left after 54 tokens");
    await userEvent.click(screen.getByRole("radio", { name: "Errors 2" }));
    expect(within(screen.getByRole("group", { name: "Requests" })).getAllByRole("row")).toHaveLength(3);
    await userEvent.click(screen.getByRole("radio", { name: "Python" }));
    expect(screen.getByLabelText("Example").textContent).toContain("from openai import OpenAI");
    await userEvent.click(screen.getByRole("button", { name: "Stop server" }));
    expect(await start()).toBeTruthy();
    expect(serving.server).toBeUndefined();
  });

  test("asks for a key only with one, and puts it into the examples", async () => {
    const started = vi.spyOn(api, "startServer");
    const button = (await start()) as HTMLButtonElement;
    await userEvent.click(screen.getByRole("checkbox", { name: "Require a key" }));
    expect(button.disabled).toBe(true);
    await userEvent.type(screen.getByRole("textbox", { name: "Key" }), "secret");
    await userEvent.click(button);
    expect(await screen.findByText("Clients need the key.")).toBeTruthy();
    expect(started).toHaveBeenCalledWith("2026-11-20-support-tone-3e90", { key: "secret", cache: "auto", slots: 4 }, false);
    expect(screen.getByLabelText("Example").textContent).toContain("Bearer secret");
  });

  test("answers as many at once as was chosen, with the cache that was chosen", async () => {
    const started = vi.spyOn(api, "startServer");
    const button = await start();
    await userEvent.click(screen.getByText("More settings"));
    await userEvent.click(screen.getByRole("radio", { name: "1" }));
    await userEvent.click(screen.getByRole("radio", { name: "Q8" }));
    await userEvent.click(button);
    expect(await screen.findByText(/One request is answered at a time/)).toBeTruthy();
    expect(started).toHaveBeenCalledWith(expect.anything(), { key: null, cache: "q8", slots: 1 }, false);
  });
});
