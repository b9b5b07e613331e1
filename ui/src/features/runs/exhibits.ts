// What a model showed of itself while it learned.

import type { Shown } from "../kind";

const isSame = (one: Shown, other: Shown) => one.exhibit.kind === other.exhibit.kind && one.exhibit.title === other.exhibit.title;

/** What the model showed, with what is new. A state that is gone back to shows again. */
export function latest(before: Shown[], now: Shown[]): Shown[] {
  const all = [...before];
  for (const shown of now) {
    while ((all.at(-1)?.step ?? -1) > shown.step) all.pop();
    const same = all.findIndex((each) => each.step === shown.step && isSame(each, shown));
    if (same >= 0) all[same] = shown;
    else all.push(shown);
  }
  return all;
}

/** What the latest state shows, each beside what was first shown of the same. */
export function beforeAndNow(all: Shown[]): { now: Shown; before: Shown | undefined }[] {
  const step = all.at(-1)?.step;
  return all
    .filter((shown) => shown.step === step)
    .map((now) => {
      const first = all.find((each) => isSame(each, now));
      return { now, before: first === now ? undefined : first };
    });
}
