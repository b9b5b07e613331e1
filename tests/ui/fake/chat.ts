// Conversations, and models that answer them in Markdown.

import type { ConversationFile as Conversation } from "../../../ui/src/api/bindings";
import { ago, filled, refuse, type Some, wait } from "./scene";

type Row = [id: string, title: string, model: string, modelTitle: string, minutes: number, turns: Conversation["turns"], system?: string];

const first = () =>
  (
    [
      ["2026-11-21-parcel", "My parcel was due on Tuesday", "2026-11-20-support-tone-3e90", "Support tone", 42, [{
        said: "My parcel was due on Tuesday and it still isn't here. What now?",
        answer:
          "That's annoying, and I'm sorry. If you give me the order number I'll check where it is right now. If it was lost, I can send a new one today or refund you, whichever you prefer.",
        beside:
          "I understand that your parcel has not arrived. There may be many reasons for this, including weather, customs, and carrier delays. You should contact the carrier and check the tracking information on their website.",
      }], "You answer for a small shop. Be short and kind."],
      ["2026-11-20-table", "A table of units, a formula, code and everything else that Markdown can do, in one very long title that does not end", "SmolLM2-1.7B-Instruct", "SmolLM2-1.7B-Instruct", 60 * 26, [
        { said: "Show me what you can write.", answer: MARKDOWN, beside: null },
      ]],
      ["2026-11-19-verse", "Shall I compare thee", "2026-11-19-shakespeare-c41d", "Shakespeare, small", 60 * 50, [
        { said: "Shall I compare thee", answer: " to the world's sweet hand,\nAnd with the king's good heart to make thee stand.", beside: null },
        { said: "Once more", answer: " unto the breach, my lord, and let us go.", beside: null },
      ]],
    ] as Row[]
  ).map(([id, title, model, modelTitle, minutes, turns, system = ""]): Conversation => ({ id, title, model, modelTitle, system, turns, changed: ago(minutes) }));

const MARKDOWN = `Here is **how it goes**, with *three* things to look at:

1. A list with \`code\` in it.
2. A [link](https://example.org/guide) that opens in the browser.
3. A word that is too long for a line: ${"Donaudampfschifffahrtsgesellschaft".repeat(5)}.

| Unit | Bytes | Note |
| --- | ---: | --- |
| kB | 1,000 | as file managers count |
| MB | 1,000,000 | |

\`\`\`python
def refund(order: str, amount: float) -> str:
    """Sends money back, and says so."""
    return f"{amount:.2f} € for {order} are on their way, and will be there within two working days at the latest"
\`\`\`

> What was promised is done.

### Then

That is all.
`;

const PLAIN = "I understand that you are asking about this. There may be many reasons, including weather, customs, and carrier delays.";

let conversations = filled ? first() : [];
const opened: (string | undefined)[] = [undefined, undefined];
const stopped = [false, false];

function found(id: string): Conversation {
  return conversations.find((each) => each.id === id) ?? refuse(`there is no conversation \`${id}\``);
}

function kept(it: Conversation): Conversation {
  const turns = (it.turns ?? []).map((turn) => ({ said: turn.said ?? "", answer: turn.answer ?? "", beside: turn.beside ?? null }));
  const id = it.id || `2026-11-21-${conversations.length + 1}`;
  const title = it.title || (turns[0]?.said.slice(0, 60) ?? "") || "Nothing said yet";
  return { id, title, model: it.model ?? "", modelTitle: it.modelTitle ?? "", system: it.system ?? "", turns, changed: ago(0) };
}

export const chatAnswers = {
  openChat: async (place, name) => {
    await wait(150);
    opened[place] = name;
    const isRun = /^\d{4}-/.test(name);
    const continues = name.includes("shakespeare") || name.includes("starter") || name.includes("first-model") || name.endsWith("Base");
    return {
      answers: !continues,
      context: continues ? 256 : 8192,
      sampling: { temperature: 0.7, top_k: 0, top_p: 0.9, min_p: 0, repetition_penalty: 1, seed: 42, max_tokens: 512 },
      warnings: [],
      base: isRun && !continues ? "/Users/mira/Library/Application Support/app.anneal.desktop/models/SmolLM2-1.7B-Instruct" : null,
    };
  },

  closeChat: (place) => {
    stopped[place] = true;
    opened[place] = undefined;
  },

  answer: async (place, messages, sampling, pieces) => {
    if (!opened[place]) refuse("no model is open", "choose one first");
    const said = messages.at(-1)?.content ?? "";
    if (said.includes("fail")) refuse("out of memory: the answer needs 2.1 GB and 0.9 GB are free", "close the model beside it, or begin a new conversation");
    stopped[place] = false;
    const whole = place === 0 ? MARKDOWN : PLAIN;
    const began = performance.now();
    const words = whole.match(/\s*\S+/g) ?? [];
    let text = "";
    let tokens = 0;
    for (const word of words) {
      await wait(12);
      if (stopped[place] || tokens >= sampling.max_tokens) break;
      text += word;
      tokens += 1;
      pieces.onmessage(word);
    }
    const cut = stopped[place] ? "stopped" : tokens < words.length ? `after ${sampling.max_tokens} tokens, as asked` : null;
    const seconds = (performance.now() - began) / 1000;
    const contextUsed = Math.round(messages.reduce((sum, message) => sum + message.content.length, text.length) / 4);
    return { text, tokens, tokensPerSecond: tokens / seconds, firstSeconds: 0.14, contextUsed, forgottenTurns: messages.length > 9 ? 1 : 0, cut };
  },

  stopAnswer: (place) => void (stopped[place] = true),

  conversations: (words) => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (it: Conversation) => wanted.every((word) => JSON.stringify(it).toLowerCase().includes(word));
    return conversations.filter(has).map(({ id, title, modelTitle, turns, changed }) => ({ id, title, modelTitle, turns: turns.length, changed }));
  },

  conversation: (id) => found(id),

  saveConversation: (conversation) => {
    const saved = kept(conversation);
    conversations = [saved, ...conversations.filter((each) => each.id !== saved.id)];
    return saved;
  },

  deleteConversation: (id) => {
    const gone = found(id);
    conversations = conversations.filter((each) => each !== gone);
  },

  exportConversation: (id, path) => void (found(id)),
} satisfies Some;
