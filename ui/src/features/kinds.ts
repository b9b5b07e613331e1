// The kinds of learning. A new one is a folder beside this file, and a line in it.

import type { Kind } from "./kind";
import * as language from "./language";
import * as picture from "./picture";
import * as probe from "./probe";
import * as puzzle from "./puzzle";

/** The first is what the form begins with, and what a run is that names none. */
export const KINDS: [Kind, ...Kind[]] = [language, puzzle, picture, probe];

/** The kind of a run or of a form. */
export function kindOf(task: string | undefined): Kind {
  return KINDS.find((kind) => kind.task === task) ?? KINDS[0];
}
