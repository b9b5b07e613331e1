// What the kinds of learning draw, by their names. The first page needs none of it, so that a start doesn’t wait for it.

import type { Kind, Parts } from "./kind";
import * as language from "./language/parts";
import * as picture from "./picture/parts";
import * as probe from "./probe/parts";
import * as puzzle from "./puzzle/parts";

export const PARTS: Record<string, Parts> = { language, puzzle, picture, probe };

export const partsOf = ({ task }: Kind): Parts => PARTS[task] ?? language;
