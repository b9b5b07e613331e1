"""Writes a model folder of a real shape with random weights, a tokenizer and a chat template.

    python make_checkpoint.py smollm2-135m FOLDER
    python make_checkpoint.py qwen2.5-0.5b FOLDER --dtype bf16

The tokenizer is a byte-level BPE trained on --text (by default: on the scripts beside this one), so it
knows far fewer words than the model; the rest of the embedding is never looked up, as with any padded vocabulary.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM

from shapes import SHAPES

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TRAINED_WORDS = 4096
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_tokenizer(folder: Path, text_files):
    """Trains a byte-level BPE and writes it as the Hub lays it out."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TRAINED_WORDS,
        special_tokens=[AddedToken(word, special=True, normalized=False) for word in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in text_files], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = dict(
        tokenizer_class="PreTrainedTokenizerFast",
        bos_token=None,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
        chat_template=CHATML,
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def write_model(folder: Path, shape, dtype):
    """Random weights from a fixed seed: what transformers initialises, biases included."""
    torch.manual_seed(1)
    settings = dict(SHAPES[shape])
    config = AutoConfig.for_model(
        settings.pop("model_type"), bos_token_id=None, eos_token_id=2, pad_token_id=0, **settings
    )
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.normal_(std=0.02)
    model.to(dtype).save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--text", type=Path, nargs="+", default=sorted(Path(__file__).parent.glob("*.py")))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_model(
        arguments.folder, arguments.shape, dict(f32=torch.float32, bf16=torch.bfloat16)[arguments.dtype]
    )
    write_tokenizer(arguments.folder, arguments.text)


if __name__ == "__main__":
    main()
