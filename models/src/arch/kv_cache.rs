//! Keys and values of the tokens a decoder has already seen, so that each new token costs one pass over itself only.
//!
//! Room for the expected number of tokens is allocated once, and after that in steps that double, up to the model's
//! context. So an answer of known length is never copied, and a long context costs nothing until it is used.

use std::rc::Rc;

use candle_core::Tensor;
#[cfg(feature = "cuda")]
use candle_core::{DType, Device, TensorId};

use super::{chat_only::Reading, steering::Steering};
#[cfg(feature = "cuda")]
use crate::ops::kernels::cuda::elementwise::put_rows_into;
use crate::{
    Result,
    ops::{kept::CacheType, kernels::metal::note},
};

/// The room of a cache of which nothing was expected, in tokens.
const MIN_TOKENS: usize = 256;

/// The cache of a whole decoder: one entry per layer.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<LayerCache>,
    /// The tokens it holds, where they are of one row.
    read: Vec<u32>,
    /// How hidden states are changed on the way.
    steering: Rc<[Steering]>,
    /// What has read these tokens itself, in place of layers.
    pub(super) reading: Option<Reading>,
    /// What reads single tokens into these buffers.
    #[cfg(feature = "cuda")]
    pub(super) next_token: Option<Box<super::decoder::next_token::NextToken>>,
    /// What reads several of them into these buffers.
    #[cfg(feature = "cuda")]
    pub(super) parts: super::decoder::part::Parts,
}

/// Keys and values of one layer, in buffers [b, capacity, k, e], or of bytes where they are kept so.
#[derive(Debug)]
pub struct LayerCache {
    kept: CacheType,
    keys: Option<Tensor>,
    values: Option<Tensor>,
    tokens: usize,
    /// How many tokens it will come to hold, as far as is known.
    expected: usize,
    /// The most tokens the model can read.
    context: usize,
}

/// The caches of several texts of which tokens are read together.
#[derive(Debug)]
pub struct KvCaches {
    each: Vec<KvCache>,
    /// What reads a token of each into these buffers.
    #[cfg(feature = "cuda")]
    pub(super) shared_pass: Option<Box<super::decoder::next_token::NextToken>>,
}

impl KvCaches {
    /// Those of texts that were read so far, or not at all.
    pub fn new(each: Vec<KvCache>) -> Self {
        Self {
            each,
            #[cfg(feature = "cuda")]
            shared_pass: None,
        }
    }

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, KvCache> {
        self.each.iter()
    }

    /// Each of them, to read into it.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, KvCache> {
        self.each.iter_mut()
    }
}

impl KvCache {
    /// An empty cache for a decoder of this many layers that can read so many tokens.
    pub fn new(layers: usize, context: usize) -> Self {
        let layer = |_| LayerCache {
            kept: CacheType::Full,
            keys: None,
            values: None,
            tokens: 0,
            expected: MIN_TOKENS.min(context),
            context,
        };
        Self {
            layers: (0..layers).map(layer).collect(),
            read: Vec::new(),
            steering: Rc::default(),
            reading: None,
            #[cfg(feature = "cuda")]
            next_token: None,
            #[cfg(feature = "cuda")]
            parts: Default::default(),
        }
    }

    /// Has hidden states changed from now on, or without changes nothing. What it held is forgotten: it was read otherwise.
    pub fn steer(&mut self, steering: Rc<[Steering]>) {
        self.truncate(0);
        self.steering = steering;
    }

    /// Has keys and values kept so from now on. What it held otherwise is forgotten.
    pub fn keep(&mut self, kept: CacheType) {
        if self.layers.iter().all(|layer| layer.kept == kept) {
            return;
        }
        self.truncate(0);
        for layer in &mut self.layers {
            (layer.keys, layer.values) = (None, None);
            layer.kept = kept;
        }
    }

    /// How hidden states are changed on the way.
    pub(super) fn steering(&self) -> Rc<[Steering]> {
        self.steering.clone()
    }

    /// The tokens that were read, where they are of one row.
    pub fn read(&self) -> &[u32] {
        &self.read
    }

    /// Remembers tokens whose keys and values are in every layer now.
    pub(super) fn remember(&mut self, tokens: &[u32]) {
        self.read.extend_from_slice(tokens);
    }

    /// How many tokens it holds.
    pub fn tokens(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.tokens)
    }

    /// Says how many tokens it will come to hold. Room for them is made when the next are added, where there is less.
    pub fn expect(&mut self, tokens: usize) {
        for layer in &mut self.layers {
            layer.expected = tokens;
        }
    }

    /// Forgets everything after the first `tokens`.
    pub fn truncate(&mut self, tokens: usize) {
        self.read.truncate(tokens);
        for layer in &mut self.layers {
            layer.tokens = layer.tokens.min(tokens);
        }
    }

    /// Makes room for so many tokens more in every layer, where there were some before.
    #[cfg(feature = "cuda")]
    pub(super) fn make_room(&mut self, tokens: usize) -> Result<()> {
        let mut layers = self.layers.iter_mut();
        layers.try_for_each(|layer| layer.make_room(tokens))
    }

    /// Makes room for so many tokens more of one row, with keys and values [k, e] as they are computed, also where there were none.
    #[cfg(feature = "cuda")]
    pub(super) fn make_room_for(
        &mut self,
        tokens: usize,
        (heads, width): (usize, usize),
        dtype: DType,
        device: &Device,
    ) -> Result<()> {
        for layer in &mut self.layers {
            let capacity = layer.capacity(tokens, 0);
            for buffer in [&mut layer.keys, &mut layer.values] {
                if buffer.is_none() {
                    *buffer = Some(Tensor::zeros((1, capacity, heads, width), dtype, device)?);
                }
            }
        }
        self.make_room(tokens)
    }

    /// Whether keys and values are kept as they are computed, of one row or none yet.
    #[cfg(feature = "cuda")]
    pub(super) fn keeps_one_row(&self) -> bool {
        let is_full = |layer: &LayerCache| layer.kept == CacheType::Full;
        self.layers.iter().all(is_full) && self.room().0 <= 1
    }

    /// What all buffers are known by: others that take their place are known otherwise.
    #[cfg(feature = "cuda")]
    pub(super) fn buffer_ids(&self) -> Vec<Option<TensorId>> {
        let each = self.layers.iter().flat_map(|it| [&it.keys, &it.values]);
        each.map(|it| it.as_ref().map(Tensor::id)).collect()
    }

    /// Keys and values of a layer, in buffers [b, capacity, k, e], once it has some.
    #[cfg(feature = "cuda")]
    pub(super) fn buffers(&self, index: usize) -> Option<(&Tensor, &Tensor)> {
        let layer = &self.layers[index];
        layer.keys.as_ref().zip(layer.values.as_ref())
    }

    /// Rows, and the tokens there is room for. Both are 0 as long as nothing was read.
    #[cfg(feature = "cuda")]
    pub(super) fn room(&self) -> (usize, usize) {
        let keys = self.buffers(0).map(|(keys, _)| keys.dims());
        match keys {
            Some([rows, capacity, ..]) => (*rows, *capacity),
            _ => (0, 0),
        }
    }

    /// Counts tokens whose keys and values were put into the buffers of every layer.
    #[cfg(feature = "cuda")]
    pub(super) fn count(&mut self, tokens: &[u32]) {
        for layer in &mut self.layers {
            layer.tokens += tokens.len();
        }
        self.remember(tokens);
    }

    /// The cache of one layer.
    pub fn layer(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }
}

impl LayerCache {
    /// Adds keys and values [b, t, k, e] and returns all so far as they are kept, [b, s, k, e] each or of bytes, as views of the buffers.
    pub fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let (keys, values) = (&self.kept.keep(keys)?, &self.kept.keep(values)?);
        let held = self.tokens;
        let needed = held + keys.dim(1)?;
        let capacity = match &self.keys {
            Some(keys) => keys.dim(1)?,
            None => 0,
        };
        let capacity = self.capacity(needed, capacity);
        let all_keys = append(&mut self.keys, held, keys, capacity)?;
        let all_values = append(&mut self.values, held, values, capacity)?;
        self.tokens = needed;
        Ok((all_keys, all_values))
    }

    /// Makes every number of the buffers one that is none.
    #[cfg(all(test, feature = "cuda"))]
    pub(crate) fn spoil(&mut self) {
        for buffer in [&self.keys, &self.values].into_iter().flatten() {
            let none = (buffer.zeros_like().unwrap() + f64::NAN).unwrap();
            buffer.slice_set(&none, 0, 0).unwrap();
        }
    }

    /// Writes keys and values [1, t, k, e] at their `places` [t] into buffers [1, capacity, k, e], which are there and have them. Returns
    /// the buffers. Nothing is counted.
    #[cfg(feature = "cuda")]
    pub(super) fn put(
        &self,
        keys: &Tensor,
        values: &Tensor,
        places: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let put = |buffer: &Option<Tensor>, new: &Tensor| {
            let missing = || crate::Error::Data("a cache has no buffers to write to".to_owned());
            let buffer = buffer.clone().ok_or_else(missing)?;
            let rows = |it: &Tensor| it.squeeze(0)?.flatten_from(1);
            put_rows_into(&rows(&buffer)?, &rows(new)?, places)?;
            Ok::<_, crate::Error>(buffer)
        };
        Ok((put(&self.keys, keys)?, put(&self.values, values)?))
    }

    /// Makes room for so many tokens more, if it holds some.
    #[cfg(feature = "cuda")]
    fn make_room(&mut self, tokens: usize) -> Result<()> {
        let held = self.tokens;
        let capacity = self.keys.as_ref().map_or(Ok(0), |keys| keys.dim(1))?;
        let capacity = self.capacity(held + tokens, capacity);
        for buffer in [&mut self.keys, &mut self.values] {
            if let Some(old) = buffer.take() {
                *buffer = Some(with_room(old, held, capacity)?);
            }
        }
        Ok(())
    }

    /// How many tokens there should be room for when `needed` are held, and there is room for `capacity`.
    fn capacity(&self, needed: usize, capacity: usize) -> usize {
        if needed <= capacity {
            capacity
        } else if needed <= self.expected {
            self.expected
        } else {
            needed.max((2 * capacity).min(self.context))
        }
    }
}

/// Writes the new tokens after those that are held, in a larger buffer if `capacity` is more than there is room for.
fn append(
    buffer: &mut Option<Tensor>,
    held: usize,
    new: &Tensor,
    capacity: usize,
) -> Result<Tensor> {
    let (rows, tokens, heads, width) = new.dims4()?;
    let buffer = match buffer.take() {
        Some(old) => buffer.insert(with_room(old, held, capacity)?),
        None => {
            let empty = Tensor::zeros((rows, capacity, heads, width), new.dtype(), new.device())?;
            buffer.insert(empty)
        }
    };
    note("copy");
    buffer.slice_set(new, 1, held)?;
    Ok(buffer.narrow(1, 0, held + tokens)?)
}

/// A buffer with room for `capacity` tokens, in which stands what was held.
fn with_room(buffer: Tensor, held: usize, capacity: usize) -> Result<Tensor> {
    let (rows, room, heads, width) = buffer.dims4()?;
    if room == capacity {
        return Ok(buffer);
    }
    let shape = (rows, capacity, heads, width);
    let grown = Tensor::zeros(shape, buffer.dtype(), buffer.device())?;
    if held > 0 {
        grown.slice_set(&buffer.narrow(1, 0, held)?.contiguous()?, 1, 0)?;
    }
    Ok(grown)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Adds tokens that count up, and returns the room there is after each, where it has changed.
    fn rooms(cache: &mut KvCache, parts: &[usize]) -> Vec<usize> {
        let mut rooms = Vec::new();
        for part in parts {
            let from = cache.tokens() as f32;
            let numbers: Vec<f32> = (0..*part).map(|at| from + at as f32).collect();
            let keys = Tensor::from_vec(numbers, (1, *part, 1, 1), &Device::Cpu).unwrap();
            let values = keys.neg().unwrap();
            let layer = cache.layer(0);
            let (keys, values) = layer.append(&keys, &values).unwrap();
            // What was there before is there still, wherever it lies.
            let counted: Vec<f32> = (0..layer.tokens).map(|at| at as f32).collect();
            let numbers = |it: &Tensor| it.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(numbers(&keys), counted);
            assert_eq!(numbers(&values.neg().unwrap()), counted);
            rooms.push(layer.keys.as_ref().unwrap().dim(1).unwrap());
        }
        rooms.dedup();
        rooms
    }

    #[test]
    fn room_is_made_once_for_what_is_expected() {
        let mut cache = KvCache::new(1, 32_768);
        cache.expect(700);
        assert_eq!(rooms(&mut cache, &[500, 1, 1, 198]), [700]);
        // The next answer, which begins earlier and may become longer.
        cache.truncate(400);
        cache.expect(1_300);
        assert_eq!(rooms(&mut cache, &[100, 200]), [700]);
        assert_eq!(rooms(&mut cache, &[1, 599]), [1_300]);
    }

    #[test]
    fn what_was_not_expected_gets_room_in_steps_that_double_up_to_the_context() {
        let mut cache = KvCache::new(1, 1_500);
        let singles = [1; 1_400];
        assert_eq!(rooms(&mut cache, &singles), [256, 512, 1_024, 1_500]);
        assert_eq!(rooms(&mut KvCache::new(1, 100), &[1; 100]), [100]);
        assert_eq!(rooms(&mut KvCache::new(1, 4_096), &[900, 1]), [900, 1_800]);
    }
}
