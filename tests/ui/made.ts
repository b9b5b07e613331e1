// What tests make up.

import type { MockInstance } from "vitest";
import { Refused, type DownloadView } from "../../ui/src/api";

export const MB = 1e6;

/** A download that is running. */
export function download(more: Partial<DownloadView> = {}): DownloadView {
  return { key: "a", kind: "model", id: "maker/small", part: null, state: "going", doneBytes: 43 * MB, totalBytes: 271 * MB, bytesPerSecond: 12 * MB, secondsLeft: 19, files: [], problem: null, usable: true, path: null, ...more };
}

export const refused = (code: Refused["code"], message: string, hint: string | null = null) => new Refused({ code, message, hint, field: null });

/** Has questions wait until the test answers or refuses them, by their order. */
export function held<Answer>(asked: MockInstance<(...given: never[]) => Promise<Answer>>) {
  const open: { resolve: (answer: Answer) => void; reject: (problem: Refused) => void }[] = [];
  asked.mockImplementation(() => new Promise((resolve, reject) => open.push({ resolve, reject })));
  return {
    answer: (answer: Answer, at = 0) => open[at]?.resolve(answer),
    refuse: (problem: Refused, at = 0) => open[at]?.reject(problem),
  };
}
