// What a kind of learning brings to the window. The pages of training and of runs know no kind; `kinds.ts` lists them, and
// `parts.ts` what they draw.

import type { Component } from "svelte";
import type { DataSetView, Filled, Pick, RunView } from "../api";
import type { Shown } from "../components/exhibits/exhibit";
import type { Route } from "../routes.svelte";
import type { Draft } from "./train/draft.svelte";

export type { Shown };

export interface Kind {
  /** As a run has it: `language`. */
  task: string;
  /** What is counted while it learns: `tokens`. */
  unit: string;
  /** Whether its steps follow gradients, which have a learning rate. They do unless it says no. */
  hasGradients?: boolean;
  /** What can be made with it; each has a tile on the first page and above the form. */
  tiles: Tile[];
  form: KindForm;
  /** What stands above what it shows, and in its place until there is something. */
  shown: { title: string; none: string };
  /** What a run came to, in words, the most telling first. */
  verdict: (run: RunView) => string[];
  /** What that means, in a sentence or two. */
  meaning?: (run: RunView) => string;
  /** How far a run is that still learns. Without it, its losses say so. */
  progress?: (run: RunView) => string;
  /** The figures of a run that say more than its losses, and take their place. */
  figures?: (run: RunView) => Figure[];
  /** Measures that are shares and that a chart begins with. */
  shares?: { measure: string; title: string }[];
  /** Data that only this kind reads: whether a file or folder is some. */
  data?: { find: (path: string) => Promise<unknown> };
  uses: Use[];
  /** How a finished run goes on in another that begins with what it found, where more steps of its own would find nothing. */
  further?: (run: RunView) => Further | undefined;
  /** Whether what a run learned is nothing without the model it began with. */
  needsBase?: (run: RunView) => boolean;
  /** Whether what it learns can be written for other programs. */
  canExport?: boolean;
}

/** What a kind draws on pages that know no kind. */
export interface Parts {
  /** Its section of the form: how to learn, and from which model. */
  Choices: Component<{ draft: Draft }>;
  /** The first example of the data, as it is learned. */
  Example: Component<{ draft: Draft }>;
  /** What a model shows of itself, beside what it first showed of the same. Without it, each form is drawn as it is everywhere. */
  Exhibit?: Component<{ now: Shown; before: Shown | undefined }>;
  /** Everything that a model shows of itself, in one panel, where it is not drawn one by one. */
  Evidence?: Component<{ shown: Shown[]; run: RunView }>;
  /** What a finished run found, in place of its charts and of what it showed: where there is more to look at than its course. */
  Result?: Component<{ run: RunView }>;
  /** Where to get data from that nobody has: what it makes is learned from. */
  Make?: Component<{ onmade: (set: DataSetView) => void }>;
  /** Data that only this kind reads. */
  DataView?: Component<{ set: DataSetView }>;
}

/** Something that can be made: `Fine-tune`. */
export interface Tile {
  name: string;
  title: string;
  text: string;
  /** The drawing beside its name. */
  Sign: Component;
  /** What it fills in. */
  filled: Filled;
  /** Whether a form, or the method of a run, is of this tile. */
  fits: (method: string) => boolean;
}

/** What the form needs to know of the section that a kind brings, and of its settings. */
export interface KindForm {
  /** Fields with a control in its section. */
  own: string[];
  /** Of those, texts that are typed as they are. */
  texts: string[];
  /** Lists that may be typed without their brackets. */
  lists: string[];
  /** Lists of texts that are typed one in a line, with what is said about them. */
  lines: Record<string, string>;
  /** Paths, of which the name says enough. */
  paths: string[];
  /** What its sections and fields are called that the table of fields does not have. */
  labels: Record<string, string>;
  /** The fields that say most about a run, in order. */
  telling: string[];
  /** In what the length of a run is given, where that is not passes over the data; none where it follows from the rest. */
  unit?: "steps" | "none";
  /** How data is added that is more than a file: what is chosen, the button for it, and what is said to who has none. */
  source?: { pick: Pick; add: string; none: string };
  /** What takes less memory. */
  lighter: string;
  /** In which of its ways it learns. Empty where there is only one. */
  method: (filled: Filled) => string;
  /** Whether that way has a field; what belongs to another is kept, and comes back with it. */
  belongs: (field: string, filled: Filled) => boolean;
  /** The control of its section where a field is changed that has none of its own. */
  home: (field: string, filled: Filled) => string | undefined;
  /** What a run can't be without beside data, and nobody chose yet. */
  needs: (filled: Filled) => Need[];
}

export interface Need {
  field: string;
  /** `a model`. */
  name: string;
  /** What comes after `Choose a model`. */
  text: string;
}

/** A figure, with what it counts. */
export interface Figure {
  value: string;
  /** What comes after it, quietly. */
  rest?: string;
  text: string;
}

/** A measure on held-out data. */
export interface Metric {
  name: string;
  label: string;
  value: number | null;
  higherIsBetter: boolean;
  /** Of how many it is the share, where it is one. */
  of: number | null;
}

/** A run that begins with what another found. */
export interface Further {
  /** On its button, and what that does. */
  text: string;
  about: string;
  /** What the form is filled with, from the settings of the run that was. */
  filled: (settings: Filled) => Filled;
}

/** Something that can be done with what a run learned. */
export interface Use {
  /** As the app names it: `chat`. */
  name: string;
  /** What the app has to name for it, where that is another use. */
  takes?: string;
  /** Whether it is less likely wanted: the page of a run has it in its menu. */
  aside?: boolean;
  /** On its button; while the run is still in progress, if it can be done then; and in a row of many, of whose name it is said. */
  text: string;
  early?: string;
  short: string;
  /** The page that it is done on, where that is one of those to try models on. */
  playground?: Route;
  open: (run: RunView) => void;
}
