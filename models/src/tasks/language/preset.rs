//! Sizes of new models and the defaults of each method, as data. `resolve` reads them.
//!
//! The sizes follow from what a machine can do in the time a person waits. Training costs about 6 operations per
//! parameter and token (<https://arxiv.org/abs/2001.08361>). Two CPU cores do some 50 to 100 billion a second, so a
//! model of 2.6 million parameters sees 3 to 5 thousand tokens a second, and a book of a million letters several
//! times in a quarter of an hour. A ten times larger model would not see it once.

use serde_json::{Map, Value, json};

use super::request::{Method, Preset};
use crate::arch::{network::NetworkConfig, trm};

impl Preset {
    /// All, from small to large, and then the recursive ones.
    pub const ALL: [Self; 6] = [
        Self::Nano,
        Self::Micro,
        Self::Small,
        Self::TrmChatFast,
        Self::TrmChat,
        Self::TrmChatLarge,
    ];

    /// The name, as in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nano => "nano",
            Self::Micro => "micro",
            Self::Small => "small",
            Self::TrmChat => "trm_chat",
            Self::TrmChatFast => "trm_chat_fast",
            Self::TrmChatLarge => "trm_chat_large",
        }
    }

    /// The fields of `config.json`.
    pub fn config(self) -> Map<String, Value> {
        match self {
            Self::Nano => llama(512, 128, 4, 4, 4, 384, 256),
            Self::Micro => llama(1024, 192, 6, 6, 3, 512, 256),
            Self::Small => llama(49_152, 768, 12, 12, 12, 2048, 1024),
            // The fork of the reference that chats: `trm_chat`, `trm_small` and `trm_small_fp32`, the last two with attention in
            // place of products along the sequence, and the last without steps that nothing learns to end.
            Self::TrmChat => recursive(8192, 384, 12, 4.0, 4, [1, 1]),
            Self::TrmChatFast => recursive(2048, 256, 4, 2.0, 2, [2, 2]),
            Self::TrmChatLarge => recursive(16_384, 768, 8, 2.0, 2, [3, 4]),
        }
    }
}

/// A Llama with tied embeddings, which every tool can load.
fn llama(
    vocab: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    key_value_heads: usize,
    intermediate: usize,
    context: usize,
) -> Map<String, Value> {
    fields(json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "head_dim": hidden / heads,
        "max_position_embeddings": context,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "attention_bias": false,
        "mlp_bias": false,
        "tie_word_embeddings": true,
    }))
}

/// A recursive model of H and n cycles.
fn recursive(
    vocab: usize,
    hidden: usize,
    heads: usize,
    expansion: f64,
    layers: usize,
    [answer, thought]: [usize; 2],
) -> Map<String, Value> {
    fields(json!({
        "model_type": trm::MODEL_TYPE,
        "causal": true,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_heads": heads,
        "expansion": expansion,
        "L_layers": layers,
        "H_cycles": answer,
        "L_cycles": thought,
        "halt_max_steps": 1,
        "max_position_embeddings": 512,
        "pos_encodings": "rope",
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-5,
    }))
}

fn fields(config: Value) -> Map<String, Value> {
    match config {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// What a method starts with when the request does not say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MethodDefaults {
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Why this one.
    pub learning_rate_why: &'static str,
    /// How often the data is seen.
    pub epochs: f64,
    /// Why so often.
    pub epochs_why: &'static str,
    /// How many tokens one update should see.
    pub tokens_per_step: usize,
    /// How much each weight shrinks.
    pub weight_decay: f64,
    /// Why so much.
    pub weight_decay_why: &'static str,
    /// AdamW's memory of squared gradients.
    pub beta2: f64,
    /// Why so long.
    pub beta2_why: &'static str,
}

impl MethodDefaults {
    /// The defaults of a method; for a new model they depend on how many parameters it has, and whether it is recursive.
    pub fn of(method: Method, parameters: u64, is_recursive: bool) -> Self {
        match method {
            Method::Scratch if is_recursive => RECURSIVE,
            Method::Lora => LORA,
            Method::Full => FULL,
            Method::Scratch if parameters < 2_000_000 => Self {
                learning_rate: 3e-3,
                learning_rate_why: "a new model of about a million parameters learns fastest near this",
                ..SCRATCH
            },
            Method::Scratch if parameters < 20_000_000 => Self {
                learning_rate: 2e-3,
                learning_rate_why: "a new model of a few million parameters learns fastest near this",
                ..SCRATCH
            },
            Method::Scratch => Self {
                tokens_per_step: 32_768,
                epochs: 1.0,
                epochs_why: "a large new model needs fresh text more than repeated text",
                ..SCRATCH
            },
        }
    }
}

const LORA: MethodDefaults = MethodDefaults {
    learning_rate: 2e-4,
    learning_rate_why: "the usual rate for adapters, ten times that of full training",
    epochs: 3.0,
    epochs_why: "adapters usually need to see each row two or three times",
    tokens_per_step: 4096,
    weight_decay: 0.0,
    weight_decay_why: "an adapter is small enough not to need it",
    beta2: 0.999,
    beta2_why: "the usual value for fine-tuning",
};

const FULL: MethodDefaults = MethodDefaults {
    learning_rate: 2e-5,
    learning_rate_why: "small, so that the model does not forget what it knows",
    epochs: 2.0,
    epochs_why: "with every weight learning, more than two passes tend to memorize",
    tokens_per_step: 8192,
    weight_decay: 0.01,
    weight_decay_why: "a little, so that weights don’t drift",
    beta2: 0.999,
    beta2_why: "the usual value for fine-tuning",
};

const SCRATCH: MethodDefaults = MethodDefaults {
    learning_rate: 6e-4,
    learning_rate_why: "the rate of published models of about a hundred million parameters",
    epochs: 6.0,
    epochs_why: "a small new model on little text gains from about six passes, and then begins to repeat it",
    tokens_per_step: 2048,
    weight_decay: 0.1,
    weight_decay_why: "the usual value for training from scratch",
    beta2: 0.95,
    beta2_why: "the usual value for training from scratch: it follows changes faster",
};

const RECURSIVE: MethodDefaults = MethodDefaults {
    learning_rate: 5e-4,
    learning_rate_why: "with norms after each sum, higher rates keep a recursive model from learning what depends on what",
    ..SCRATCH
};

/// The width of an adapter.
pub const LORA_RANK: usize = 8;
/// The share of rows kept aside.
pub const HELD_OUT: f64 = 0.05;
/// The longest row of a batch, unless it is asked for: longer ones cost memory on every machine.
pub const LONGEST_ROW: usize = 1024;

/// How many parameters a network with this `config.json` has, before it is made. A config that can't be read gives `None`.
pub fn parameters_of(config: &Map<String, Value>) -> Option<u64> {
    let config = NetworkConfig::from_json(&Value::Object(config.clone())).ok()?;
    Some(config.parameters())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_size_they_promise() {
        let sizes = Preset::ALL.map(|preset| parameters_of(&preset.config()).unwrap());
        assert_eq!(
            sizes,
            [
                918_656,
                2_632_128,
                122_702_592,
                2_360_322,
                13_370_882,
                34_606_082
            ]
        );
    }
}
