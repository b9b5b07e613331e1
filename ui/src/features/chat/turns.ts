// A conversation as it is shown, as a model is given it, and as it is kept.

import type { AnswerView, MessageView, Turn as KeptTurn } from "../../api";
import type { Scored } from "../probe/live";
import { count, counted } from "../../lib/format";

/** What one model wrote. */
export interface Side {
  text: string;
  /** Whether it is still being written. */
  live: boolean;
  /** How it went; unknown for what was kept earlier. */
  end?: AnswerView;
  problem?: unknown;
  /** Whether it is of the same model as it is, beside the one that was led. It is not kept. */
  isPlain?: boolean;
  /** What probes said of it while it was written. */
  scored?: Scored;
}

/** One exchange. */
export interface Turn {
  key: number;
  said: string;
  answer: Side;
  /** What the model it came from answered. */
  beside?: Side;
  /** How often it was answered before. */
  again: number;
}

/** The two models that can be asked. */
export const MAIN = 0;
export const BASE = 1;
export type Place = typeof MAIN | typeof BASE;

export const blank = (): Side => ({ text: "", live: true });

let keys = 0;

export function turnOf(said: string, isBeside: boolean, again = 0): Turn {
  keys += 1;
  return { key: keys, said, again, answer: blank(), beside: isBeside ? blank() : undefined };
}

/** What a model is given: the scene, what was said before, each model with its own answers, and what is said now. */
export function messagesOf(system: string, before: Turn[], said: string, place: Place): MessageView[] {
  const messages: MessageView[] = [];
  if (system.trim() !== "") messages.push({ role: "system", content: system });
  for (const turn of before) {
    messages.push({ role: "user", content: turn.said });
    messages.push({ role: "assistant", content: answerAt(turn, place) });
  }
  messages.push({ role: "user", content: said });
  return messages;
}

/** The same for a model that only continues text. */
export function textOf(before: Turn[], said: string, place: Place): string {
  const words = before.flatMap((turn) => [turn.said, answerAt(turn, place)]);
  return [...words, said].join("\n\n");
}

/** Whether it is an answer of the model that the first one came from. */
const isOther = ({ problem, isPlain }: Side) => !problem && !isPlain;

function answerAt(turn: Turn, place: Place): string {
  const beside = turn.beside && isOther(turn.beside) ? turn.beside.text : undefined;
  return place === BASE ? (beside ?? turn.answer.text) : turn.answer.text;
}

export function turnsOf(kept: KeptTurn[]): Turn[] {
  return kept.map(({ said, answer, beside }) => ({
    ...turnOf(said, false),
    answer: { text: answer, live: false },
    beside: beside === null ? undefined : { text: beside, live: false },
  }));
}

export function keptTurns(turns: Turn[]): KeptTurn[] {
  return turns.map(({ said, answer, beside }) => ({
    said,
    answer: answer.text,
    beside: beside && isOther(beside) ? beside.text : null,
  }));
}

/** A seed for another attempt at the same words. The same seed and attempt give the same answer again. */
export function seedOf(seed: number, again: number): number {
  return (seed + again * 7919) % 2 ** 32;
}

/** A rate over fewer tokens says more about chance than about the model. */
const FEW = 10;

/** `54 tokens · 61 a second · first after 0.14 s`, with why it ended where that is not the model’s own end. */
export function wordsOf({ tokens, tokensPerSecond, firstSeconds, cut }: AnswerView): string {
  const words = [counted(tokens, "token")];
  if (tokens >= FEW && tokensPerSecond) words.push(`${tokensPerSecond < 10 ? tokensPerSecond.toFixed(1) : Math.round(tokensPerSecond)} a second`);
  if (tokens >= FEW && firstSeconds !== null) words.push(`first after ${firstSeconds.toFixed(firstSeconds < 10 ? 2 : 0)} s`);
  if (cut) words.push(cut);
  return words.join(" · ");
}

/** What was left out of a conversation that is longer than the model can read. */
export function forgottenWords(turns: number): string {
  if (turns === 0) return "";
  return turns === 1 ? "The oldest turn no longer fits the context." : `The ${count(turns)} oldest turns no longer fit the context.`;
}
