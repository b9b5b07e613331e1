//! One decoder-only transformer, driven by a checkpoint's `config.json`.
//!
//! - norm before each part, in some families after it too, and once at the end
//! - rotary positions, in some layers none
//! - grouped-query attention, in some layers over a sliding window
//! - a gated feed-forward part
//! - the head is the embedding table, or a matrix of its own
//!
//! Families: Llama, Mistral, Qwen 2 and 3, Gemma 2 and 3, Phi 3, SmolLM 3. Parameter names are the checkpoint's.
//!
//! Shapes: b rows, t tokens, s keys, d width, h query heads, k key heads, e head width, f feed-forward width,
//! v vocabulary.

mod block;
mod fixed_pass;
#[cfg(feature = "cuda")]
pub(super) mod next_token;
#[cfg(feature = "cuda")]
pub(super) mod part;

#[cfg(feature = "cuda")]
use std::cell::RefCell;
use std::{iter::repeat_n, rc::Rc};

use candle_core::{DType, Device, Tensor};

use self::block::{Block, Shared};
use super::{
    Weights,
    config::{DecoderConfig, LayerKind},
    kv_cache::{KvCache, KvCaches, LayerCache},
    layers::{Builder, Linear, Projections, RmsNorm},
    sites::Site,
};
use crate::{
    Error, Result,
    ops::{
        attention::Spans,
        cross_entropy::head_cross_entropy,
        elementwise::{convert, scale},
        embedding::embedding,
        kept::CacheType,
        kernels::{self, Kernel, cpu::linear::FEW_ROWS},
        rope::Rope,
        weight::{Matrix, Numbers, Quantized},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

/// A decoder: weights and switches. Cheap to clone, since clones share the weights.
#[derive(Debug, Clone)]
pub struct Decoder {
    config: DecoderConfig,
    parameters: Parameters,
    embedding: Parameter,
    blocks: Vec<Rc<Block>>,
    norm: RmsNorm,
    /// The head [v, d], where it is not the embedding table.
    head: Option<Parameter>,
    /// What gives the scores, in blocks, where the model came so.
    head_blocks: Option<Quantized>,
    compute_dtype: DType,
    device: Device,
    #[cfg(feature = "cuda")]
    angles: Angles,
}

/// Cosines and sines of the positions so far asked for, [at least as many, r/2] for each of the ropes.
#[cfg(feature = "cuda")]
type Angles = Rc<RefCell<Rc<[(Tensor, Tensor)]>>>;

/// What a decoder reads in one pass.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The tokens [b · t], row after row.
    pub tokens: &'a [u32],
    /// b.
    pub rows: usize,
    /// The position of each token [b · t]; from 0 (or from where the cache ends) when absent.
    pub positions: Option<&'a [u32]>,
    /// The document of each token [b · t], rising along a row; one per row when absent.
    pub documents: Option<&'a [u32]>,
}

impl<'a> Input<'a> {
    /// Rows that are one document each, and follow what a cache holds.
    pub fn new(tokens: &'a [u32], rows: usize) -> Self {
        Self {
            tokens,
            rows,
            positions: None,
            documents: None,
        }
    }

    /// t: the tokens of a row, all of which are among so many that the model knows.
    pub(super) fn row_length(&self, known: usize) -> Result<usize> {
        let Self { tokens, rows, .. } = self;
        if *rows == 0 || tokens.is_empty() || !tokens.len().is_multiple_of(*rows) {
            return Err(Error::Data(format!(
                "{} tokens don’t divide into {rows} rows",
                tokens.len()
            )));
        }
        if let Some(token) = tokens.iter().find(|token| **token as usize >= known) {
            return Err(Error::Data(format!(
                "token {token} is not one of the model’s {known}"
            )));
        }
        Ok(tokens.len() / rows)
    }
}

impl Decoder {
    /// Builds the decoder that `config` describes from `weights`; `trainable` says whether training may change them.
    pub fn new(
        config: DecoderConfig,
        weights: &mut dyn Weights,
        trainable: bool,
        compute_dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut parameters = Parameters::default();
        let mut builder = Builder {
            weights,
            parameters: &mut parameters,
            config: &config,
            trainable,
            prefix: String::new(),
        };
        let head = (!config.tie_word_embeddings).then(|| builder.at("lm_head").head());
        let head = head.transpose()?;
        let head_blocks = match head {
            Some(_) => builder.at("lm_head").table_in_blocks()?,
            None => builder.at("model").at("embed_tokens").table_in_blocks()?,
        };
        let mut model = builder.at("model");
        let embedding = model.at("embed_tokens").embedding()?;
        let mut blocks = Vec::new();
        for (index, kind) in config.layers.iter().enumerate() {
            let block = Block::new(*kind, model.at("layers").at(index))?;
            blocks.push(Rc::new(block));
        }
        let norm = model.norm("norm")?;
        Ok(Self {
            config,
            parameters,
            embedding,
            blocks,
            norm,
            head,
            head_blocks,
            compute_dtype,
            device: device.clone(),
            #[cfg(feature = "cuda")]
            angles: Angles::default(),
        })
    }

    /// The size and switches.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// All weights by name, those of adapters included.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An empty cache for this decoder.
    pub fn new_cache(&self) -> KvCache {
        let mut cache = KvCache::new(self.blocks.len(), self.config.max_position_embeddings);
        cache.keep(self.cache_type(CacheType::Auto));
        cache
    }

    /// How a cache for this decoder keeps keys and values, where this was chosen.
    pub fn cache_type(&self, chosen: CacheType) -> CacheType {
        let Some(block) = self.blocks.first() else {
            return CacheType::Full;
        };
        let has_blocks = block.attention.output.is_in_blocks();
        chosen.resolved(block.attention.head_dim, has_blocks, &self.device)
    }

    /// The hidden states after the last norm, [b, t, d].
    ///
    /// With a cache, the tokens continue what it has seen, and it sees them too. With `gradient_checkpointing`, a recorded pass
    /// keeps one activation per layer and computes the rest again in backward.
    pub fn hidden(
        &self,
        tape: Option<&Tape>,
        input: Input,
        mut cache: Option<&mut KvCache>,
        gradient_checkpointing: bool,
    ) -> Result<Value> {
        let nobody = |_, _: &Value| ();
        self.pass(
            tape,
            input,
            cache.as_mut_slice(),
            gradient_checkpointing,
            Site::Final,
            nobody,
        )
    }

    /// Runs the decoder up to the site `end`, and shows the hidden states of each site on the way, changed as the cache says. There may
    /// be no cache, one of all rows, or one of each.
    pub(super) fn pass(
        &self,
        tape: Option<&Tape>,
        input: Input,
        caches: &mut [&mut KvCache],
        gradient_checkpointing: bool,
        end: Site,
        mut reached: impl FnMut(Site, &Value),
    ) -> Result<Value> {
        let pasts: Vec<usize> = caches.iter().map(|cache| cache.tokens()).collect();
        let pasts = if pasts.is_empty() { &[0][..] } else { &pasts };
        let (tokens, shared) = self.prepare(input, pasts)?;
        let x = self.through(
            tape,
            (&tokens, &shared),
            caches,
            gradient_checkpointing,
            end,
            &mut reached,
        )?;
        if end == Site::Final && caches.len() == input.rows {
            let rows = input.tokens.chunks(input.tokens.len() / input.rows);
            for (cache, row) in caches.iter_mut().zip(rows) {
                cache.remember(row);
            }
        }
        Ok(x)
    }

    /// The same over tokens [b, t] that were prepared.
    fn through(
        &self,
        tape: Option<&Tape>,
        (tokens, shared): (&Tensor, &Shared),
        caches: &mut [&mut KvCache],
        gradient_checkpointing: bool,
        end: Site,
        reached: &mut dyn FnMut(Site, &Value),
    ) -> Result<Value> {
        // Rows with a cache each are not steered: see `next_logits_each`.
        let past = caches.first().map_or(0, |cache| cache.tokens());
        let steering = caches.first().map_or_else(Rc::default, |it| it.steering());
        let steered = |site: Site, x: Value| -> Result<Value> {
            let mut changes = steering.iter().filter(|it| it.site() == site);
            changes.try_fold(x, |x, it| Ok(Value::constant(it.change(x.tensor(), past)?)))
        };
        let mut x = embedding(&self.embedding.on(tape), tokens)?;
        if x.tensor().dtype() != self.compute_dtype {
            x = convert(&x, self.compute_dtype)?;
        }
        if let Some(factor) = self.config.embedding_scale {
            x = scale(&x, factor)?;
        }
        x = steered(Site::Embed, x)?;
        reached(Site::Embed, &x);
        for (index, block) in self.blocks.iter().enumerate() {
            if end < Site::Block(index) {
                return Ok(x);
            }
            let layers = caches.iter_mut().map(|cache| cache.layer(index));
            let mut layers: Vec<&mut LayerCache> = layers.collect();
            x = match tape {
                Some(tape) if gradient_checkpointing => {
                    let (block, shared) = (block.clone(), shared.clone());
                    // On the way back the layer is computed again first, and its weights are used on.
                    tape.checkpoint(&x, move |tape, x| {
                        let stacked = block.stacked(x);
                        block.forward(Some(tape), x, &shared, &mut [], stacked.as_ref())
                    })?
                }
                _ => {
                    let stacked = block.stacked(&x);
                    let y = block.forward(tape, &x, shared, &mut layers, stacked.as_ref())?;
                    if let Some(stacked) = stacked {
                        stacked.forget();
                    }
                    y
                }
            };
            x = steered(Site::Block(index), x)?;
            reached(Site::Block(index), &x);
        }
        if end < Site::Final {
            return Ok(x);
        }
        x = steered(Site::Final, self.norm.forward(tape, &x)?)?;
        reached(Site::Final, &x);
        Ok(x)
    }

    /// The loss of predicting `targets` [b · t] from hidden states. See [`head_cross_entropy`].
    pub fn loss(
        &self,
        tape: Option<&Tape>,
        hidden: &Value,
        targets: &[u32],
        tokens: f64,
    ) -> Result<Value> {
        let head = self.head_on(tape);
        head_cross_entropy(hidden, &head, targets, self.config.final_soft_cap, tokens)
    }

    fn head_on(&self, tape: Option<&Tape>) -> Value {
        self.head.as_ref().unwrap_or(&self.embedding).on(tape)
    }

    /// Scores for the next token, in f32: hidden states [n, d] -> [n, v].
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        let head = match &self.head_blocks {
            Some(blocks) if hidden.dim(0)? <= FEW_ROWS => Matrix::Quantized(blocks.clone()),
            _ => {
                let head = self.head.as_ref().unwrap_or(&self.embedding);
                Matrix::Dense(Numbers::Kept(head.tensor()))
            }
        };
        let logits = head.project(Kernel::Linear, hidden, &[], None)?;
        let logits = logits.to_dtype(DType::F32)?;
        Ok(match self.config.final_soft_cap {
            Some(cap) => ((logits / cap)?.tanh()? * cap)?,
            None => logits,
        })
    }

    /// Whether a text of so many tokens turns by other angles than a shorter one, from its first token on.
    pub fn is_long(&self, tokens: usize) -> bool {
        let mut changes = self.config.ropes.iter().filter_map(Rope::changes_beyond);
        changes.any(|length| tokens > length)
    }

    /// Scores [v] for the token after these, which continue what the cache has seen.
    ///
    /// Where the text becomes a long one with them ([`Self::is_long`]), all of it is read again: what the cache holds was
    /// turned by the angles of a shorter one. The scores are those of a text that was read at once.
    pub fn next_logits(&self, tokens: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if let Some(scores) = match tokens {
            [token] => self.next_token(*token, cache)?,
            tokens => self.read_part(tokens, cache)?,
        } {
            return Ok(scores);
        }
        self.next_logits_seen(tokens, cache, &mut |_, _| ())
    }

    /// The same, showing the hidden states [1, t, d] of each site on the way. Those of the tokens are the last of them: what is read
    /// again stands before.
    pub fn next_logits_seen(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        seen: &mut dyn FnMut(Site, &Tensor),
    ) -> Result<Tensor> {
        let past = cache.tokens();
        let again = match self.becomes_long(past, tokens.len()) {
            true => [cache.read(), tokens].concat(),
            false => Vec::new(),
        };
        let tokens = match again.as_slice() {
            [] => tokens,
            again => {
                cache.truncate(0);
                again
            }
        };
        let _rounded = kernels::round(1);
        let input = Input::new(tokens, 1);
        let reached = |site, x: &Value| seen(site, x.tensor());
        let hidden = self.pass(None, input, &mut [cache], false, Site::Final, reached)?;
        let last = hidden.tensor().narrow(1, tokens.len() - 1, 1)?.squeeze(0)?;
        Ok(self.logits(&last.contiguous()?)?.squeeze(0)?)
    }

    /// Scores [v] for the token after each of these, every one of which continues what a cache of its own has seen; some may have none.
    /// They are read in one pass where that is possible, which reads the weights once. On a processor, and by kernels for one token,
    /// the scores are those of [`Self::next_logits`], to the bit.
    pub fn next_logits_each(
        &self,
        tokens: &[Option<u32>],
        caches: &mut KvCaches,
    ) -> Result<Vec<Option<Tensor>>> {
        #[cfg(feature = "cuda")]
        if let Some(scores) = self.next_tokens(tokens, caches)? {
            return Ok(scores);
        }
        let each = tokens.iter().zip(caches.iter_mut());
        let read: Vec<(u32, &mut KvCache)> = each
            .filter_map(|(token, cache)| Some(((*token)?, cache)))
            .collect();
        let (read, mut caches): (Vec<u32>, Vec<&mut KvCache>) = read.into_iter().unzip();
        let logits = if self.reads_together(&caches) {
            let _rounded = kernels::round(read.len());
            let input = Input::new(&read, read.len());
            let nobody = |_, _: &Value| ();
            let hidden = self.pass(None, input, &mut caches, false, Site::Final, nobody)?;
            let logits = self.logits(&hidden.tensor().squeeze(1)?)?;
            let rows = (0..read.len()).map(|row| Ok(logits.get(row)?));
            rows.collect::<Result<Vec<_>>>()?
        } else {
            let alone = read.iter().zip(caches);
            let alone = alone.map(|(token, cache)| self.next_logits(&[*token], cache));
            alone.collect::<Result<Vec<_>>>()?
        };
        let mut logits = logits.into_iter();
        let of_text = |token: &Option<u32>| token.and_then(|_| logits.next());
        Ok(tokens.iter().map(of_text).collect())
    }

    /// Whether one more token of each of these texts can be read in one pass.
    fn reads_together(&self, caches: &[&mut KvCache]) -> bool {
        let is_alike = |cache: &KvCache| {
            let past = cache.tokens();
            let is_long = caches.first().is_some_and(|it| self.is_long(it.tokens()));
            !self.becomes_long(past, 1)
                && self.is_long(past) == is_long
                && cache.steering().is_empty()
        };
        caches.len() > 1 && caches.iter().all(|cache| is_alike(cache))
    }

    /// Every linear layer that can carry an adapter: its layer number, its name in the layer, and itself.
    pub(super) fn for_each_linear(
        &mut self,
        mut visit: impl FnMut(usize, &str, &mut Linear, &mut Parameters) -> Result<()>,
    ) -> Result<()> {
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let block = Rc::make_mut(block);
            let projections = [&mut block.attention.input, &mut block.feed_forward.input];
            let inputs = projections.into_iter().flat_map(Projections::iter_mut);
            for linear in inputs.chain([&mut block.attention.output, &mut block.feed_forward.down])
            {
                let path = linear.name().to_owned();
                let name = path.rsplit('.').next().unwrap_or_default();
                visit(index, name, linear, &mut self.parameters)?;
            }
        }
        Ok(())
    }

    /// Has layers of one input be computed by one product with their adapters, where a device does that.
    pub(super) fn join_adapted(&mut self) -> Result<()> {
        let mut blocks = self.blocks.iter_mut().map(Rc::make_mut);
        blocks.try_for_each(|block| block.join(&mut self.parameters))
    }

    /// Whether these tokens make a long text of one that was none.
    pub(super) fn becomes_long(&self, past: usize, tokens: usize) -> bool {
        past > 0 && !self.is_long(past) && self.is_long(past + tokens)
    }

    /// Cosines and sines of at least so many positions, [.., r/2] for each of the ropes. Nothing where angles depend on the length of the
    /// text, so that a table of them would be wrong for some.
    #[cfg(feature = "cuda")]
    fn angles(&self, capacity: usize) -> Result<Option<Rc<[(Tensor, Tensor)]>>> {
        if self.is_long(capacity) {
            return Ok(None);
        }
        let mut known = self.angles.borrow_mut();
        let positions = known.first().map_or(Ok(0), |(cosines, _)| cosines.dim(0))?;
        if positions < capacity {
            let positions: Vec<u32> = (0..capacity as u32).collect();
            let table = |it: &Tensor| it.reshape((capacity, ()))?.contiguous();
            let of_rope = |rope: &Rope| {
                let rotation = rope.rotation(&positions, 1, &self.device)?;
                Ok((table(&rotation.cos)?, table(&rotation.sin)?))
            };
            let tables = self.config.ropes.iter().map(of_rope);
            *known = tables.collect::<Result<_>>()?;
        }
        Ok(Some(known.clone()))
    }

    /// Whether no weight is in blocks, and all are kept as they are computed, as far as that is quickly said.
    #[cfg(feature = "cuda")]
    fn has_dense_weights(&self) -> bool {
        let first = self.blocks.first();
        let first = first.and_then(|block| block.attention.output.parts());
        let mut each = self.blocks.iter().flat_map(|block| {
            let (attention, fed) = (&block.attention, &block.feed_forward);
            let inputs = attention.input.iter().chain(fed.input.iter());
            inputs.chain([&attention.output, &fed.down])
        });
        first.is_some_and(|it| it.weight.dtype() == self.compute_dtype)
            && !each.any(|linear| linear.is_in_blocks())
    }

    /// The windows of the layers, each once.
    fn windows(&self) -> Vec<Option<usize>> {
        let mut windows = Vec::new();
        for kind in &self.config.layers {
            if !windows.contains(&kind.window) {
                windows.push(kind.window);
            }
        }
        windows
    }

    /// The tokens [b, t], and what all layers share. All rows follow one text that has so many tokens, or each its own.
    fn prepare(&self, input: Input, pasts: &[usize]) -> Result<(Tensor, Shared)> {
        let Input {
            tokens,
            rows,
            positions,
            documents,
        } = input;
        let length = input.row_length(self.config.vocab_size)?;
        if !(pasts.len() == 1 || pasts.len() == rows && documents.is_none()) {
            let problem = format!("{rows} rows can’t follow {} texts", pasts.len());
            return Err(Error::Data(problem));
        }
        if let Some(past) = pasts.iter().find(|past| self.becomes_long(**past, length)) {
            let problem = format!(
                "{length} tokens after {past} make the text so long that all of it turns by other angles; read it from its start"
            );
            return Err(Error::Data(problem));
        }
        let rows_each = rows / pasts.len();
        let of_rows = pasts
            .iter()
            .flat_map(|past| repeat_n(*past as u32, rows_each));
        let counted: Vec<u32> = of_rows
            .flat_map(|past| past..past + length as u32)
            .collect();
        let positions = positions.unwrap_or(&counted);
        let rotations = self
            .config
            .ropes
            .iter()
            .map(|rope| rope.rotation(positions, rows, &self.device));
        let of_window = |window: Option<usize>| {
            let causal = |past: &usize| Spans::causal(rows_each, length, *past, window);
            let spans = match documents {
                Some(documents) => vec![Spans::documents(rows, documents, window)],
                None => pasts.iter().map(causal).collect(),
            };
            (window, spans)
        };
        let spans = self.windows().into_iter().map(of_window).collect();
        let tokens = Tensor::from_slice(tokens, (rows, length), &self.device)?;
        Ok((
            tokens,
            Shared {
                rotations: rotations.collect::<Result<_>>()?,
                spans,
                #[cfg(feature = "cuda")]
                places: None,
            },
        ))
    }
}
