// Models as the list shows them.

import type { ModelView } from "../../api";
import { short } from "../../lib/format";
import { sortedBy } from "../../lib/ordered";
import { hasWords, quoted, whole, withoutPath } from "../../lib/words";

export type Column = "name" | "parameters" | "bytes" | "context";

export const PLACES: Record<ModelView["place"], { short: string; long: string }> = {
  own: { short: "in Anneal’s folder", long: "In Anneal’s own folder. It can be deleted here." },
  added: { short: "in a folder you added", long: "In a folder you added. It can be taken out of the list; its files stay." },
  cache: {
    short: "in the shared cache",
    long: "In the cache that all programs of the Hugging Face Hub share. Activity shows the size of each revision, and deletes it.",
  },
};

/** What it does in a talk; nothing where it can’t be used. */
export function usesOf({ problem, answers, chatOnly }: ModelView): string | null {
  if (problem !== null) return null;
  return [answers ? "answers" : "continues text", chatOnly && "chat only"].filter(Boolean).join(" · ");
}

/** What it is, in few words. */
export function aboutOf({ architecture, parameters }: ModelView): string {
  return [architecture, parameters === null ? null : `${short(parameters)} parameters`].filter((part) => part !== null).join(" · ");
}

/** Why it can’t be used, and what can be done: “The weights are incomplete. Download the model again.” */
export function problemOf({ problem }: ModelView): string | null {
  if (problem === null) return null;
  const text = whole(quoted(withoutPath(problem.message).text));
  return problem.hint === null ? text : `${text} ${whole(quoted(problem.hint))}`;
}

/** The models with all words in their name, maker or architecture, in order of a column. What has no number comes last. */
export function listed(models: ModelView[], words: string, column: Column, isDown: boolean): ModelView[] {
  const fitting = models.filter((model) => hasWords(`${model.name} ${model.architecture ?? ""}`, words));
  return sortedBy(fitting, (model) => model[column], isDown);
}

/** Whether it can be trained, and exported. */
export const canTrain = ({ problem, chatOnly }: ModelView): boolean => problem === null && chatOnly === null;

/** The smallest model that can be trained; of those that answer, if any does. It fits, if one does. */
export function smallest(models: ModelView[]): ModelView | undefined {
  const usable = sortedBy(models.filter(canTrain), (model) => model.bytes, false);
  return usable.find(({ answers }) => answers) ?? usable[0];
}

/** The folder that the user added and that a model lies in. It may have others too. */
export function addedFolder(folders: string[], path: string): string | undefined {
  return folders.find((folder) => path === folder || path.startsWith(`${folder}/`) || path.startsWith(`${folder}\\`));
}
