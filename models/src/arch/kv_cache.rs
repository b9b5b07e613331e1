//! Keys and values of the tokens a decoder has already seen, so that each new token costs one pass over itself only.

use candle_core::Tensor;

use crate::Result;

/// How many tokens a layer's buffers grow by at least, so that they are seldom copied.
const GROWTH_TOKENS: usize = 256;

/// The cache of a whole decoder: one entry per layer.
#[derive(Debug, Default)]
pub struct KvCache {
    layers: Vec<LayerCache>,
}

/// Keys and values of one layer, in buffers [b, capacity, k, e].
#[derive(Debug, Default)]
pub struct LayerCache {
    keys: Option<Tensor>,
    values: Option<Tensor>,
    tokens: usize,
}

impl KvCache {
    /// An empty cache for a decoder of this many layers.
    pub fn new(layers: usize) -> Self {
        Self {
            layers: (0..layers).map(|_| LayerCache::default()).collect(),
        }
    }

    /// How many tokens it holds.
    pub fn tokens(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.tokens)
    }

    /// Forgets everything after the first `tokens`.
    pub fn truncate(&mut self, tokens: usize) {
        for layer in &mut self.layers {
            layer.tokens = layer.tokens.min(tokens);
        }
    }

    /// The cache of one layer.
    pub fn layer(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }
}

impl LayerCache {
    /// Adds keys and values [b, t, k, e] and returns all so far, [b, s, k, e] each, as views of the buffers.
    pub fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let all_keys = append(&mut self.keys, self.tokens, keys)?;
        let all_values = append(&mut self.values, self.tokens, values)?;
        self.tokens += keys.dim(1)?;
        Ok((all_keys, all_values))
    }
}

fn append(buffer: &mut Option<Tensor>, held: usize, new: &Tensor) -> Result<Tensor> {
    let (rows, tokens, heads, width) = new.dims4()?;
    let needed = held + tokens;
    let old = match buffer.take() {
        Some(old) if old.dim(1)? >= needed => old,
        outgrown => {
            let capacity = (needed + needed / 2).next_multiple_of(GROWTH_TOKENS);
            let grown = Tensor::zeros((rows, capacity, heads, width), new.dtype(), new.device())?;
            if let Some(outgrown) = outgrown.filter(|_| held > 0) {
                grown.slice_set(&outgrown.narrow(1, 0, held)?.contiguous()?, 1, 0)?;
            }
            grown
        }
    };
    old.slice_set(&new.contiguous()?, 1, held)?;
    Ok(buffer.insert(old).narrow(1, 0, needed)?)
}
