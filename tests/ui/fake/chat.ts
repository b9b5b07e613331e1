// Conversations, and models that answer them in Markdown.

import type { Conversation, LiveProbeView, ProbesView, SteerView } from "../../../ui/src/api";
import kept from "./answers/conversations.json";
import { HOME, now, recorded, refuse, type Some, Things, wait } from "./scene";

const conversations = new Things<Conversation>("conversation", ({ id }) => id, kept);
/** What models answer: each the same, whatever was said. */
const ANSWERS = recorded<Conversation[]>(kept).flatMap(({ turns }) => turns);
const MARKDOWN = ANSWERS.find(({ answer }) => answer.includes("```"))?.answer ?? "";
const PLAIN = ANSWERS.find(({ beside }) => beside !== null)?.beside ?? "";
/** What a model answers while it may be led, as it is and as it is led: short, since both stand beside each other. */
const AS_IS = "Your parcel left our warehouse on Tuesday. It is with the carrier now, and should be with you on Friday.";
const LED = "I notice that you have waited since Tuesday, and that nobody told you why.";
/** Models that were made to continue text. */
const CONTINUES = /shakespeare|starter|first-model|Base$/;

/** Probes of a run of every model, and what each is watched with. */
const PROBES: ProbesView = {
  folder: `${HOME}/runs/2026-11-21-cognitive-actions-77c1/probes`,
  name: "2026-11-21-cognitive-actions-77c1",
  labels: ["noticing", "reframing", "planning", "evaluation", "self-questioning", "comparing"],
};
let watched: LiveProbeView[] = [];
/** What leads the model. */
let led: SteerView | undefined;

/** A score that rises and falls along a text, otherwise for each probe. */
const scoreAt = (at: number, probe: number) => 2.4 * Math.sin(at / (5 + probe) + probe) - 0.6 * probe + 0.3 * Math.sin(at * 2.3);

const isOpen = [false, false];
const isStopped = [false, false];

export const chatAnswers = {
  openChat: async (place, name) => {
    await wait(150);
    isOpen[place] = true;
    led = undefined;
    const answers = !CONTINUES.test(name);
    return {
      answers,
      context: answers ? 8192 : 256,
      sampling: { temperature: 0.7, top_k: 0, top_p: 0.9, min_p: 0, repetition_penalty: 1, seed: 42, max_tokens: 512, cache: "auto" },
      warnings: [],
      base: answers && /^\d{4}-/.test(name) ? `${HOME}/models/SmolLM2-1.7B-Instruct` : null,
    };
  },

  closeChat: (place) => {
    isStopped[place] = true;
    isOpen[place] = false;
  },

  probesFor: () => [PROBES],
  probesInFolder: (folder) => ({ ...PROBES, folder, name: folder.split("/").at(-1) ?? folder }),

  watchProbes: (_place, folders, force) => {
    const isOther = folders.some((folder) => folder !== PROBES.folder);
    if (isOther && !force) refuse("the probes were learned from other states, and what they say of these means nothing; what differs: the model (gemma-3-4b-it and SmolLM2)", "open the model that they were learned from", null, "needs_force");
    const labels = folders.length > 0 ? PROBES.labels : [];
    watched = labels.map((label, at) => ({ folder: folders[0] ?? "", label, site: `block.${14 + at}`, threshold: 0.4, scale: at === 0 ? { scale: 1.2, shift: -0.3 } : null, readsSuffix: false }));
    return { probes: watched, warnings: isOther ? ["These probes were learned from another model: don’t believe their scores"] : [] };
  },

  /** The more, the less the model is itself. */
  steerModel: async (_place, by, force) => {
    await wait(40);
    const [first] = by;
    if (first && first.folder !== PROBES.folder && !force) refuse("the probes were learned from other states, and what they say of these means nothing; what differs: the model (gemma-3-4b-it and SmolLM2)", "open the model that they were learned from", null, "needs_force");
    led = first;
    const strength = first?.strength ?? 0.2;
    return {
      directions: by.map(({ label }) => ({ label, site: "block.14", madeOf: "the difference of the means of texts with the label and without it", usualLength: 38.2 })),
      perplexity: first ? [24.1, 24.1 * Math.exp(6 * strength * strength)] : null,
      warnings: [],
    };
  },

  answer: async (place, messages, sampling, isPlain, pieces, scored) => {
    if (!isOpen[place]) refuse("no model is open", "choose one first");
    if (messages.at(-1)?.content.includes("fail")) refuse("out of memory: the answer needs 2.1 GB and 0.9 GB are free", "close the model beside it, or begin a new conversation");
    isStopped[place] = false;
    const isLed = led !== undefined && led.strength !== 0 && !isPlain;
    const usual = place === 0 ? MARKDOWN : PLAIN;
    const whole = (led === undefined ? usual : isLed ? `${LED} ${AS_IS}` : AS_IS).match(/\s*\S+/g) ?? [];
    const written: string[] = [];
    for (const word of whole.slice(0, sampling.max_tokens)) {
      await wait(12);
      if (isStopped[place]) break;
      written.push(word);
      pieces.onmessage(word);
      if (place === 0 && !isPlain && watched.length > 0) scored.onmessage([{ text: word, isAnswer: true, scores: watched.map((_, probe) => scoreAt(written.length, probe)) }]);
    }
    const cut = isStopped[place] ? "stopped" : written.length < whole.length ? "max tokens reached" : null;
    return { text: written.join(""), tokens: written.length, tokensPerSecond: 61.2, firstSeconds: 0.14, contextUsed: 90 + written.length, forgottenTurns: messages.length > 9 ? 1 : 0, cut };
  },

  stopAnswer: (place) => void (isStopped[place] = true),

  conversations: (words) => {
    const found = conversations.all.filter((each) => JSON.stringify(each).toLowerCase().includes(words.toLowerCase()));
    return found.map((each) => ({ ...each, turns: each.turns.length }));
  },

  conversation: (id) => conversations.find(id),

  saveConversation: (asked) => {
    const given = asked as Conversation;
    const title = given.title || given.turns[0]?.said.slice(0, 60) || "Nothing said yet";
    return conversations.add({ ...given, id: given.id || `2026-11-21-${conversations.all.length + 1}`, title, changed: now() });
  },

  deleteConversation: (id) => void conversations.remove(id),
} satisfies Some;
