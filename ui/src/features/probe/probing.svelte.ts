// The probes that score what a model writes in the Playground.

import { api, type LiveProbeView, type ProbesView, type ScoredToken } from "../../api";
import { keyOf, type Scored } from "./live";

/** What the Playground that is opened next begins with. */
let first: string[] = [];

/** Has the probes of a folder score what is written in the Playground that is opened next. */
export function beginWith(folder: string) {
  first = [folder];
}

export class Probing {
  /** Those that can be chosen: of runs, and folders that somebody chose. */
  found = $state.raw<ProbesView[]>([]);
  /** The folders whose probes score tokens. */
  folders = $state.raw<string[]>(first.splice(0));
  /** Their probes, in the order of the scores. */
  probes = $state.raw<LiveProbeView[]>([]);
  warnings = $state.raw<string[]>([]);
  /** The key of the probe by which tokens are shaded; none while text is shown as it is. */
  shown = $state<string>();
  busy = $state(false);
  problem = $state.raw<unknown>();
  /** What was refused and can be forced. */
  refused = $state.raw<string[]>();

  /** Looks for probes of a model. */
  async look(model: string) {
    const found = await api.probesFor(model).catch(() => []);
    const chosen = this.found.filter(({ folder }) => !found.some((each) => each.folder === folder));
    this.found = [...found, ...chosen];
  }

  /** Asks for a folder, and uses its probes. */
  async add(place: number) {
    const folder = await this.pick();
    if (folder !== undefined) await this.use(place, [...this.folders.filter((each) => each !== folder), folder]);
  }

  /** Asks for a folder, whose probes can be chosen then. */
  async pick(): Promise<string | undefined> {
    this.problem = undefined;
    try {
      const folder = await api.pick("folder");
      if (folder === null) return undefined;
      if (!this.found.some((each) => each.folder === folder)) this.found = [...this.found, await api.probesInFolder(folder)];
      return folder;
    } catch (problem) {
      this.problem = problem;
      return undefined;
    }
  }

  /** Uses the probes of these folders; with `force` also those of another model. */
  async use(place: number, folders: string[], force = false) {
    this.busy = true;
    this.problem = this.refused = undefined;
    try {
      const { probes, warnings } = await api.watchProbes(place, folders, force);
      Object.assign(this, { folders, probes, warnings });
      if (!probes.some((probe) => keyOf(probe) === this.shown)) this.shown = probes[0] && keyOf(probes[0]);
    } catch (problem) {
      this.problem = problem;
      this.refused = folders;
    } finally {
      this.busy = false;
    }
  }

  /** Tokens with the probes that scored them, if any did. */
  scored(tokens: ScoredToken[]): Scored | undefined {
    return tokens.length > 0 ? { tokens, probes: this.probes } : undefined;
  }

  /** A model was opened anew, and nobody scores what it writes. */
  async again(place: number) {
    const { folders } = this;
    Object.assign(this, { folders: [], probes: [], warnings: [] });
    if (folders.length > 0) await this.use(place, folders);
  }
}
