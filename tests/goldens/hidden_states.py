"""The hidden states of a tiny decoder: before, between and after its blocks."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from decoder import load_model, rows

# One of each family.
CASES = (
    "gemma2-plain-v5",
    "gemma3-plain-v5",
    "llama-plain-v5",
    "mistral-sliding-v5",
    "phi3-plain-v5",
    "qwen2-plain-v5",
    "qwen3-plain-v5",
    "smollm3-layers-v5",
)


@torch.no_grad()
def make(name: str, root: Path):
    """Adds the hidden states of the case of this name to its folder."""
    folder = root / name
    model = load_model(folder)
    tokens, _, _ = rows(model, padded=False)
    after_block = {}
    for index, layer in enumerate(model.model.layers):

        def keep(_module, _arguments, output, index=index):
            after_block[index] = output[0] if isinstance(output, tuple) else output

        layer.register_forward_hook(keep)
    states = model(tokens, output_hidden_states=True).hidden_states
    last = len(model.model.layers) - 1
    # What transformers calls the last hidden state has passed the final norm; what the last block gave has not.
    assert torch.equal(states[-1], model.model.norm(after_block[last]))
    tensors = dict(embed=states[0], final=states[-1])
    tensors |= {f"block.{index}": states[index + 1] for index in range(last)}
    tensors[f"block.{last}"] = after_block[last]
    path = folder / "hidden_states.safetensors"
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, path)
    path.chmod(0o644)
