// What is wrong with pictures, in words.

import type { ClassView, FindingKind, FindingView, FoundPicturesView, PicturePartView, PictureView } from "../../api";
import { count, counted } from "../../lib/format";
import { quoted } from "../../lib/words";

/** What each finding is called, what it means, and what to do about it. */
const FINDINGS: Record<FindingKind, { one: string; many: string; text: string }> = {
  unread: { one: "can’t be read", many: "can’t be read", text: "They are left out." },
  two_classes: { one: "pair stands in two classes", many: "pairs stand in two classes", text: "They are equal, or nearly. Where both show the same, one label is wrong: delete that file, or move it." },
  across_parts: { one: "pair is learned from and measured with", many: "pairs are learned from and measured with", text: "They are equal, or nearly. Where both show the same, what is measured was seen before, and the figure is too good: delete one." },
  identical: { one: "picture is there twice", many: "pictures are there twice", text: "What is there twice counts twice. Keep one of each." },
  near: { one: "pair is nearly equal", many: "pairs are nearly equal", text: "The same photo in another size, or taken a moment later. A few do no harm." },
  tiny: { one: "picture is very small", many: "pictures are very small", text: "Below 32 pixels on a side there is little to see." },
  strips: { one: "picture is a long strip", many: "pictures are long strips", text: "Only the middle of each is seen." },
};

export function titleOf({ kind, count: found }: FindingView): string {
  const { one, many } = FINDINGS[kind];
  const pictures = kind === "unread" ? counted(found, "picture") : count(found);
  return `${pictures} ${found === 1 ? one : many}`;
}

export const textOf = ({ kind }: FindingView): string => FINDINGS[kind].text;

/** Whether it makes what is learned, or what is measured, wrong. The others are only told. */
export const isBad = ({ kind }: FindingView): boolean => kind === "unread" || kind === "two_classes" || kind === "across_parts";

export const PARTS: Record<PicturePartView, string> = { train: "to learn from", held_out: "held out", test: "test" };

/** What is said of a picture that was found. */
export function aboutOf({ kind }: FindingView, { problem }: FoundPicturesView, { class: name, part, width, height }: PictureView): string {
  if (problem !== null) return quoted(problem);
  if (kind === "tiny" || kind === "strips") return `${name} · ${width} × ${height}`;
  return kind === "across_parts" ? `${name} · ${PARTS[part]}` : name;
}

/** A class that has too few pictures beside another. */
export function imbalanceText([largest, smallest]: [ClassView, ClassView]): string {
  return `${largest.name} has ${counted(largest.train, "picture")}, ${smallest.name} ${count(smallest.train)}. The smaller class will be learned badly: add pictures of it.`;
}

export const allOf = ({ train, heldOut, test }: ClassView): number => train + heldOut + test;
