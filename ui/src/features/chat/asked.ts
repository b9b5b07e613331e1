// Asks the models that are open. The app opens and closes in no certain order, so here one waits for the other.

import { api, type AnswerView, type ChatView, type MessageView, type SamplingView } from "../../api";
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

/** Asks. `show` gets all that is written so far, once a frame at most, and nothing after the end. */
export async function ask(
  place: Place,
  messages: MessageView[],
  sampling: SamplingView,
  show: (text: string) => void,
): Promise<AnswerView> {
  let [text, frame, isOver] = ["", 0, false];
  const paint = () => {
    frame = 0;
    show(text);
  };
  try {
    return await api.answer(place, messages, sampling, (piece) => {
      // A piece can come after the whole answer, which has it already.
      if (isOver) return;
      text += piece;
      frame ||= requestAnimationFrame(paint);
    });
  } finally {
    isOver = true;
    cancelAnimationFrame(frame);
  }
}
