// A tiny model whose words are known: what it says after each byte stands in its weights, so that tests can name every token.
//
// Its hidden state is the last token alone, since its layer adds nothing. Greedily it says the next byte of a chain; drawn, it may
// say anything.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What it says after the mark of its turn in a chat, over and over. */
export const chain = "Hi 🙂!";
/** What it says after a text that ends with `a`, before it ends by itself. */
export const letters = "bcde";
export const context = 32_768;

/** Tokens after the 256 bytes. */
export const special = { "<|endoftext|>": 256, "<|im_start|>": 257, "<|im_end|>": 258 };
const tokens = 259;
const width = 260;
/** The score of the next byte of a chain; that of all others is 0. */
export const score = 8;

/** The letter that byte-level tokenizers write each byte as. */
function byteLetters() {
  const isPrintable = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let more = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : more++));
}

function tokenizer() {
  const vocabulary = Object.fromEntries(byteLetters().map((letter, byte) => [letter, byte]));
  const added = Object.entries(special).map(([content, id]) => ({
    id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
  }));
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: "1.0", truncation: null, padding: null, added_tokens: added, normalizer: null,
    pre_tokenizer: bytes, post_processor: bytes, decoder: bytes,
    model: { type: "BPE", vocab: { ...vocabulary, ...special }, merges: [] },
  };
}

function weights() {
  const zeros = (...shape) => ({ shape, numbers: new Float32Array(shape.reduce((a, b) => a * b)) });
  const ones = (...shape) => ({ shape, numbers: zeros(...shape).numbers.fill(1) });
  const embedding = zeros(tokens, width);
  const head = zeros(tokens, width);
  for (let token = 0; token < tokens; token++) embedding.numbers[token * width + token] = 1;
  // The norm makes a vector with a single one in it as long as the root of its width.
  const follow = (token, next) => (head.numbers[next * width + token] = score / Math.sqrt(width));
  const followAll = (from, bytes, end) => [...bytes, end].reduce((token, next) => (follow(token, next), next), from);
  const spoken = Buffer.from(chain);
  followAll("\n".charCodeAt(0), spoken, spoken[0]);
  followAll("a".charCodeAt(0), Buffer.from(letters), special["<|im_end|>"]);
  const layer = "model.layers.0.";
  return {
    "model.embed_tokens.weight": embedding,
    "model.norm.weight": ones(width),
    "lm_head.weight": head,
    [`${layer}input_layernorm.weight`]: ones(width),
    [`${layer}post_attention_layernorm.weight`]: ones(width),
    ...Object.fromEntries(["q", "k", "v", "o"].map((name) => [`${layer}self_attn.${name}_proj.weight`, zeros(width, width)])),
    [`${layer}mlp.gate_proj.weight`]: zeros(4, width),
    [`${layer}mlp.up_proj.weight`]: zeros(4, width),
    [`${layer}mlp.down_proj.weight`]: zeros(width, 4),
  };
}

/** A file of safetensors: the length of its header, the header, the numbers. */
function safetensors(tensors) {
  const header = {};
  let end = 0;
  for (const [name, { shape, numbers }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [end, (end += numbers.byteLength)] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...Object.values(tensors).map(({ numbers }) => Buffer.from(numbers.buffer))]);
}

/** Writes it into a folder. One that chats answers turns; the other continues text. */
export function writeModel(folder, chats) {
  mkdirSync(folder, { recursive: true });
  const write = (name, value) => writeFileSync(join(folder, name), JSON.stringify(value));
  write("config.json", {
    model_type: "llama", vocab_size: tokens, hidden_size: width, intermediate_size: 4, num_hidden_layers: 1, num_attention_heads: 2,
    num_key_value_heads: 2, max_position_embeddings: context, rms_norm_eps: 1e-12, tie_word_embeddings: false,
    eos_token_id: special["<|im_end|>"],
  });
  write("tokenizer.json", tokenizer());
  write("tokenizer_config.json", { eos_token: "<|im_end|>", pad_token: "<|endoftext|>" });
  write("anneal.json", { chats });
  writeFileSync(join(folder, "model.safetensors"), safetensors(weights()));
}
