//! How each weight of a model is kept: the mixes of llama.cpp's tool for quantizing, by the names that its users know.
//!
//! Two kinds of weights matter more than others, the values of attention and the way out of the feed-forward part: the mixes give
//! some of them more bits, and the table of tokens as well. Deliberately absent: mixes below 4 bits.

use serde::{Deserialize, Serialize};

use crate::{arch::config::DecoderConfig, gguf::TensorType};

use TensorType as T;

/// How many bits the weights of an export get, as llama.cpp's tool for quantizing names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// 32 bits.
    F32,
    /// 16 bits with more digits.
    F16,
    /// 16 bits with a wider range.
    Bf16,
    /// 8.5 bits.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// 6.6 bits.
    #[serde(rename = "q6_k")]
    Q6K,
    /// 5.5 bits, some 6.6.
    #[serde(rename = "q5_k_m")]
    Q5KM,
    /// 4.5 bits, some 6.6.
    #[serde(rename = "q4_k_m")]
    Q4KM,
    /// 4.5 bits in small blocks, which any width divides into.
    #[serde(rename = "q4_0")]
    Q4_0,
}

/// What is known of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AboutMix {
    /// Which one.
    pub mix: Mix,
    /// Its name: `Q4_K_M`.
    pub name: &'static str,
    /// `general.file_type`.
    pub file_type: u32,
    /// What most of its weights are.
    pub usual: TensorType,
}

/// All mixes, from the most bits to the fewest.
pub const MIXES: [AboutMix; 8] = [
    about(Mix::F32, "F32", 0, T::F32),
    about(Mix::F16, "F16", 1, T::F16),
    about(Mix::Bf16, "BF16", 32, T::BF16),
    about(Mix::Q8_0, "Q8_0", 7, T::Q8_0),
    about(Mix::Q6K, "Q6_K", 18, T::Q6K),
    about(Mix::Q5KM, "Q5_K_M", 17, T::Q5K),
    about(Mix::Q4KM, "Q4_K_M", 15, T::Q4K),
    about(Mix::Q4_0, "Q4_0", 2, T::Q4_0),
];

const fn about(mix: Mix, name: &'static str, file_type: u32, usual: TensorType) -> AboutMix {
    AboutMix {
        mix,
        name,
        file_type,
        usual,
    }
}

impl Mix {
    /// What is known of it.
    pub fn about(self) -> &'static AboutMix {
        let row = MIXES.iter().find(|it| it.mix == self);
        row.unwrap_or(&MIXES[0])
    }

    /// How the weight of this name of a checkpoint is kept.
    pub fn of_weight(self, name: &str, shape: &[usize], config: &DecoderConfig) -> TensorType {
        let &[_, width] = shape else {
            return T::F32;
        };
        let usual = self.about().usual;
        if !usual.is_quantized() {
            return usual;
        }
        let head = match config.tie_word_embeddings {
            true => "model.embed_tokens.weight",
            false => "lm_head.weight",
        };
        let is = |part: &str| name.ends_with(&format!(".{part}.weight"));
        let matters = is("v_proj") || is("qkv_proj") || is("down_proj");
        let layer = name.strip_prefix("model.layers.").and_then(|rest| {
            let (layer, _) = rest.split_once('.')?;
            layer.parse().ok()
        });
        let wanted = match (self, layer) {
            _ if name == head => match usual {
                T::Q8_0 => T::Q8_0,
                _ if !width.is_multiple_of(usual.block()) => T::Q8_0,
                _ => T::Q6K,
            },
            (Self::Q4KM | Self::Q5KM, Some(layer))
                if matters && gets_more(layer, config.layers.len()) =>
            {
                T::Q6K
            }
            _ => usual,
        };
        fitting(wanted, width)
    }
}

/// Whether a layer is one of the first or last eighth, or every third of those between.
fn gets_more(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// A type whose blocks fill rows of this width: the wanted one, or the next with smaller blocks.
fn fitting(wanted: TensorType, width: usize) -> TensorType {
    let smaller = match wanted {
        _ if width.is_multiple_of(wanted.block()) => return wanted,
        T::Q4K => T::Q5_0,
        T::Q5K => T::Q5_1,
        T::Q6K => T::Q8_0,
        _ => return T::F16,
    };
    fitting(smaller, width)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(width: usize, layers: usize, tied: bool) -> DecoderConfig {
        let json = json!({"model_type": "llama", "vocab_size": 64, "hidden_size": width, "intermediate_size": 1536,
            "num_hidden_layers": layers, "num_attention_heads": 1, "head_dim": 64, "tie_word_embeddings": tied});
        DecoderConfig::from_json(&json).unwrap()
    }

    #[test]
    fn weights_that_matter_more_and_rows_that_do_not_divide_get_other_blocks() {
        let of = |mix: Mix, name: &str, width: usize, tied: bool| {
            let config = config(width, 30, tied);
            let input = if name.ends_with("down_proj.weight") {
                1536
            } else {
                width
            };
            mix.of_weight(name, &[64, input], &config).name()
        };
        let table = "model.embed_tokens.weight";
        let layer = |layer: usize, part: &str| format!("model.layers.{layer}.{part}.weight");
        let [query, value] = [layer(3, "self_attn.q_proj"), layer(3, "self_attn.v_proj")];
        let (plain, more) = (layer(3, "mlp.down_proj"), layer(5, "mlp.down_proj"));
        for (mix, name, width, tied, expected) in [
            (Mix::Q4KM, &*query, 1024, true, "Q4_K"),
            (Mix::Q4KM, &*query, 576, true, "Q5_0"),
            (Mix::Q5KM, &*query, 576, true, "Q5_1"),
            (Mix::Q4KM, &*value, 1024, true, "Q4_K"),
            (Mix::Q4KM, &*plain, 576, true, "Q4_K"),
            (Mix::Q4KM, &*more, 576, true, "Q6_K"),
            (Mix::Q6K, &*query, 576, true, "Q8_0"),
            (Mix::Q6K, &*query, 20, true, "F16"),
            (Mix::Q8_0, &*query, 20, true, "F16"),
            (Mix::Q4_0, &*query, 576, true, "Q4_0"),
            (Mix::Q4_0, table, 1024, true, "Q6_K"),
            (Mix::Q4_0, table, 576, true, "Q8_0"),
            (Mix::Q4KM, table, 1024, false, "Q4_K"),
            (Mix::Q4KM, "lm_head.weight", 1024, false, "Q6_K"),
            (Mix::Q8_0, "lm_head.weight", 1024, false, "Q8_0"),
            (Mix::F16, table, 1024, true, "F16"),
        ] {
            assert_eq!(
                of(mix, name, width, tied),
                expected,
                "{mix:?} {name} {width}"
            );
        }
        let norm = Mix::Q4KM.of_weight("model.norm.weight", &[1024], &config(1024, 30, true));
        assert_eq!(norm, TensorType::F32);
    }
}
