// The example in pieces that look different.

/** Special tokens as tokenizers spell them: `<|im_end|>`, `</s>`, `<end_of_turn>`, `[/INST]`. */
const SPECIAL = /(<\|[^|<>\s]{1,40}\|>|<\/?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>|\[\/?INST\]|<<\/?SYS>>)/;

export interface Piece {
  text: string;
  learned: boolean;
  special: boolean;
}

export function piecesOf(example: { text: string; learned: boolean }[]): Piece[] {
  return example.flatMap(({ text, learned }) =>
    text
      .split(SPECIAL)
      .map((text, at) => ({ text, learned, special: at % 2 === 1 }))
      .filter(({ text }) => text !== ""),
  );
}
