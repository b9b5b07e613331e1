//! GGUF files of families that are for chat only. candle-transformers finds their tensors by name and hardly compares them with what
//! it was told, so keys and shapes are checked here before it reads any.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::reading::Keys;
use crate::{Result, gguf::Gguf};

/// The most tokens of a text of Phi 2: the library makes a table of so many positions.
const PHI2_TOKENS: u64 = 4096;
/// By which power the library turns the positions of Phi 2.
const PHI2_THETA: f64 = 10_000.0;

/// The most blocks, each of which has a dozen tensors to compare.
const MOST_BLOCKS: u64 = 1024;

/// The `config.json` of a file, if its architecture is for chat only.
///
/// Errors: as those of [`super::config::config`], and [`crate::Error::Format`] with the tensor that is missing, of another shape than
/// the keys say, or not known.
pub(super) fn config(file: &Gguf, architecture: &str) -> Option<Result<Json>> {
    let read = match architecture {
        "glm4" => glm4,
        "phi2" => phi2,
        _ => return None,
    };
    Some(read(Keys::new(file, architecture)))
}

/// GLM-4 0414.
fn glm4(mut keys: Keys) -> Result<Json> {
    let sizes = Sizes::read(&mut keys)?;
    let Sizes { width, inner, .. } = sizes;
    let head_dim = keys.whole_or("attention.key_length", sizes.head_dim)?;
    let values = keys.whole_or("attention.value_length", head_dim)?;
    // The library turns half of a head, whatever a file says.
    let turned = keys.whole("rope.dimension_count")?;
    if turned.saturating_mul(2) != head_dim || values != head_dim {
        return keys.refuse(format!(
            "of its heads of {head_dim} numbers with values of {values}, {turned} numbers are turned; in this family both are equal and half of them"
        ));
    }
    let [queries, keyed] =
        [sizes.heads, sizes.key_heads].map(|heads| head_dim.saturating_mul(heads));
    let has_biases = keys.has("blk.0.attn_q.bias");
    let mut block = vec![
        ("attn_norm.weight", vec![width]),
        ("attn_q.weight", vec![queries, width]),
        ("attn_k.weight", vec![keyed, width]),
        ("attn_v.weight", vec![keyed, width]),
        ("attn_output.weight", vec![width, queries]),
        ("post_attention_norm.weight", vec![width]),
        ("ffn_norm.weight", vec![width]),
        ("ffn_up.weight", vec![inner.saturating_mul(2), width]),
        ("ffn_down.weight", vec![width, inner]),
        ("post_ffw_norm.weight", vec![width]),
    ];
    if has_biases {
        block.extend([
            ("attn_q.bias", vec![queries]),
            ("attn_k.bias", vec![keyed]),
            ("attn_v.bias", vec![keyed]),
        ]);
    }
    let is_tied = !keys.has("output.weight");
    let table = vec![sizes.vocabulary, width];
    let head = (!is_tied).then(|| ("output.weight", table.clone()));
    let ends = [
        ("token_embd.weight", table),
        ("output_norm.weight", vec![width]),
    ];
    check(
        &keys,
        sizes.blocks,
        &block,
        ends.into_iter().chain(head).collect(),
    )?;
    let own = json!({
        "model_type": "glm4",
        "head_dim": head_dim,
        "attention_bias": has_biases,
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": keys.number("rope.freq_base"),
        "tie_word_embeddings": is_tied,
    });
    sizes.config(keys, own)
}

/// Phi 2.
fn phi2(mut keys: Keys) -> Result<Json> {
    let mut sizes = Sizes::read(&mut keys)?;
    let Sizes { width, inner, .. } = sizes;
    let theta = keys.number("rope.freq_base").unwrap_or(PHI2_THETA);
    if theta != PHI2_THETA || sizes.key_heads != sizes.heads {
        return keys.refuse(format!(
            "it has {} heads with keys for {}, and positions by {theta}; in this family both are equal, and positions go by {PHI2_THETA}",
            sizes.heads, sizes.key_heads
        ));
    }
    let turned = keys.whole("rope.dimension_count")?;
    if turned % 2 != 0 || !(2..=sizes.head_dim).contains(&turned) {
        return keys.refuse(format!(
            "{turned} of {} numbers of a head are turned, which must be an even number of them",
            sizes.head_dim
        ));
    }
    sizes.context = sizes.context.min(PHI2_TOKENS);
    let mut block = vec![
        ("attn_norm.weight", vec![width]),
        ("attn_norm.bias", vec![width]),
        ("attn_output.weight", vec![width, width]),
        ("attn_output.bias", vec![width]),
        ("ffn_up.weight", vec![inner, width]),
        ("ffn_up.bias", vec![inner]),
        ("ffn_down.weight", vec![width, inner]),
        ("ffn_down.bias", vec![width]),
    ];
    let joined = width.saturating_mul(3);
    match keys.has("blk.0.attn_qkv.weight") {
        true => block.extend([
            ("attn_qkv.weight", vec![joined, width]),
            ("attn_qkv.bias", vec![joined]),
        ]),
        // Files since 2024 have each of the three: see `Joined`.
        false => block.extend([
            ("attn_q.weight", vec![width, width]),
            ("attn_q.bias", vec![width]),
            ("attn_k.weight", vec![width, width]),
            ("attn_k.bias", vec![width]),
            ("attn_v.weight", vec![width, width]),
            ("attn_v.bias", vec![width]),
        ]),
    }
    let ends = vec![
        ("token_embd.weight", vec![sizes.vocabulary, width]),
        ("output_norm.weight", vec![width]),
        ("output_norm.bias", vec![width]),
        ("output.weight", vec![sizes.vocabulary, width]),
        ("output.bias", vec![sizes.vocabulary]),
    ];
    check(&keys, sizes.blocks, &block, ends)?;
    let epsilon = keys.number("attention.layer_norm_epsilon");
    if epsilon.is_none_or(|it| !(0.0..1.0).contains(&it)) {
        return keys.refuse(format!(
            "the epsilon of its norms is {epsilon:?}, and it has to be from 0 to 1"
        ));
    }
    let own = json!({
        "model_type": "phi2",
        "layer_norm_eps": epsilon,
        "rotary_dim": turned,
        "tie_word_embeddings": false,
    });
    sizes.config(keys, own)
}

/// What every family has.
struct Sizes {
    vocabulary: u64,
    width: u64,
    inner: u64,
    blocks: u64,
    heads: u64,
    key_heads: u64,
    /// How wide a head is where a file doesn’t say it.
    head_dim: u64,
    context: u64,
}

impl Sizes {
    fn read(keys: &mut Keys) -> Result<Self> {
        let blocks = keys.blocks()?;
        if blocks > MOST_BLOCKS {
            return keys.refuse(format!(
                "it has {blocks} blocks, and {MOST_BLOCKS} are the most"
            ));
        }
        let (width, heads) = (
            keys.whole("embedding_length")?,
            keys.whole("attention.head_count")?,
        );
        if heads == 0 || !width.is_multiple_of(heads) {
            return keys.refuse(format!("{heads} heads do not divide its {width} numbers"));
        }
        Ok(Self {
            vocabulary: keys.vocabulary()?,
            width,
            inner: keys.whole("feed_forward_length")?,
            blocks,
            heads,
            key_heads: keys.whole_or("attention.head_count_kv", heads)?,
            head_dim: width / heads,
            context: keys.whole("context_length")?,
        })
    }

    /// The `config.json` of these sizes, with the fields that only one family has. Every key has been asked for by now.
    fn config(self, mut keys: Keys, own: Json) -> Result<Json> {
        let sizes = json!({
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.blocks,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "max_position_embeddings": self.context,
        });
        let mut config: Map<String, Json> = [sizes, own]
            .into_iter()
            .filter_map(|it| it.as_object().cloned())
            .flatten()
            .collect();
        if let Some((name, _)) = config.iter().find(|(_, value)| value.is_null()) {
            return keys.refuse(format!("it doesn’t say what is called `{name}` elsewhere"));
        }
        keys.tokens(&mut config);
        keys.check_all_read()?;
        Ok(Json::Object(config))
    }
}

/// Refuses tensors that are missing, of another shape than these, or beside them. Each block has those of `block`.
fn check(
    keys: &Keys,
    blocks: u64,
    block: &[(&str, Vec<u64>)],
    ends: Vec<(&str, Vec<u64>)>,
) -> Result<()> {
    let of_block = |index| {
        let named =
            move |(name, shape): &(&str, Vec<u64>)| (format!("blk.{index}.{name}"), shape.clone());
        block.iter().map(named)
    };
    let ends = ends
        .into_iter()
        .map(|(name, shape)| (name.to_owned(), shape));
    let mut expected: BTreeMap<String, Vec<u64>> =
        (0..blocks).flat_map(of_block).chain(ends).collect();
    for (name, stored) in &keys.file.tensors {
        let found: Vec<u64> = stored.shape.iter().map(|it| *it as u64).collect();
        match expected.remove(name) {
            Some(shape) if shape == found => {}
            Some(shape) => {
                return keys.refuse(format!("`{name}` is {found:?}, and {shape:?} by its keys"));
            }
            None => return keys.refuse(format!("its tensor `{name}` is not known here")),
        }
    }
    match expected.into_keys().next() {
        Some(name) => keys.refuse(format!("the file has no `{name}`")),
        None => Ok(()),
    }
}
