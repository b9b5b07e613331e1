//! Where hidden states can be read: the residual stream before, between and after the blocks of a decoder.
//!
//! | site | is | in transformers, with L blocks |
//! |---|---|---|
//! | `embed` | the input of the first block, scaled where the family scales it | `hidden_states[0]` |
//! | `block.i` | the residual stream after block i, counted from 0 | `hidden_states[i + 1]` for i < L - 1 |
//! | `block.L-1` | the same after the last block, before the final norm | not in `hidden_states` |
//! | `final` | after the final norm | `hidden_states[L]` |
//!
//! Deliberately absent: places inside a block.

use std::{fmt, str::FromStr};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::{
    decoder::{Decoder, Input},
    kv_cache::KvCache,
};
use crate::{Error, Result};

/// A place in a decoder. Places are ordered as a pass reaches them.
///
/// In files and on the command line it has the name of the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Site {
    /// The input of the first block.
    Embed,
    /// After the block of this number, from 0; after the last one, before the final norm.
    Block(usize),
    /// After the final norm: what the head reads.
    Final,
}

impl Decoder {
    /// The hidden states of `sites`, in their order, each [b, t, d]. One pass, which ends at the last of them; nothing is
    /// recorded.
    ///
    /// Errors: [`Error::Data`] when a site is a block that the decoder doesn't have.
    pub fn hidden_at(&self, input: Input, sites: &[Site]) -> Result<Vec<Tensor>> {
        self.map_hidden(input, sites, |x| Ok(x.clone()))
    }

    /// The same, each made smaller as soon as it is reached, so that the whole states of one site are in memory and not of all.
    pub fn map_hidden(
        &self,
        input: Input,
        sites: &[Site],
        smaller: impl FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<Tensor>> {
        self.map_hidden_after(input, None, sites, smaller)
    }

    /// The hidden states of `sites`, each [1, t, d], of tokens that follow what a cache holds. The cache holds the same afterwards.
    /// `None` where there is no room for them in the model’s context, or where all of the text would have to be read again.
    pub fn hidden_after(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        sites: &[Site],
    ) -> Result<Option<Vec<Tensor>>> {
        let held = cache.tokens();
        let all = held + tokens.len();
        if all > self.config().max_position_embeddings || self.becomes_long(held, tokens.len()) {
            return Ok(None);
        }
        let input = Input::new(tokens, 1);
        let states = self.map_hidden_after(input, Some(cache), sites, |x| Ok(x.clone()));
        cache.truncate(held);
        states.map(Some)
    }

    fn map_hidden_after(
        &self,
        input: Input,
        mut cache: Option<&mut KvCache>,
        sites: &[Site],
        mut smaller: impl FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<Tensor>> {
        let blocks = self.config().layers.len();
        if let Some(site) = sites.iter().find(|site| !site.is_of(blocks)) {
            let problem = format!("there is no site `{site}` in a model of {blocks} blocks");
            return Err(Error::Data(problem));
        }
        let Some(last) = sites.iter().max() else {
            return Ok(Vec::new());
        };
        let mut states: Vec<Option<Result<Tensor>>> = sites.iter().map(|_| None).collect();
        let caches = cache.as_mut_slice();
        self.pass(None, input, caches, false, *last, |reached, x| {
            for (state, _) in states.iter_mut().zip(sites).filter(|it| *it.1 == reached) {
                *state = Some(smaller(x.tensor()));
            }
        })?;
        states.into_iter().flatten().collect()
    }

    /// All sites, in the order in which a pass reaches them.
    pub fn sites(&self) -> Vec<Site> {
        Site::all(self.config().layers.len())
    }
}

impl Site {
    /// All sites of a decoder of so many blocks, in the order in which a pass reaches them.
    pub fn all(blocks: usize) -> Vec<Self> {
        let blocks = (0..blocks).map(Self::Block);
        [Self::Embed]
            .into_iter()
            .chain(blocks)
            .chain([Self::Final])
            .collect()
    }

    /// Whether a decoder of so many blocks has it.
    fn is_of(self, blocks: usize) -> bool {
        match self {
            Self::Block(index) => index < blocks,
            Self::Embed | Self::Final => true,
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Embed => formatter.write_str("embed"),
            Self::Block(index) => write!(formatter, "block.{index}"),
            Self::Final => formatter.write_str("final"),
        }
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(words: &str) -> std::result::Result<Self, String> {
        let block = |words: &str| words.strip_prefix("block.")?.parse().ok();
        match (words, block(words)) {
            ("embed", _) => Ok(Self::Embed),
            ("final", _) => Ok(Self::Final),
            (_, Some(index)) => Ok(Self::Block(index)),
            _ => Err(format!(
                "`{words}` is no site: there are `embed`, `block.0`, `block.1` and so on, and `final`"
            )),
        }
    }
}

impl TryFrom<String> for Site {
    type Error = String;

    fn try_from(words: String) -> std::result::Result<Self, String> {
        words.parse()
    }
}

impl From<Site> for String {
    fn from(site: Site) -> Self {
        site.to_string()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use serde_json::json;

    use super::*;
    use crate::arch::{config::DecoderConfig, initial::InitialWeights};

    #[test]
    fn a_pass_for_sites_ends_at_the_last_of_them() {
        let config = json!({
            "model_type": "llama", "vocab_size": 7, "hidden_size": 4, "intermediate_size": 4,
            "num_hidden_layers": 2, "num_attention_heads": 1, "max_position_embeddings": 8,
        });
        let mut weights = InitialWeights::new(1, &Device::Cpu);
        let config = DecoderConfig::from_json(&config).unwrap();
        let decoder = Decoder::new(config, &mut weights, false, DType::F32, &Device::Cpu).unwrap();
        let input = Input::new(&[3, 1], 1);
        let whole = [Site::Embed, Site::Block(0), Site::Block(1), Site::Final];
        for (index, end) in whole.into_iter().enumerate() {
            let mut reached = Vec::new();
            let pass = decoder.pass(None, input, &mut [], false, end, |site, _| {
                reached.push(site)
            });
            assert!(pass.is_ok());
            assert_eq!(reached, whole[..=index]);
        }
        assert!(decoder.hidden_at(input, &[]).unwrap().is_empty());
        assert_eq!(decoder.sites(), whole);
    }

    #[test]
    fn a_site_is_read_by_the_name_that_it_is_written_with() {
        for site in Site::all(12) {
            assert_eq!(site.to_string().parse(), Ok(site));
        }
        for wrong in ["block", "block.-1", "block.x", "Embed", "12"] {
            assert!(wrong.parse::<Site>().is_err(), "{wrong}");
        }
    }
}
