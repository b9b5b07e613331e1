"""LoRA adapters on tiny decoders, saved by peft, with their numbers."""

from dataclasses import dataclass
from pathlib import Path

import peft
import torch
from peft import LoraConfig, PeftModel, get_peft_model

import decoder
from decoder_cases import Case

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class AdapterCase:
    """One adapter on one base model."""

    name: str
    note: str
    base: Case
    settings: dict


ADAPTERS = [
    AdapterCase(
        "lora-all",
        "rank 4 on all seven projections",
        Case("", "llama", "", dict(tie_word_embeddings=False)),
        dict(r=4, lora_alpha=8, target_modules=SEVEN),
    ),
    AdapterCase(
        "lora-subset",
        "rank-stabilised scale alpha / sqrt(r), layers 1 and 2 of three, three projections, biased base",
        Case(
            "",
            "llama",
            "",
            dict(num_hidden_layers=3, intermediate_size=20, attention_bias=True, mlp_bias=True),
        ),
        dict(
            r=3,
            lora_alpha=6,
            use_rslora=True,
            layers_to_transform=[1, 2],
            target_modules=["q_proj", "v_proj", "down_proj"],
        ),
    ),
    AdapterCase(
        "lora-fused",
        "adapters on the fused projections of phi3",
        Case("", "phi3", "", dict(num_attention_heads=2, num_key_value_heads=1, partial_rotary_factor=0.5)),
        dict(r=4, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
    ),
]


def checkpoint_name(name):
    """peft drops the adapter's name from parameter names when it saves."""
    return name.replace(".default.", ".")


def adapt(base, case: AdapterCase):
    """Puts the adapter on the base, with A and B both random."""
    config = LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, bias="none", **case.settings)
    model = get_peft_model(base, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                scale = 0.3 if "lora_A" in name else 0.2
                parameter.copy_(decoder.normal(checkpoint_name(name), parameter.shape, scale))
    return model.eval()


def trainable(model):
    """The adapter's parameters by checkpoint name."""
    return [(checkpoint_name(n), p) for n, p in model.named_parameters() if p.requires_grad]


def make(case: AdapterCase, root: Path):
    """Writes the base model, the adapter beside it and the numbers of both together."""
    folder = decoder.clean_folder(root / f"{case.name}-v{decoder.major_version()}")
    decoder.save_model(decoder.build(case.base), folder, case.base)
    base = decoder.load_model(folder)
    base.name_or_path = base.config._name_or_path = "base"
    tokens, targets, _ = decoder.rows(base, padded=False)
    base_logits = base(tokens).logits.detach()
    adapt(base, case).save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()

    model = PeftModel.from_pretrained(
        decoder.load_model(folder), folder / "adapter", is_trainable=True
    ).eval()
    parameters = trainable(model)
    logits = model(tokens).logits
    loss = decoder.mean_loss(logits, targets)
    grads = decoder.gradients(parameters, loss)
    golden = dict(
        case=folder.name,
        note=case.note,
        made_by=decoder.made_by(peft=peft.__version__),
        loss=loss.item(),
        target_count=int((targets != decoder.NO_TARGET).sum()),
        gradient_norm=decoder.norm(grads.values()),
        gradient_norms={name: decoder.norm([g]) for name, g in grads.items()},
        greedy=decoder.greedy(model),
        merged=None,
        adamw=None,
    )
    tensors = dict(tokens=tokens, targets=targets, logits=logits.detach(), base_logits=base_logits)
    golden["adamw"] = decoder.adamw_losses(model, parameters, tokens, targets)
    tensors["trained.logits"] = model(tokens).logits.detach()
    tensors |= {f"trained.{name}": p.detach().clone() for name, p in parameters}
    golden["merged"] = merged_difference(folder, tokens, tensors["logits"])
    decoder.write(folder, golden, tensors)
    return folder.name


@torch.no_grad()
def merged_difference(folder, tokens, logits):
    """How far peft's own merged model is from the adapted one: the tolerance of a merge test."""
    model = PeftModel.from_pretrained(decoder.load_model(folder), folder / "adapter").merge_and_unload()
    return dict(largest_logit_difference=(model(tokens).logits - logits).abs().max().item())
