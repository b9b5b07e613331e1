// Downloads in words: how far they are, how fast, and what they wait for.

import type { DownloadState, DownloadView } from "../../api";
import { bytes, count, counted, duration } from "../../lib/format";
import { nameOf } from "../../lib/paths";

/** What a state is called. What is running shows it by its rate. */
export const STATES: Record<DownloadState, string> = {
  waiting: "waiting",
  going: "",
  retrying: "waiting for the network",
  paused: "paused",
  failed: "failed",
  done: "done",
};

/** Whether it is here without anybody doing something, sooner or later. */
export const comesByItself = ({ state }: DownloadView) => state === "going" || state === "waiting" || state === "retrying";

/** 43 MB of 271 MB; only the second while nothing is here, and nothing while nobody knows how much it is. */
export function amount({ doneBytes, totalBytes }: Pick<DownloadView, "doneBytes" | "totalBytes">): string {
  if (totalBytes === 0) return "";
  return doneBytes === 0 || doneBytes === totalBytes ? bytes(totalBytes) : `${bytes(doneBytes)} of ${bytes(totalBytes)}`;
}

/** From 0 to 1. */
export function share({ doneBytes, totalBytes }: Pick<DownloadView, "doneBytes" | "totalBytes">): number {
  return totalBytes === 0 ? 0 : doneBytes / totalBytes;
}

/** 12 MB/s · 20 s left. */
export function pace(bytesPerSecond: number | null, secondsLeft: number | null): string {
  if (!bytesPerSecond) return "starting";
  return `${bytes(bytesPerSecond)}/s${secondsLeft === null ? "" : ` · ${duration(secondsLeft)} left`}`;
}

/** What is deleted when it is cancelled: the parts of files that are not whole. */
export function lostBytes({ files }: DownloadView): number {
  return files.reduce((sum, { doneBytes, totalBytes }) => (doneBytes < totalBytes ? sum + doneBytes : sum), 0);
}

/** What stays when it is cancelled. */
export function wholeFiles({ files }: DownloadView) {
  return files.filter(({ doneBytes, totalBytes }) => doneBytes === totalBytes);
}

/** All downloads in a few words. */
export interface Gist {
  title: string;
  amount: string;
  pace: string;
  /** From 0 to 1. */
  done: number;
  /** What waits for the user beside what is spoken of above: `1 paused, 1 failed`. */
  held: string;
  /** Whether nothing comes by itself. */
  isHeld: boolean;
  hasFailed: boolean;
}

/** What the foot of the sidebar says; nothing once all is here. What comes by itself is spoken of first. */
export function gistOf(downloads: DownloadView[]): Gist | undefined {
  const coming = downloads.filter(comesByItself);
  const held = downloads.filter(({ state }) => state === "paused" || state === "failed");
  const isHeld = coming.length === 0;
  const spokenOf = isHeld ? held : coming;
  const [first] = spokenOf;
  if (!first) return undefined;
  const sum = (of: (download: DownloadView) => number) => spokenOf.reduce((total, download) => total + of(download), 0);
  const all = { doneBytes: sum((it) => it.doneBytes), totalBytes: sum((it) => it.totalBytes) };
  return {
    title: spokenOf.length === 1 ? nameOf(first.id) : counted(spokenOf.length, "download"),
    amount: amount(all),
    pace: isHeld ? (held.length === 1 ? STATES[first.state] : heldWords(held)) : paceOf(coming),
    done: share(all),
    held: isHeld ? "" : heldWords(held),
    isHeld,
    hasFailed: held.some(({ state }) => state === "failed"),
  };
}

function heldWords(held: DownloadView[]): string {
  return (["paused", "failed"] as const)
    .map((state) => ({ state, times: held.filter((download) => download.state === state).length }))
    .filter(({ times }) => times > 0)
    .map(({ state, times }) => `${count(times)} ${state}`)
    .join(", ");
}

function paceOf(coming: DownloadView[]): string {
  const going = coming.filter(({ state }) => state === "going");
  if (going.length === 0) return coming.some(({ state }) => state === "retrying") ? STATES.retrying : STATES.waiting;
  const rate = going.reduce((sum, { bytesPerSecond }) => sum + (bytesPerSecond ?? 0), 0);
  const [only] = coming;
  if (coming.length === 1 && only) return pace(only.bytesPerSecond, only.secondsLeft);
  // While the size of one is not known, nobody can say when all are here.
  const left = coming.reduce((sum, { doneBytes, totalBytes }) => sum + totalBytes - doneBytes, 0);
  return pace(rate, coming.every(({ totalBytes }) => totalBytes > 0) ? left / rate : null);
}
