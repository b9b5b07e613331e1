// What happened in a run, with what happens often put together.

import type { EventsView } from "../../api";
import { count, counted } from "../../lib/format";
import { day } from "./when";

export type Sentence = EventsView["sentences"][number];

export interface Entry {
  /** Stays the same while more happens. */
  at: number;
  time: string;
  day: string;
  text: string;
  bad: boolean;
  /** What it puts together, the newest first. */
  parts: Sentence[];
}

/** The sentences, the newest first. Saves with nothing between them are one. */
export function entriesOf(sentences: Sentence[]): Entry[] {
  const entries: Entry[] = [];
  sentences.forEach((sentence, at) => {
    const before = entries.at(-1);
    if (sentence.saved && before && before.parts.length > 0) {
      before.parts.unshift(sentence);
      Object.assign(before, { time: sentence.time, day: day(sentence.time), text: textOf(before.parts) });
    } else {
      const { time, text, bad, saved } = sentence;
      entries.push({ at, time, day: day(time), text, bad, parts: saved ? [sentence] : [] });
    }
  });
  return entries.reverse();
}

function textOf([last, ...earlier]: Sentence[]): string {
  return `Saved ${earlier.length === 1 ? "twice" : `${counted(earlier.length + 1, "time")}`}, last at step ${count(last?.step ?? 0)}.`;
}
