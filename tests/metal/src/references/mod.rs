//! What each kernel has to compute, in f64, on shapes of whole packs and of single numbers.

mod attention;
mod gates;
mod losses;
mod norms;
mod pictures;
mod positions;
mod products;
mod updates;
mod weights;

use crate::check::Check;

/// Kernels that are compared together, by name.
pub(crate) const FAMILIES: &[(&str, fn(&mut Check))] = &[
    ("rms_norm", norms::rms_norm),
    ("layer_norm", norms::layer_norm),
    ("residual_norm", norms::residual_norm),
    ("gated", gates::gated),
    ("halves", gates::halves),
    ("rotate", positions::rotate),
    ("masked_softmax", attention::masked_softmax),
    ("next_attention", attention::next_attention),
    ("cross_entropy", losses::cross_entropy),
    ("add_low_rank", products::add_low_rank),
    ("gather", products::gather),
    ("add_rows", updates::add_rows),
    ("dropout", weights::dropout),
    ("classify", losses::classify),
    ("widen_codes", weights::widen_codes),
    ("patches", pictures::patches),
    ("max_pool", pictures::max_pool),
    ("batch", pictures::batch_norm),
    ("adamw", updates::adamw),
    ("adamw_codes", updates::adamw_codes),
    ("squares", updates::squares),
];

/// One number for each of `count`.
fn each(count: usize, of: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..count).map(of).collect()
}
