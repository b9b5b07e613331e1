"""The tiny decoders whose numbers are recorded, as data.

A case is a model type, the settings that differ from `BASE`, the transformers major
versions that write it, and one sentence on what it exercises. The settings use the names
of transformers 4; transformers 5 translates them and saves its own layout.
"""

from dataclasses import dataclass, field

BASE = dict(
    vocab_size=44,
    hidden_size=24,
    intermediate_size=28,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
)


ABSENT = "absent"


@dataclass(frozen=True)
class Case:
    """One tiny decoder. `name` gets `-v4` or `-v5` appended."""

    name: str
    model_type: str
    note: str
    settings: dict = field(default_factory=dict)
    versions: tuple = (4, 5)
    store: str = "float32"
    shards: int = 1
    padded: bool = False
    # Fields of config.json that somebody wrote into it afterwards; `ABSENT` takes one out.
    edited: dict = field(default_factory=dict)


LLAMA3 = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
YARN = dict(
    rope_type="yarn",
    factor=4.0,
    original_max_position_embeddings=16,
    beta_fast=2.0,
    beta_slow=1.0,
)
WIDE_HEADS = dict(num_attention_heads=2, num_key_value_heads=1, head_dim=16)
LONGROPE = dict(type="longrope", short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.5, 4.0])
GEMMA2 = dict(
    head_dim=8,
    query_pre_attn_scalar=14,
    sliding_window=6,
    attn_logit_softcapping=2.0,
    final_logit_softcapping=3.0,
    pad_token_id=0,
)
GEMMA3 = dict(
    head_dim=8,
    num_hidden_layers=3,
    intermediate_size=20,
    query_pre_attn_scalar=14,
    sliding_window=6,
    rope_theta=1000.0,
    rope_local_base_freq=50.0,
    pad_token_id=0,
)

CASES = [
    Case(
        "llama-plain",
        "llama",
        "grouped-query attention, untied head",
        dict(tie_word_embeddings=False, rope_theta=500.0),
    ),
    Case("llama-tied", "llama", "the head is the embedding", versions=(5,)),
    Case(
        "llama-bias",
        "llama",
        "a bias on every projection",
        dict(attention_bias=True, mlp_bias=True),
        versions=(5,),
    ),
    Case(
        "llama-head-dim",
        "llama",
        "head_dim is not hidden_size / num_attention_heads; three layers; one key-value head",
        dict(head_dim=10, num_key_value_heads=1, num_hidden_layers=3, intermediate_size=20),
        versions=(5,),
    ),
    Case(
        "llama-rope-llama3",
        "llama",
        "llama3 rope scaling: kept, blended and divided frequencies",
        dict(rope_scaling=LLAMA3),
    ),
    Case(
        "llama-rope-linear",
        "llama",
        "linear rope scaling",
        dict(rope_scaling=dict(rope_type="linear", factor=2.5)),
        versions=(5,),
    ),
    Case(
        "llama-rope-yarn",
        "llama",
        "yarn rope scaling past the original context, inferred attention factor",
        dict(rope_scaling=YARN, **WIDE_HEADS),
    ),
    Case(
        "llama-rope-yarn-attention-factor",
        "llama",
        "yarn with a stated attention_factor and an unrounded correction range",
        dict(rope_scaling=dict(YARN, attention_factor=1.3, truncate=False), **WIDE_HEADS),
        versions=(5,),
    ),
    Case(
        "llama-rope-yarn-mscale",
        "llama",
        "yarn with mscale and mscale_all_dim",
        dict(rope_scaling=dict(YARN, mscale=1.4, mscale_all_dim=0.7), **WIDE_HEADS),
        versions=(5,),
    ),
    Case("llama-sharded", "llama", "two shards and an index", shards=2, versions=(5,)),
    Case("llama-bfloat16", "llama", "stored in bf16, computed in f32", store="bfloat16", versions=(5,)),
    Case("llama-float16", "llama", "stored in f16, computed in f32", store="float16", versions=(4,)),
    Case(
        "llama-padded",
        "llama",
        "rows of different length, padded on the right",
        dict(pad_token_id=0),
        versions=(5,),
        padded=True,
    ),
    Case("mistral-sliding", "mistral", "sliding window shorter than the rows", dict(sliding_window=5)),
    Case(
        "mistral-full",
        "mistral",
        "no sliding window, untied head",
        dict(sliding_window=None, tie_word_embeddings=False),
        versions=(5,),
    ),
    Case(
        "qwen2-plain",
        "qwen2",
        "bias on query, key and value only",
        dict(use_sliding_window=False, sliding_window=5),
        versions=(5,),
    ),
    Case(
        "qwen2-sliding",
        "qwen2",
        "sliding window from layer max_window_layers on",
        dict(use_sliding_window=True, sliding_window=5, max_window_layers=1),
    ),
    Case("qwen3-plain", "qwen3", "norms on queries and keys, head_dim", dict(head_dim=8)),
    Case(
        "qwen3-sliding",
        "qwen3",
        "sliding window on the second layer, attention bias, untied head",
        dict(
            head_dim=8,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=1,
            attention_bias=True,
            tie_word_embeddings=False,
        ),
        versions=(5,),
    ),
    Case(
        "gemma2-plain",
        "gemma2",
        "soft caps, custom attention scale, norms before and after, alternating window, GeGLU, scaled embedding, 1+w norms",
        GEMMA2,
    ),
    Case(
        "gemma2-no-caps",
        "gemma2",
        "soft caps absent (null in config.json)",
        dict(GEMMA2, attn_logit_softcapping=None, final_logit_softcapping=None),
        versions=(5,),
    ),
    Case(
        "gemma3-plain",
        "gemma3_text",
        "query and key norms with 1+w, two local layers then a global one, their own rope bases",
        dict(GEMMA3, sliding_window_pattern=3),
    ),
    Case(
        "gemma3-rope-linear",
        "gemma3_text",
        "linear rope scaling on the global layers only",
        dict(GEMMA3, sliding_window_pattern=2, rope_scaling=dict(rope_type="linear", factor=4.0)),
    ),
    Case(
        "phi3-plain",
        "phi3",
        "fused qkv_proj and gate_up_proj, partial rotary embedding, sliding window",
        dict(num_attention_heads=2, num_key_value_heads=1, partial_rotary_factor=0.5, sliding_window=7),
    ),
    Case(
        "phi3-longrope-long",
        "phi3",
        "longrope, every sequence longer than the original context: the long factors",
        dict(
            rope_scaling=LONGROPE,
            original_max_position_embeddings=8,
            max_position_embeddings=64,
            tie_word_embeddings=False,
        ),
    ),
    Case(
        "phi3-longrope-short",
        "phi3",
        "longrope, every sequence within the original context: the short factors",
        dict(
            rope_scaling=LONGROPE,
            original_max_position_embeddings=32,
            max_position_embeddings=64,
        ),
        versions=(5,),
    ),
    Case(
        "smollm3-layers",
        "smollm3",
        "no rope on the layers that no_rope_layers marks with 0",
        dict(num_hidden_layers=3, intermediate_size=20, no_rope_layers=[1, 0, 1]),
    ),
    Case(
        "smollm3-interval",
        "smollm3",
        "no rope on every third layer, by no_rope_layer_interval; sliding window there; untied head",
        dict(
            num_hidden_layers=3,
            intermediate_size=20,
            no_rope_layer_interval=3,
            use_sliding_window=True,
            sliding_window=5,
            tie_word_embeddings=False,
        ),
        versions=(5,),
    ),
    Case(
        "llama-declared-tied",
        "llama",
        "tie_word_embeddings is true, and the head that is stored is another than the embedding: both are kept",
        dict(tie_word_embeddings=False),
        versions=(5,),
        edited=dict(tie_word_embeddings=True),
    ),
    Case(
        "llama-both-ropes",
        "llama",
        "rope_scaling beside rope_parameters: the older one counts, and the base of the newer one does not",
        versions=(5,),
        edited=dict(rope_scaling=dict(type="linear", factor=2.5), rope_theta=50.0),
    ),
    Case(
        "gemma2-absent",
        "gemma2",
        "fields that are left out have the defaults of the family: soft caps, the scale of queries, the window",
        dict(GEMMA2, hidden_activation="gelu_pytorch_tanh"),
        versions=(5,),
        edited=dict.fromkeys(
            (
                "attn_logit_softcapping",
                "final_logit_softcapping",
                "hidden_activation",
                "layer_types",
                "query_pre_attn_scalar",
                "rms_norm_eps",
                "sliding_window",
            ),
            ABSENT,
        ),
    ),
    Case(
        "gemma3-ignored",
        "gemma3_text",
        "a soft cap of scores, which this family does not read",
        dict(GEMMA3, sliding_window_pattern=3),
        versions=(5,),
        edited=dict(attn_logit_softcapping=2.0),
    ),
    Case(
        "phi3-absent",
        "phi3",
        "fields that are left out have the defaults of the family",
        dict(num_attention_heads=2, num_key_value_heads=2, sliding_window=7),
        versions=(5,),
        edited=dict.fromkeys(("num_key_value_heads", "rms_norm_eps", "rope_parameters"), ABSENT),
    ),
    Case(
        "phi3-odd-rotary",
        "phi3",
        "half of heads of 10: the rotary width of 5 rotates 6 numbers",
        dict(num_attention_heads=2, num_key_value_heads=1, head_dim=10, partial_rotary_factor=0.5),
        versions=(5,),
    ),
    Case(
        "phi3-longrope-crossing",
        "phi3",
        "longrope, a text that becomes longer than the original context while it is written",
        dict(
            rope_scaling=LONGROPE,
            original_max_position_embeddings=16,
            max_position_embeddings=64,
        ),
        versions=(5,),
    ),
]
