// What a model wrote while it learned.

import type { EventsView } from "../../api";

export type Sample = EventsView["samples"][number];

/** What the model wrote, with what is new. A state that is gone back to writes again. */
export function latest(before: Sample[], now: Sample[]): Sample[] {
  const samples = [...before];
  for (const sample of now) {
    while ((samples.at(-1)?.step ?? -1) > sample.step) samples.pop();
    const same = samples.findIndex(({ step, prompt }) => step === sample.step && prompt === sample.prompt);
    if (same >= 0) samples[same] = sample;
    else samples.push(sample);
  }
  return samples;
}

/** For each prompt of the latest state that wrote, what it writes and what was first written for it. */
export function beforeAndNow(samples: Sample[]): { now: Sample; before: Sample | undefined }[] {
  const step = samples.at(-1)?.step;
  return samples
    .filter((sample) => sample.step === step)
    .map((now) => {
      const first = samples.find(({ prompt }) => prompt === now.prompt);
      return { now, before: first === now ? undefined : first };
    });
}
