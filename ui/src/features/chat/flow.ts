// A text that a person begins and a model continues, and that both may have changed since.

import type { Turn as KeptTurn } from "../../api";

/** A stretch of it by one writer. */
export interface Part {
  text: string;
  /** Whether the model wrote it. */
  isWritten: boolean;
  /** What the model it came from wrote in its place. */
  beside?: string;
  /** Whether that was the same model as it is, beside the one that was led. It is not kept. */
  isPlain?: boolean;
}

export const textOf = (parts: Part[]) => parts.map((part) => part.text).join("");

/** The parts after the whole text was changed to `next`: what is new was written by a person. */
export function edited(parts: Part[], next: string): Part[] {
  const before = textOf(parts);
  if (before === next) return parts;
  const most = Math.min(before.length, next.length);
  let same = 0;
  while (same < most && before[same] === next[same]) same += 1;
  let end = 0;
  while (end < most - same && before[before.length - 1 - end] === next[next.length - 1 - end]) end += 1;
  const given = { text: next.slice(same, next.length - end), isWritten: false };
  return joined([...cut(parts, 0, same), given, ...cut(parts, before.length - end, before.length)]);
}

/** The parts between two places. */
function cut(parts: Part[], from: number, to: number): Part[] {
  const found: Part[] = [];
  let start = 0;
  for (const part of parts) {
    const text = part.text.slice(Math.max(from - start, 0), Math.max(to - start, 0));
    // What the other model wrote in place of the whole is not what it wrote in place of a piece.
    const isWhole = text.length === part.text.length;
    if (text !== "") found.push(isWhole ? part : { text, isWritten: part.isWritten });
    start += part.text.length;
  }
  return found;
}

/** Neighbours by the same person become one. What a model wrote in two goes stays two. */
function joined(parts: Part[]): Part[] {
  const found: Part[] = [];
  for (const part of parts) {
    const last = found[found.length - 1];
    if (part.text === "") continue;
    if (last && !last.isWritten && !part.isWritten) found[found.length - 1] = { ...last, text: last.text + part.text };
    else found.push(part);
  }
  return found;
}

/** Without what the model wrote last, to be written again; nothing when a person wrote since. */
export function withoutLast(parts: Part[]): Part[] | undefined {
  return parts[parts.length - 1]?.isWritten ? parts.slice(0, -1) : undefined;
}

/** Each turn is what was given and what was written after it. */
export function keptTurns(parts: Part[]): KeptTurn[] {
  const turns: KeptTurn[] = [];
  let said = "";
  for (const { text, isWritten, beside, isPlain } of parts) {
    if (!isWritten) said += text;
    else {
      turns.push({ said, answer: text, beside: isPlain ? null : (beside ?? null) });
      said = "";
    }
  }
  if (said !== "") turns.push({ said, answer: "", beside: null });
  return turns;
}

export function partsOf(turns: KeptTurn[]): Part[] {
  const parts = turns.flatMap(({ said, answer, beside }): Part[] => [
    { text: said, isWritten: false },
    { text: answer, isWritten: true, beside: beside ?? undefined },
  ]);
  return joined(parts);
}
