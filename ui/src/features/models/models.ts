// Models as the list shows them.

import type { ModelView } from "../../api";
import { sortedBy } from "../../lib/ordered";
import { hasWords } from "../../lib/words";

export type Column = "name" | "parameters" | "bytes" | "context";

export const PLACES: Record<ModelView["place"], { short: string; long: string }> = {
  own: { short: "in Anneal’s folder", long: "It lies in Anneal’s own folder, and can be deleted." },
  added: { short: "in a folder you added", long: "It lies in a folder you added, and can be taken out of the list. Its files stay." },
  cache: {
    short: "in the shared cache",
    long: "It lies in the cache that all programs of the Hugging Face Hub share. Downloads shows what each revision takes, and deletes it.",
  },
};

/** What it does; nothing where it can't be used, and says why not. */
export function usesOf({ problem, answers }: ModelView): string | null {
  if (problem !== null) return null;
  return answers ? "answers" : "continues text only";
}

/** The models with all words in their name, maker or architecture, in order of a column. What has no number comes last. */
export function listed(models: ModelView[], words: string, column: Column, isDown: boolean): ModelView[] {
  const fitting = models.filter((model) => hasWords(`${model.name} ${model.architecture ?? ""}`, words));
  return sortedBy(fitting, (model) => model[column], isDown);
}

/** The folder that the user added and that a model lies in. It may have others too. */
export function addedFolder(folders: string[], path: string): string | undefined {
  return folders.find((folder) => path === folder || path.startsWith(`${folder}/`) || path.startsWith(`${folder}\\`));
}
