// Asks the models that are open. The app opens and closes in no certain order, so here one waits for the other.

import { api, type AnswerView, type ChatView, type MessageView, type SamplingView, type ScoredToken } from "../../api";
import type { Place } from "./turns";

const last: Promise<unknown>[] = [Promise.resolve(), Promise.resolve()];

function next<T>(place: Place, act: () => Promise<T>): Promise<T> {
  const after = (last[place] ?? Promise.resolve()).then(act);
  last[place] = after.catch(() => undefined);
  return after;
}

/** Opens a model at a place. With `force` also one that does not fit into memory. */
export function open(place: Place, name: string, force = false): Promise<ChatView> {
  return next(place, () => api.openChat(place, name, force));
}

export function close(place: Place): Promise<unknown> {
  return next(place, () => api.closeChat(place)).catch(() => undefined);
}

/** Asks; with `isPlain` as the model is also while it is led. `show` gets all that is written so far, with the tokens of it that probes have scored, once a frame at most. After the end it
 *  gets only scores that come late. */
export async function ask(
  place: Place,
  messages: MessageView[],
  sampling: SamplingView,
  isPlain: boolean,
  show: (text: string, tokens: ScoredToken[]) => void,
): Promise<AnswerView> {
  let [text, frame, isOver] = ["", 0, false];
  let tokens: ScoredToken[] = [];
  const paint = () => {
    frame = 0;
    show(text, tokens);
  };
  const written = (piece: string) => {
    // A piece can come after the whole answer, which has it already.
    if (isOver) return;
    text += piece;
    frame ||= requestAnimationFrame(paint);
  };
  const scored = (more: ScoredToken[]) => {
    tokens = [...tokens, ...more.filter(({ isAnswer }) => isAnswer)];
    if (isOver) show(text, tokens);
    else frame ||= requestAnimationFrame(paint);
  };
  try {
    const end = await api.answer(place, messages, sampling, isPlain, written, scored);
    text = end.text;
    if (tokens.length > 0) show(text, tokens);
    return end;
  } finally {
    isOver = true;
    cancelAnimationFrame(frame);
  }
}
