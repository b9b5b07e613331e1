//! Sizes of new models and the defaults of each method, as data. `resolve` reads them.
//!
//! The sizes follow from what a machine can do in the time a person waits. Training costs about 6 operations per
//! parameter and token (<https://arxiv.org/abs/2001.08361>). Two CPU cores do some 50 to 100 billion a second, so a
//! model of 2.6 million parameters sees 3 to 5 thousand tokens a second, and a book of a million letters several
//! times in a quarter of an hour. A ten times larger model would not see it once.

use serde_json::{Map, Value, json};

use super::request::{Method, Preset};

impl Preset {
    /// All, from small to large.
    pub const ALL: [Self; 3] = [Self::Nano, Self::Micro, Self::Small];

    /// The name, as in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nano => "nano",
            Self::Micro => "micro",
            Self::Small => "small",
        }
    }

    /// The fields of `config.json`: a Llama with tied embeddings, which every tool can load.
    pub fn config(self) -> Map<String, Value> {
        let (vocab, hidden, layers, heads, key_value_heads, intermediate, context) = match self {
            Self::Nano => (512, 128, 4, 4, 4, 384, 256),
            Self::Micro => (1024, 192, 6, 6, 3, 512, 256),
            Self::Small => (49_152, 768, 12, 12, 12, 2048, 1024),
        };
        let config = json!({
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
        });
        match config {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
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
    /// The defaults of a method; for a new model they depend on how many parameters it has.
    pub fn of(method: Method, parameters: u64) -> Self {
        match method {
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
    weight_decay_why: "a little, so that weights don't drift",
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
    weight_decay_why: "the usual value for training from nothing",
    beta2: 0.95,
    beta2_why: "the usual value for training from nothing: it follows changes faster",
};

/// The width of an adapter.
pub const LORA_RANK: usize = 8;
/// The share of rows kept aside.
pub const HELD_OUT: f64 = 0.05;
/// The longest row of a batch, unless it is asked for: longer ones cost memory on every machine.
pub const LONGEST_ROW: usize = 1024;

/// How many numbers a decoder with this `config.json` has, before it is made. Fields that are missing count as in
/// transformers; a config this can't read gives `None`.
pub fn parameters_of(config: &Map<String, Value>) -> Option<u64> {
    let field = |name: &str| config.get(name).and_then(Value::as_u64);
    let flag = |name: &str| {
        config
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    };
    let (vocab, hidden, layers) = (
        field("vocab_size")?,
        field("hidden_size")?,
        field("num_hidden_layers")?,
    );
    let (intermediate, heads) = (field("intermediate_size")?, field("num_attention_heads")?);
    let head = field("head_dim").or_else(|| hidden.checked_div(heads))?;
    let (queries, keys) = (
        heads * head,
        field("num_key_value_heads").unwrap_or(heads) * head,
    );
    let qwen2 = config.get("model_type").and_then(Value::as_str) == Some("qwen2");
    let qwen3 = config.get("model_type").and_then(Value::as_str) == Some("qwen3");
    let bias = if flag("attention_bias") || qwen2 {
        queries + 2 * keys
    } else {
        0
    };
    let head_norms = if qwen3 { 2 * head } else { 0 };
    let attention = hidden * (queries + 2 * keys) + queries * hidden + bias + head_norms;
    let layer = attention + 3 * hidden * intermediate + 2 * hidden;
    let embeddings = vocab * hidden * if flag("tie_word_embeddings") { 1 } else { 2 };
    Some(embeddings + layers * layer + hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_published_models_have() {
        // The counts are those the models' cards and transformers' `num_parameters()` give.
        check(
            json!({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
                "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
                "tie_word_embeddings": true}),
            134_515_008,
        );
        check(
            json!({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
                "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
                "tie_word_embeddings": true}),
            494_032_768,
        );
        check(
            json!({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
                "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                "tie_word_embeddings": true}),
            596_049_920,
        );
    }

    #[test]
    fn presets_have_the_size_they_promise() {
        let sizes = Preset::ALL.map(|preset| parameters_of(&preset.config()).unwrap());
        assert_eq!(sizes, [918_656, 2_632_128, 122_702_592]);
    }

    #[track_caller]
    fn check(config: Value, parameters: u64) {
        assert_eq!(parameters_of(config.as_object().unwrap()), Some(parameters));
    }
}
