//! ViT: a transformer over the patches of a picture (Dosovitskiy et al., 2021, <https://arxiv.org/abs/2010.11929>).
//!
//! - patches by a convolution whose stride is its kernel
//! - a token that stands for the class before them, and a learned vector for each place
//! - layer norm before each part, and once at the end
//! - attention of all to all with a bias in every product, GELU by the error function
//! - scores from the token that stands for the class
//!
//! Names of weights are timm's.
//!
//! Letters: b pictures, t tokens, d width, h heads, e width of a head.
//!
//! Deliberately absent: other pools than the token of the class, distillation tokens, norms of queries and keys, scaled branches and
//! position embeddings of another size of picture.

use serde::{Deserialize, Serialize};

use super::{
    Begins, Layer, Step, Then,
    nets::{List, geometry, linear as linear_layer},
};
use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans, attention},
        elementwise::{narrow, reshape},
        linear::linear,
    },
    tape::Value,
};

/// What the token that stands for the class is called.
pub(super) const CLASS_TOKEN: &str = "cls_token";
/// What the vectors of the places are called.
pub(super) const POSITIONS: &str = "pos_embed";
/// The deviation of weights that nobody has trained.
pub(super) const DEVIATION: f64 = 0.02;

/// The widest token: that of the largest ViT in use, of 22 billion weights, has 6,144.
const MAX_WIDTH: usize = 8192;
/// The most layers: that one has 48.
const MAX_LAYERS: usize = 256;
/// The widest feed-forward part: that one has 24,576.
const MAX_HIDDEN: usize = 1 << 16;
/// The most patches of a picture: 256 by 256.
const MAX_PATCHES: usize = 1 << 16;

/// The sizes of a ViT.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    /// The side of a patch, in pixels.
    pub patch: usize,
    /// Numbers of a token.
    pub width: usize,
    /// Layers, each of attention and a feed-forward part.
    pub layers: usize,
    /// Heads of attention, among which the numbers of a token are shared out.
    pub heads: usize,
    /// Numbers between the two products of a feed-forward part.
    pub hidden: usize,
    /// What layer norm adds to a variance.
    pub epsilon: f64,
}

impl Transformer {
    /// What no ViT for pictures of this height and width can be, if something is.
    pub(super) fn problem(&self, sides: [usize; 2]) -> Option<String> {
        let sizes = [
            ("numbers in a token", self.width, MAX_WIDTH),
            ("layers", self.layers, MAX_LAYERS),
            ("heads", self.heads, MAX_WIDTH),
            ("numbers in a feed-forward part", self.hidden, MAX_HIDDEN),
        ];
        let is_odd = |it: &&(&str, usize, usize)| !(1..=it.2).contains(&it.1);
        if let Some((what, size, most)) = sizes.iter().find(is_odd) {
            return Some(format!("has {size} {what}, and a ViT has 1 to {most}"));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Some(format!(
                "has {} numbers in a token, which {} heads can’t share evenly",
                self.width, self.heads
            ));
        }
        let [height, width] = sides;
        let patch = self.patch;
        if patch == 0 || !height.is_multiple_of(patch) || !width.is_multiple_of(patch) {
            return Some(format!(
                "has patches of {patch} pixels, which pictures of {width} x {height} can’t be cut into"
            ));
        }
        let patches = (height / patch) * (width / patch);
        if patches > MAX_PATCHES {
            return Some(format!(
                "cuts a picture into {patches} patches, and {MAX_PATCHES} are the most"
            ));
        }
        let is_sound = self.epsilon.is_finite() && (0.0..=0.1).contains(&self.epsilon);
        (!is_sound).then(|| {
            format!(
                "adds {} to the variances of its norms, and 0 to 0.1 is known here",
                self.epsilon
            )
        })
    }
}

/// The steps of a ViT that tells so many classes apart.
pub(super) fn steps(sizes: &Transformer, classes: usize) -> Vec<Step> {
    let norm = |name: String| Layer::LayerNorm {
        name,
        epsilon: sizes.epsilon,
    };
    let mut list = List::default();
    list.next(Layer::Convolution {
        name: "patch_embed.proj".to_owned(),
        out: sizes.width,
        geometry: geometry(sizes.patch, sizes.patch, 0),
        begins: Begins::Uniform,
        bias: true,
    });
    let mut last = list.next(Layer::Tokens);
    for block in 0..sizes.layers {
        let name = |what: &str| format!("blocks.{block}.{what}");
        list.next(norm(name("norm1")));
        list.next(Layer::Attention {
            name: name("attn"),
            heads: sizes.heads,
        });
        last = list.next(Layer::Add(last));
        list.next(norm(name("norm2")));
        list.next(linear_layer(&name("mlp.fc1"), sizes.hidden));
        list.next(Layer::Activation(Then::Gelu));
        list.next(linear_layer(&name("mlp.fc2"), sizes.width));
        last = list.next(Layer::Add(last));
    }
    // The norm of one token does not depend on the others, and no other is read.
    list.next(Layer::ClassToken);
    list.next(norm("norm".to_owned()));
    list.next(linear_layer("head", classes));
    list.steps
}

/// Attention of all tokens x [b, t, d] to all, with the weight and the bias of the products before it and after it.
pub(super) fn attend(
    x: &Value,
    before: [Value; 2],
    after: [Value; 2],
    heads: usize,
) -> Result<Value> {
    let (b, t, d) = x.tensor().dims3()?;
    let e = d / heads.max(1);
    let all = linear(x, &before[0], Some(&before[1]))?;
    let part = |at: usize| reshape(&narrow(&all, 2, at * d, d)?, &[b, t, heads, e]);
    let scoring = Scoring {
        scale: 1.0 / (e as f64).sqrt(),
        soft_cap: None,
    };
    let y = attention(&part(0)?, &part(1)?, &part(2)?, &Spans::full(b, t), scoring)?;
    linear(&reshape(&y, &[b, t, d])?, &after[0], Some(&after[1]))
}
