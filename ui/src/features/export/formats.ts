// The formats in which something can be exported, as far as the window has words for them.

import type { OfferView } from "../../api";

/** Whom a format is for. */
export type Audience = "apps" | "code";

interface Words {
  /** What comes after its title. */
  note: string;
  about: string;
}

const ONE_FILE = "One file with the whole model";
const ADAPTER = "Only what was trained";

const WORDS: Record<string, Words> = {
  adapter: { note: "PEFT, needs the base model", about: `${ADAPTER}. It is loaded beside the model it was trained on.` },
  merged: { note: "safetensors", about: "The whole model in a folder, laid out as on the Hugging Face Hub." },
  "gguf-adapter": { note: "needs the base model", about: `${ADAPTER}. It is loaded beside a GGUF file of the model it was trained on.` },
  mlx: { note: "safetensors", about: "The whole model in a folder, for MLX on Apple silicon." },
  "mlx-4bit": { note: "4.5 bits a weight", about: "The whole model in a folder for MLX, rounded to groups of 64 weights. The export measures what that costs." },
  "mlx-adapter": { note: "needs the base model", about: `${ADAPTER}. mlx-lm loads it beside the model it was trained on.` },
  onnx: { note: "one file", about: "One file that takes pixels from 0 to 1; mean and deviation are inside it." },
  coreml: { note: "one file", about: "One file for apps on macOS 10.15, iOS 13 and later." },
  safetensors: { note: "a folder", about: "A folder with the weights and what describes them." },
};

/** Whether it has fewer bits a weight than models are trained with. */
export const isRounded = ({ name }: OfferView): boolean => /^gguf-q\d|^mlx-4bit$/.test(name);

/** A word or two on a format, and a sentence on what it writes. */
export function wordsOf(offer: OfferView, offers: OfferView[]): Words {
  const known = WORDS[offer.name];
  if (known) return known;
  const bits = bitsOf(offer, offers);
  if (bits === undefined) return { note: "", about: offer.ending === null ? "" : `${ONE_FILE}.` };
  const note = `${bits} bits a weight`;
  return { note, about: isRounded(offer) ? `${ONE_FILE}, rounded to about ${note}. The export measures what that costs.` : `${ONE_FILE}, at ${note}.` };
}

/** How many bits a weight has on average: beside 16 and 32 bits, sizes say how much of a file is weights. */
function bitsOf({ name, bytes }: OfferView, offers: OfferView[]): number | undefined {
  const sizeOf = (format: string) => offers.find((offer) => offer.name === format)?.bytes ?? undefined;
  const [half, full] = [sizeOf("gguf-f16"), sizeOf("gguf-f32")];
  if (!name.startsWith("gguf-") || bytes === null || half === undefined || full === undefined || full <= half) return undefined;
  const weights = (full - half) / 2;
  const others = half - 2 * weights;
  return Number(((8 * (bytes - others)) / weights).toFixed(1));
}

export const audienceOf = ({ name }: OfferView): Audience => (/^(gguf|mlx|coreml)/.test(name) ? "apps" : "code");

/** The format to begin with: half the size of what was trained and hardly different, where that can be written. */
export function firstOf(offers: OfferView[]): OfferView | undefined {
  const possible = offers.filter(({ refused }) => refused === null);
  return possible.find(({ name }) => name === "gguf-q8_0") ?? possible[0];
}

/** What a file or folder could be called: `Support-tone-Q8_0.gguf`. */
export function suggestedName(name: string, { name: format, ending }: OfferView): string {
  const plain = name.replace(/[\\/:*?"<>|\s]+/g, "-").slice(0, 60).replace(/^[-.]+|[-.]+$/g, "") || "export";
  if (ending === null) return `${plain}-${format}`;
  const [, part = ""] = /^gguf-(.*)$/.exec(format) ?? [];
  const spelled = /\d/.test(part) ? part.toUpperCase() : part;
  return `${plain}${spelled && "-"}${spelled}.${ending}`;
}
