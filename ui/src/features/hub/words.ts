// How the Hub's words are said to a person.

import type { RepositoryKind, SortBy } from "../../api";
import { whole } from "../../lib/words";

export interface Choice<T extends string> {
  value: T;
  text: string;
}

/** What a repository can be looked for. The first is what a search begins with. */
export const TASKS: Record<RepositoryKind, Choice<string>[]> = {
  model: [
    { value: "text-generation", text: "Text generation" },
    { value: "image-text-to-text", text: "Pictures and text to text" },
    { value: "translation", text: "Translation" },
    { value: "summarization", text: "Summarization" },
    { value: "", text: "Any task" },
  ],
  data: [
    { value: "", text: "Any task" },
    { value: "text-generation", text: "Text generation" },
    { value: "question-answering", text: "Question answering" },
    { value: "summarization", text: "Summarization" },
    { value: "translation", text: "Translation" },
    { value: "text-classification", text: "Text classification" },
  ],
};

export const ORDERS: Choice<SortBy>[] = [
  { value: "downloads", text: "Most downloads" },
  { value: "likes", text: "Most likes" },
  { value: "recent", text: "Recently updated" },
];

/** A task as a person reads it: text generation. */
export function taskName(task: string): string {
  return task.replaceAll("-", " ");
}

/** Who made a repository, and what they called it: `openai/` and `gsm8k`. */
export function named(id: string): { maker: string; name: string } {
  const at = id.lastIndexOf("/") + 1;
  return { maker: id.slice(0, at), name: id.slice(at) };
}

/** A sentence of the app, whole. */
export const sentence = (text: string): string => whole(text.replace(/`([^`]*)`/g, "“$1”"));

/** What Anneal can do with a model. */
export function canDo(canChat: boolean, canTrain: boolean): string {
  if (canChat && canTrain) return "Works for chat and training.";
  if (canChat) return "Works for chat, not for training.";
  return canTrain ? "Works for training, not for chat." : "Works for neither chat nor training.";
}
