//! The shape of a Tiny Recursive Model, and the weights that follow from it.

use serde::{Deserialize, Serialize};

use super::{ANSWER, HALT, HALT_BIAS, HEAD, PLACES, PUZZLES, SYMBOLS, Squash, THOUGHTS};
use crate::{Error, Result, arch::Initial};

/// What the widths of the feed-forward parts are multiples of.
const MULTIPLE: usize = 256;
/// The most places before the cells.
const MAX_PLACES: usize = 1 << 12;
/// The most layers that are computed one after another in a step of thinking: six times those of the largest published model.
const MAX_DEPTH: usize = 1 << 8;
/// The head starts by never wanting to halt.
const HALT_AT_FIRST: f64 = -5.0;

/// The shape of a model. The names are those of the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrmConfig {
    /// v: symbols, the empty one too.
    pub vocab_size: usize,
    /// s: cells of a puzzle.
    pub seq_len: usize,
    /// Puzzles that have a vector of their own, the blank one too.
    pub num_puzzle_identifiers: usize,
    /// d.
    pub hidden_size: usize,
    /// h.
    pub num_heads: usize,
    /// How much wider the feed-forward parts are.
    pub expansion: f64,
    /// Blocks of the stack.
    #[serde(rename = "L_layers")]
    pub l_layers: usize,
    /// H: cycles of a step.
    #[serde(rename = "H_cycles")]
    pub h_cycles: usize,
    /// n: how often the thoughts are improved in a cycle.
    #[serde(rename = "L_cycles")]
    pub l_cycles: usize,
    /// Whether blocks multiply along the sequence instead of attending.
    pub mlp_t: bool,
    /// How blocks know where a cell is.
    pub pos_encodings: Positions,
    /// Numbers of a puzzle's vector. 0 is none.
    pub puzzle_emb_ndim: usize,
    /// p: places before the cells, of which the puzzle's vector takes the first. 0 is as many as it takes.
    pub puzzle_emb_len: usize,
    /// The most steps of thinking.
    pub halt_max_steps: usize,
    /// How often a puzzle has to be thought about longer than wanted.
    pub halt_exploration_prob: f64,
    /// ε of the norm.
    pub rms_norm_eps: f64,
    /// The base of rotary positions.
    pub rope_theta: f64,
    /// How scores become probabilities.
    pub loss: Squash,
}

/// How blocks know where a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// By turning queries and keys.
    Rope,
    /// By a vector that is learned for each place.
    Learned,
    /// Not at all, beside what a product along the sequence knows.
    None,
}

impl TrmConfig {
    /// l: places in all.
    pub fn places(&self) -> usize {
        self.puzzle_places() + self.seq_len
    }

    /// p: those before the cells.
    pub fn puzzle_places(&self) -> usize {
        match self.puzzle_emb_len {
            0 => self.puzzle_emb_ndim.div_ceil(self.hidden_size.max(1)),
            places => places,
        }
    }

    /// e.
    pub fn head_width(&self) -> usize {
        self.hidden_size / self.num_heads.max(1)
    }

    /// The width of the feed-forward part beside `width`.
    pub fn inner(&self, width: usize) -> usize {
        let wide = (self.expansion * width as f64 * 2.0 / 3.0).round_ties_even() as usize;
        wide.div_ceil(MULTIPLE).max(1) * MULTIPLE
    }

    /// All weights, by name: shape, and what they start with.
    pub fn weights(&self) -> Vec<(String, Vec<usize>, Initial)> {
        let (d, l) = (self.hidden_size, self.places());
        let of = |width: usize| Initial::Truncated(1.0 / (width as f64).sqrt());
        let mut all = vec![
            (SYMBOLS.to_owned(), vec![self.vocab_size, d], of(d)),
            (HEAD.to_owned(), vec![self.vocab_size, d], of(d)),
            (HALT.to_owned(), vec![2, d], Initial::Constant(0.0)),
            (
                HALT_BIAS.to_owned(),
                vec![2],
                Initial::Constant(HALT_AT_FIRST),
            ),
            (ANSWER.to_owned(), vec![d], Initial::Truncated(1.0)),
            (THOUGHTS.to_owned(), vec![d], Initial::Truncated(1.0)),
        ];
        if self.puzzle_emb_ndim > 0 {
            let shape = vec![self.num_puzzle_identifiers, self.puzzle_emb_ndim];
            all.push((PUZZLES.to_owned(), shape, Initial::Constant(0.0)));
        }
        if self.pos_encodings == Positions::Learned {
            all.push((PLACES.to_owned(), vec![l, d], of(d)));
        }
        for layer in 0..self.l_layers {
            let mut gated = |part: &str, width: usize| {
                let inner = self.inner(width);
                all.push((
                    weight(layer, part, "gate_up_proj"),
                    vec![2 * inner, width],
                    of(width),
                ));
                all.push((
                    weight(layer, part, "down_proj"),
                    vec![width, inner],
                    of(inner),
                ));
            };
            gated("mlp", d);
            match self.mlp_t {
                true => gated("mlp_t", l),
                false => {
                    let heads = self.num_heads * self.head_width();
                    all.push((
                        weight(layer, "self_attn", "qkv_proj"),
                        vec![3 * heads, d],
                        of(d),
                    ));
                    all.push((
                        weight(layer, "self_attn", "o_proj"),
                        vec![d, heads],
                        of(heads),
                    ));
                }
            }
        }
        all
    }

    /// Refuses more layers in a step of thinking than anybody waits for. Each size is within its own limit.
    fn check_depth(&self) -> Result<()> {
        let depth = self.h_cycles * (self.l_cycles + 1) * self.l_layers;
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        let problem = format!(
            "is {}: with {} low cycles and {} layers it makes {depth} layers of a step of thinking, and {MAX_DEPTH} are the most",
            self.h_cycles, self.l_cycles, self.l_layers
        );
        Err(Error::setting("H_cycles", problem))
    }

    /// Refuses what no model can be, by the names of the settings.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("vocab_size", self.vocab_size, 1 << 20),
            ("seq_len", self.seq_len, 1 << 16),
            ("hidden_size", self.hidden_size, 1 << 15),
            ("num_heads", self.num_heads, self.hidden_size),
            ("L_layers", self.l_layers, 256),
            ("H_cycles", self.h_cycles, 1024),
            ("L_cycles", self.l_cycles, 1024),
            ("halt_max_steps", self.halt_max_steps, 4096),
            (
                "num_puzzle_identifiers",
                self.num_puzzle_identifiers,
                1 << 24,
            ),
        ];
        for (name, value, most) in positive {
            if !(1..=most).contains(&value) {
                let problem = format!("is {value}, and has to be from 1 to {most}");
                return Err(Error::setting(name, problem));
            }
        }
        let (heads, width) = (self.num_heads, self.head_width());
        let turns = self.pos_encodings == Positions::Rope && !self.mlp_t;
        if turns && !width.is_multiple_of(2) {
            let problem = format!(
                "is {heads}, which makes heads of {width} of {} numbers; rotary positions turn pairs, so a head has to have an even width",
                self.hidden_size
            );
            return Err(Error::setting("num_heads", problem));
        }
        self.check_depth()?;
        let places = self.puzzle_places();
        if places > MAX_PLACES {
            let problem = format!("is {places}, and has to be at most {MAX_PLACES}");
            return Err(Error::setting("puzzle_emb_len", problem));
        }
        let width = self.hidden_size.saturating_mul(places);
        if self.puzzle_emb_ndim > width {
            let problem = format!(
                "is {}, more than the {width} numbers of `puzzle_emb_len` {} places of `hidden_size` {}",
                self.puzzle_emb_ndim, self.puzzle_emb_len, self.hidden_size
            );
            return Err(Error::setting("puzzle_emb_ndim", problem));
        }
        let positive = [
            ("expansion", self.expansion, 64.0),
            ("rms_norm_eps", self.rms_norm_eps, 1.0),
            ("rope_theta", self.rope_theta, 1e12),
        ];
        for (name, value, most) in positive {
            if !(value > 0.0 && value <= most) {
                let problem = format!("is {value}, and has to be above 0 and at most {most}");
                return Err(Error::setting(name, problem));
            }
        }
        let chance = self.halt_exploration_prob;
        if !(0.0..=1.0).contains(&chance) {
            let problem = format!("is {chance}, and has to be from 0 to 1");
            return Err(Error::setting("halt_exploration_prob", problem));
        }
        Ok(())
    }
}

/// The name of a weight of a block.
pub(super) fn weight(layer: usize, part: &str, name: &str) -> String {
    format!("L_level.layers.{layer}.{part}.{name}.weight")
}
