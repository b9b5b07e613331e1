// What can be done with probes.

import { api, type RunView } from "../../api";
import { go } from "../../routes.svelte";
import type { Use } from "../kind";
import { beginWith } from "./probing.svelte";

/** Opens the model that the probes are of, with its answers shaded by them. */
async function open({ id, base }: RunView) {
  const found = await api.probeFolders(id).catch(() => undefined);
  if (found) beginWith(found.probes);
  go(base === null ? { page: "chat" } : { page: "chat", name: base });
}

export const uses: Use[] = [{ name: "probe", text: "Use in Playground", short: "Playground", open: (run) => void open(run) }];
