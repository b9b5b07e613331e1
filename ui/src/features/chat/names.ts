// How what is used for chat is called.

import type { ModelView, RunView } from "../../api";
import { parts } from "../../lib/paths";

/** The name of a folder. In the cache of the Hugging Face Hub it stands two folders above the files. */
export function folderName(path: string): string {
  const folders = parts(path);
  const cached = folders.find((folder) => folder.startsWith("models--"));
  return (cached ? cached.split("--").pop() : folders.pop()) ?? path;
}

/** The name to show for a run's id, a model's folder or its name. */
export function titleOf(name: string, runs: RunView[], models: ModelView[]): string {
  const run = runs.find(({ id }) => id === name);
  const model = models.find((one) => one.path === name || one.name === name);
  return run?.name ?? (model ? folderName(model.name) : folderName(name));
}

/** A name that every file system takes. */
export function fileName(title: string): string {
  const plain = title.replace(/[\u0000-\u001f/\\:*?"<>|]+/g, " ").replace(/^[. ]+/, "").trim();
  return `${plain.slice(0, 80).trim() || "Conversation"}.md`;
}
