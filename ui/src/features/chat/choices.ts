// What can be used for chat: what runs have saved, and models.

import type { ModelView, RunView } from "../../api";
import { count, day, short } from "../../lib/format";
import { folderName } from "./names";

/** What has to be among the uses of a run. */
const USE = "chat";

export interface Choice {
  /** A run's id, or a model's folder. */
  name: string;
  title: string;
  /** `Step 2,000 · SmolLM2-1.7B-Instruct`. */
  about: string;
  /** When it was last trained. */
  when?: string;
  isRunning?: boolean;
}

export function runChoices(runs: RunView[]): Choice[] {
  return runs
    .filter(({ saved, uses }) => saved && uses.includes(USE))
    .map(({ id, name, step, base, changed, status }) => ({
      name: id,
      title: name,
      about: `Step ${count(step)} · ${base === null ? "from scratch" : folderName(base)}`,
      when: day(changed),
      isRunning: status === "running",
    }));
}

export function modelChoices(models: ModelView[]): Choice[] {
  return models
    .filter(({ problem }) => !problem)
    .map(({ path, name, parameters, answers, chatOnly }) => {
      const size = parameters === null ? "" : `${short(parameters)} parameters`;
      return { name: path, title: name, about: [size, answers ? "" : "continues text", chatOnly === null ? "" : "chat only"].filter(Boolean).join(" · ") };
    });
}

/** What is said below the name. Empty for what is not there any more. */
export function aboutOf(name: string, runs: RunView[], models: ModelView[]): string {
  return find([...runChoices(runs), ...modelChoices(models)], name)?.about ?? "";
}

/** What to begin with: what was used last, else the newest run, else a model. */
export function firstOf(last: string | undefined, runs: RunView[], models: ModelView[]): Choice | undefined {
  const all = [...runChoices(runs), ...modelChoices(models)];
  return find(all, last) ?? all[0];
}

const find = (all: Choice[], name: string | undefined) => all.find((choice) => choice.name === name) ?? all.find((choice) => choice.title === name);
