"""The shapes of three real models, with random weights, and what the peers share."""

import json
import re

SHAPES = {
    "smollm2-135m": dict(
        model_type="llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_theta=100000.0,
        tie_word_embeddings=True,
    ),
    "qwen2.5-0.5b": dict(
        model_type="qwen2",
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_theta=1000000.0,
        tie_word_embeddings=True,
    ),
    "llama-3.2-1b": dict(
        model_type="llama",
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        tie_word_embeddings=True,
    ),
}

ATTENTIONS = ("sdpa", "eager")


def peak_resident_bytes():
    """The peak resident set of this process (VmHWM), Linux only."""
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) * 1024


def spread(values):
    """Median, lowest and highest."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return dict(median=median, lowest=ordered[0], highest=ordered[-1])


def report(tokens_per_second, tokens_per_cpu_second, **more):
    """Prints the result as one line of JSON; `compare.py` reads the last line of its output.

    The rate per second of processor time, all threads added, is the one to look at while other programs
    use the machine; with one thread nothing in it is spent on waiting.
    """
    rates = spread(tokens_per_second)
    print(
        json.dumps(
            dict(
                tokens_per_second=rates["median"],
                tokens_per_second_lowest=rates["lowest"],
                tokens_per_second_highest=rates["highest"],
                tokens_per_cpu_second=spread(tokens_per_cpu_second)["median"],
                peak_resident_bytes=peak_resident_bytes(),
                **more,
            )
        )
    )
