// The pictures of README.md and of the guide, of the window with the made-up app behind it: `npm run pictures`, with names for some.

import { join } from "node:path";

import { root } from "../../.ci/setup.mjs";
import { open, settled } from "./stage.mjs";

const PICTURES = {
  home: { route: { page: "home" } },
  train: { route: { page: "train", filled: { name: "Support tone", method: "lora", model: "SmolLM2-1.7B-Instruct", "data.files": "[/Users/mira/Documents/support.jsonl]" } } },
  run: { route: { page: "run", id: "2026-11-20-support-tone-3e90" } },
  chat: { route: { page: "chat", conversation: "2026-11-21-parcel" } },
  data: { route: { page: "data", id: "support-4b1e" } },
  "puzzle-run": { route: { page: "run", id: "2026-11-16-sudoku-9-9-5d21" }, act: (page) => page.getByRole("slider", { name: "Step of thinking" }).fill("6") },
  "probe-chat": { route: { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, act: shade },
  "probe-steer": { route: { page: "chat", name: "2026-11-20-support-tone-3e90", title: "Support tone" }, act: steer },
  "probe-run": { route: { page: "run", id: "2026-11-17-messages-4c2e" } },
  "picture-run": { route: { page: "run", id: "2026-11-15-garden-flowers-7c1d" } },
  classify: { route: { page: "predict", name: "2026-11-15-garden-flowers-7c1d", title: "Garden flowers" }, act: classify },
  solve: { route: { page: "solve", name: "2026-11-16-sudoku-9-9-5d21" }, act: solve },
};

/** Has an answer written under the eyes of probes. */
async function shade(page) {
  await page.getByRole("button", { name: /^Probes/ }).click();
  await page.getByRole("checkbox", { name: /cognitive-actions/ }).check();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("textbox", { name: "Message" }).fill("Why?");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(/tokens · /).waitFor();
}

/** Has a model led while it answers. */
async function steer(page) {
  await page.getByRole("button", { name: /^Steer/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Steer", exact: true }).click();
  await page.getByRole("slider", { name: /^Towards/ }).waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("My parcel was due on Tuesday. Where is it?");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(/tokens · /).nth(1).waitFor();
}

/** Has a picture classified. */
async function classify(page) {
  await page.getByRole("button", { name: "Open pictures…" }).first().click();
  await page.getByText(/hardly more than a guess/).waitFor();
}

/** Has a puzzle solved, and goes back to the middle of it. */
async function solve(page) {
  await page.getByRole("button", { name: "Held-out puzzle" }).click();
  await page.getByRole("button", { name: "Solve", exact: true }).click();
  await page.getByText(/^Solved at step/).waitFor();
  await page.getByRole("button", { name: "Show step 6" }).click();
  await page.getByRole("button", { name: /^Measure what/ }).click();
}

const wanted = process.argv.slice(2);

for (const [name, { route, act }] of Object.entries(PICTURES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const { page, faults, close } = await open(route);
  await settled(page);
  await act?.(page);
  await settled(page);
  await page.screenshot({ path: join(root, "docs", "images", `${name}.png`) });
  if (faults.length > 0) throw new Error(`${name}: ${faults.join("; ")}`);
  close();
}
process.exit(0);
