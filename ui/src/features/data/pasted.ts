// Text that was pasted, which the app keeps in files of its own.

import { nameOf } from "../../lib/paths";

/** Whether the app made the file itself from a text that was pasted: then it goes with its place in the list. */
export function isPasted(path: string): boolean {
  return /^pasted-\d{4}-\d{2}-\d{2}-\d{6}-[0-9a-f]{4}\.(txt|jsonl)$/.test(nameOf(path));
}
