"""Random texts through tokenizers of many kinds: the tokens by the `tokenizers` library and by Anneal.

    python random_tokenizers.py --n 2000 --seed 1 --long-every 200

The tokenizers have the normalizers, the rules for words, the added tokens and the decoders of real families, and
vocabularies learned from a small text. Some texts are so long that Anneal encodes them in pieces. Compared are the tokens
with and without those around a text, what they say again, and what they say when they come one by one.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from answers import Anneal, report

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]


def split(*patterns):
    """Words by regular expressions, then bytes."""
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentence(prefix):
    """Spaces that are letters, with one in front."""
    return normalizers.Sequence([normalizers.Prepend(prefix), normalizers.Replace(" ", "▁")])


def byte_level(**parts):
    return dict(model=models.BPE(), decoder=decoders.ByteLevel(), bytes=True, **parts)


def fallback(strip, **parts):
    """SentencePiece's byte-pair encoding: letters that are not known are bytes."""
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    steps += [decoders.Strip(" ", 1, 0)] if strip else []
    model = models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return dict(model=model, decoder=decoders.Sequence(steps), **parts)


def kinds():
    """Every kind by name."""
    begin = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    both = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    levels = processors.ByteLevel(trim_offsets=True)
    level = pre_tokenizers.ByteLevel
    return {
        "gpt2": byte_level(words=level(add_prefix_space=False), around=levels),
        "roberta": byte_level(words=level(add_prefix_space=True), around=both),
        "llama3": byte_level(words=split(LLAMA3), around=processors.Sequence([levels, begin]), ignore_merges=True),
        "qwen2": byte_level(normalizer=normalizers.NFC(), words=split(QWEN2), around=levels),
        "tekken": byte_level(words=split(TEKKEN), around=begin),
        "deepseek": byte_level(words=split(r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", GPT2), around=begin),
        "smollm": byte_level(words=pre_tokenizers.Sequence([pre_tokenizers.Digits(True), level(add_prefix_space=False)])),
        "llama2": fallback(True, normalizer=sentence("▁"), around=begin),
        "phi3": fallback(True, normalizer=sentence("▁"), around=begin, rstrip=True),
        "mistral": fallback(True, words=pre_tokenizers.Metaspace(prepend_scheme="first", split=False), around=begin),
        "gemma": fallback(False, normalizer=normalizers.Replace(" ", "▁"), words=pre_tokenizers.Split(" ", "merged_with_previous"), around=begin),
        "t5": dict(model=models.Unigram(), decoder=decoders.Metaspace(), normalizer=normalizers.NFKC(), words=pre_tokenizers.Metaspace(), around=both),
        "bert": dict(model=models.WordPiece(unk_token="<unk>"), decoder=decoders.WordPiece(), normalizer=normalizers.BertNormalizer(), words=pre_tokenizers.BertPreTokenizer(), around=both),
    }


def learned(kind, corpus):
    """A tokenizer of a kind."""
    tokenizer = Tokenizer(kind["model"])
    tokenizer.decoder = kind["decoder"]
    if "normalizer" in kind:
        tokenizer.normalizer = kind["normalizer"]
    if "words" in kind:
        tokenizer.pre_tokenizer = kind["words"]
    special = [AddedToken(it, special=True, normalized=False, rstrip=kind.get("rstrip", False)) for it in SPECIAL]
    settings = dict(vocab_size=900, special_tokens=special, show_progress=False)
    if isinstance(kind["model"], models.Unigram):
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **settings)
    elif isinstance(kind["model"], models.WordPiece):
        trainer = trainers.WordPieceTrainer(**settings)
    else:
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind.get("bytes") else []
        tokens = [f"<0x{byte:02X}>" for byte in range(256)] if not kind.get("bytes") else []
        # A token of more than 4,096 bytes is refused, and no letter has more than four.
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, max_token_length=1000, **dict(settings, special_tokens=special + tokens))
    tokenizer.train_from_iterator(corpus, trainer)
    if kind.get("ignore_merges"):
        tokenizer.model.ignore_merges = True
    if "around" in kind:
        tokenizer.post_processor = kind["around"]
    # Those that are learned beside the special ones, as in Phi-3 and Qwen.
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("<think>", normalized=False, lstrip=True)])
    return tokenizer


PARTS = [
    "the", " the", " cat", "sat", "'ll", "'S", " 12", "3456789", ".", ",", "!?", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t",
    "é", "e\u0301", "ß", "ﬁ", "漢字", "かな", "🙂", "👩‍👩‍👧", "\u200b", "\u00a0", "<s>", "</s>", "<|im_start|>", "<|im_end|>",
    "<tool>", "<think>", "<|im", "▁", "{", "}", "==", "--", "word", "Word", "WORD", "camelCase", "ﷺ", "\u0000", "\x1f", "Ω", "ไทย",
    " def f(x):\n    return x", "http://a.b/c?d=e",
]  # fmt: skip


def text(draw, size):
    """A text of so many parts."""
    parts = []
    for _ in range(size):
        part = draw.choice(PARTS)
        parts.append(part * (draw.randint(2, 300) if draw.random() < 0.003 else 1))
        if draw.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


def long_text(draw):
    """A text that is encoded in pieces: a mixture, or hardly anything but one part."""
    if draw.random() < 0.7:
        return text(draw, draw.randint(40_000, 80_000))
    part = draw.choice(PARTS)
    made = "".join(part * draw.randint(1, 5000) + draw.choice(PARTS) for _ in range(400))
    return made[: draw.randint(140_000, 400_000)]


def compare(anneal, name, tokenizer, folder, words):
    """What differs for one text, or nothing."""
    for special in (False, True):
        theirs = tokenizer.encode(words, add_special_tokens=special).ids
        answer = anneal.ask(ask="encode", folder=str(folder), text=words, special=special)
        note = dict(kind=name, special=special, bytes=len(words.encode()), text=words[:300])
        ours = answer.get("tokens")
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours or [], theirs)) if a != b), None)
            return dict(note, error=answer.get("error"), first_difference=at, lengths=[len(ours or []), len(theirs)])
        said = tokenizer.decode(theirs, skip_special_tokens=True)
        if answer["decoded"] != said:
            return dict(note, decoded=answer["decoded"][:300], theirs=said[:300])
        if answer["streamed"] != said:
            return dict(note, streamed=answer["streamed"][:300], theirs=said[:300])
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long-every", type=int, default=50, help="one text in so many is long")
    arguments = parser.parse_args()
    draw, anneal, differences = random.Random(arguments.seed), Anneal(), []
    corpus = [text(draw, 60) for _ in range(800)]
    with tempfile.TemporaryDirectory() as root:
        made = {}
        for name, kind in kinds().items():
            made[name] = learned(kind, corpus), Path(root) / name
            made[name][1].mkdir()
            made[name][0].save(str(made[name][1] / "tokenizer.json"))
        for number in range(arguments.n):
            words = long_text(draw) if number % arguments.long_every == arguments.long_every - 1 else text(draw, draw.choice([0, 1, 2, 5, 20, 100]))
            for name, (tokenizer, folder) in made.items():
                difference = compare(anneal, name, tokenizer, folder, words)
                differences += [difference] if difference else []
    return report(differences, arguments.n * len(made), "texts")


if __name__ == "__main__":
    sys.exit(main())
