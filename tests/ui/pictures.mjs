// The pictures of README.md, of the window with the made-up app behind it: `npm run pictures`.

import { join } from "node:path";

import { root } from "../../.ci/setup.mjs";
import { open, settled } from "./stage.mjs";

const PICTURES = {
  home: { route: { page: "home" } },
  train: { route: { page: "train", filled: { name: "Support tone", method: "lora", model: "SmolLM2-1.7B-Instruct", "data.files": "[/Users/mira/Documents/support.jsonl]" } } },
  run: { route: { page: "run", id: "2026-11-20-support-tone-3e90" } },
  chat: { route: { page: "chat", conversation: "2026-11-21-parcel" } },
  data: { route: { page: "data", id: "support-4b1e" } },
};

for (const [name, { route }] of Object.entries(PICTURES)) {
  const { page, faults, close } = await open(route);
  await settled(page);
  await page.screenshot({ path: join(root, "docs", "images", `${name}.png`) });
  if (faults.length > 0) throw new Error(`${name}: ${faults.join("; ")}`);
  close();
}
process.exit(0);
