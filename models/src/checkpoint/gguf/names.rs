//! What the weights of a model are called in GGUF, and how they differ there.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Result, embedded::table};

/// A family of models as llama.cpp has it.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Family {
    /// `general.architecture`, and what its keys begin with.
    pub architecture: String,
    /// The `model_type` of `config.json` that it is read as.
    pub model_type: String,
    /// Others that are written as it.
    pub also: Vec<String>,
    /// Whether rows of q and k stand so that the two numbers that are turned together are neighbours, where a checkpoint has them
    /// half a head apart.
    pub swaps_halves: bool,
    /// Whether the output projection of attention may have a bias.
    pub output_bias: bool,
    /// Whether the feed-forward part may have biases.
    pub mlp_bias: bool,
    /// What was added to the weights of norms.
    pub norm_offset: f64,
    /// The number of blocks by which llama.cpp knows the largest model of the family, which scales scores by its width.
    pub largest_blocks: Option<u64>,
}

/// Every family that is read and written.
pub(super) static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| table("families.json", include_str!("families.json")));

impl Family {
    /// The family of a `general.architecture`.
    pub fn of_architecture(architecture: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|it| it.architecture == architecture)
    }

    /// The family that a `model_type` is written as.
    pub fn of_model_type(model_type: &str) -> Option<&'static Self> {
        FAMILIES
            .iter()
            .find(|it| it.model_type == model_type || it.also.iter().any(|it| it == model_type))
    }

    fn is_gemma(&self) -> bool {
        self.norm_offset != 0.0
    }

    /// What the weight of this name of a checkpoint is called. Nothing where llama.cpp has none such.
    pub fn name(&self, name: &str) -> Option<String> {
        if let Some((_, there)) = WHOLE.iter().find(|(here, _)| *here == name) {
            return Some((*there).to_owned());
        }
        let (block, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
        let (part, kind) = rest.rsplit_once('.')?;
        let own = GEMMA.iter().filter(|_| self.is_gemma());
        let there = own.chain(BLOCK).find(|(here, _)| *here == part)?.1;
        Some(format!("blk.{block}.{there}.{kind}"))
    }

    /// How the numbers of the weight of this name differ there.
    pub fn difference(&self, name: &str) -> Difference {
        let is = |part: &str| name.contains(&format!(".self_attn.{part}_proj."));
        match name {
            _ if self.swaps_halves && (is("q") || is("k")) => Difference::HalvesOfHeads,
            _ if self.is_gemma() && name.ends_with("norm.weight") => Difference::Offset,
            _ => Difference::None,
        }
    }
}

/// How the numbers of a weight differ from those of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Not at all.
    None,
    /// Rows of each head stand in another order.
    HalvesOfHeads,
    /// [`Family::norm_offset`] was added.
    Offset,
}

/// Weights outside of blocks.
const WHOLE: [(&str, &str); 3] = [
    ("model.embed_tokens.weight", "token_embd.weight"),
    ("model.norm.weight", "output_norm.weight"),
    ("lm_head.weight", "output.weight"),
];

/// Parts of a block of the Gemma family, which has norms after its parts too.
const GEMMA: [(&str, &str); 3] = [
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];

/// Parts of a block.
const BLOCK: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Rows of heads of `width`, `bytes` each, in the order of a checkpoint from that of GGUF, or the other way: there, the two numbers
/// that are turned together are neighbours.
pub(super) fn swap_halves(
    rows: &[u8],
    bytes: usize,
    width: usize,
    to_gguf: bool,
) -> Result<Vec<u8>> {
    let half = width / 2;
    let count = rows.len() / bytes.max(1);
    let mut swapped = Vec::with_capacity(rows.len());
    for row in 0..count {
        let (head, at) = (row / width, row % width);
        let from = match to_gguf {
            true => (at % 2) * half + at / 2,
            false => 2 * (at % half) + at / half,
        };
        let start = (head * width + from) * bytes;
        let row = rows.get(start..start + bytes).ok_or_else(|| {
            crate::Error::Data(format!("{count} rows are not whole heads of {width}"))
        })?;
        swapped.extend_from_slice(row);
    }
    Ok(swapped)
}

/// The rows of a weight of this name, `bytes` each, in the order of GGUF from that of a checkpoint, or the other way.
pub fn order_heads(
    family: &Family,
    name: &str,
    rows: Vec<u8>,
    bytes: usize,
    head_dim: usize,
    to_gguf: bool,
) -> Result<Vec<u8>> {
    match family.difference(name) {
        Difference::HalvesOfHeads => swap_halves(&rows, bytes, head_dim, to_gguf),
        _ => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_to_where_they_were() {
        let rows: Vec<u8> = (0..48).collect();
        let there = swap_halves(&rows, 2, 8, true).unwrap();
        assert_eq!(there[..8], [0, 1, 8, 9, 2, 3, 10, 11]);
        assert_eq!(swap_halves(&there, 2, 8, false).unwrap(), rows);
    }

    #[test]
    fn one_name_means_what_its_family_means() {
        let name = |family: &str, name| Family::of_model_type(family).unwrap().name(name);
        let norm = "model.layers.3.post_attention_layernorm.weight";
        assert_eq!(name("mistral", norm).unwrap(), "blk.3.ffn_norm.weight");
        let after = name("gemma2", norm).unwrap();
        assert_eq!(after, "blk.3.post_attention_norm.weight");
        assert_eq!(name("llama", "model.layers.0.extra.weight"), None);
    }
}
