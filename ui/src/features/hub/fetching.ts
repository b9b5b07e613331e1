// What is fetched of a repository, and how far it is.

import type { DataSetView, DownloadState, DownloadView, RepositoryKind, WantedView, SplitView } from "../../api";
import { share } from "../downloads/words";

/** The part of a repository that is wanted. */
export type WantedPart = Partial<Pick<WantedView, "files" | "config" | "split">>;

/** What the app calls a part that is fetched. None for what is needed. */
export function partName({ files = [], config = "", split = "" }: WantedPart): string | null {
  if (files.length > 0) return files.join(", ");
  if (split === "") return null;
  return config === "" || config === "default" ? split : `${split} of ${config}`;
}

/** The download of a part, if there is one. */
export function downloadOf(downloads: DownloadView[], wanted: WantedPart): DownloadView | undefined {
  const part = partName(wanted);
  return downloads.find((download) => download.part === part);
}

/** How much of it is here; never 100 before it is done. */
export function percentOf(download: DownloadView): string {
  return `${Math.floor(100 * Math.min(share(download), 1))} %`;
}

const STANDING: Record<DownloadState, (percent: string) => string> = {
  waiting: () => "Waiting for other downloads",
  going: (percent) => `Downloading ${percent}`,
  retrying: (percent) => `Waiting for the network at ${percent}`,
  paused: (percent) => `Paused at ${percent}`,
  failed: (percent) => `Failed at ${percent}`,
  done: () => "Downloaded",
};

/** How it stands, in few words. */
export function standing(download: DownloadView): string {
  return STANDING[download.state](percentOf(download));
}

/** The downloads of a kind that are whole. When there is another, more is on this machine. */
export function arrived(downloads: DownloadView[], kind: RepositoryKind): string {
  const whole = downloads.filter((download) => download.kind === kind && download.state === "done");
  return whole.map(({ key }) => key).join("\n");
}

/** The data of the list that a part of a data set became. */
export function dataSetOf(sets: DataSetView[], part: SplitView): DataSetView | undefined {
  return sets.find(({ path }) => path === part.path);
}
