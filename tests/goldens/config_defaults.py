"""What the config classes of transformers take where a `config.json` leaves a field out."""

import dataclasses
from pathlib import Path

from transformers import AutoConfig

from decoder import made_by, write_json

FAMILIES = ("gemma2", "gemma3_text", "llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3")
# What a class says in another way than by a field with a default.
IN_ROPE = ("rope_theta", "partial_rotary_factor")


def defaults(model_type):
    """The value of every field that has one without being named."""
    config = AutoConfig.for_model(model_type)
    fields = {field.name: field.default for field in dataclasses.fields(type(config))}
    known = {name: value for name, value in fields.items() if is_plain(value)}
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    known |= {name: rope[name] for name in IN_ROPE if name in rope}
    if "sliding_attention" in config.rope_parameters:
        known["rope_local_base_freq"] = config.rope_parameters["sliding_attention"]["rope_theta"]
    if hasattr(config, "_sliding_window_pattern"):
        known["sliding_window_pattern"] = config._sliding_window_pattern
    return dict(sorted(known.items()))


def is_plain(value):
    return value is None or isinstance(value, (bool, int, float, str))


def make(root: Path):
    """Writes `config_defaults.json`."""
    families = {model_type: defaults(model_type) for model_type in FAMILIES}
    write_json(root / "config_defaults.json", dict(made_by=made_by(), families=families))
