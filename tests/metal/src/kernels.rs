//! Which kernels there are, and the text of each.

use std::{fs, path::PathBuf};

/// How numbers lie in memory, and how many a thread takes at a time. The order is that of the table that is written.
pub const STORAGES: [&str; 6] = ["f32x4", "f32x1", "f16x4", "f16x1", "bf16x4", "bf16x1"];

/// A kernel and the files that its text is put together from, after those of the storage and of groups. `*` stands for the
/// number of lanes.
pub struct Kernel {
    pub name: &'static str,
    files: &'static [&'static str],
}

const fn kernel(name: &'static str, files: &'static [&'static str]) -> Kernel {
    Kernel { name, files }
}

/// All of them, in the order of the table.
pub const KERNELS: &[Kernel] = &[
    kernel("rms_norm", &["rms_norm"]),
    kernel("rms_norm_back", &["rms_norm_back"]),
    kernel("rms_norm_weight", &["rms_norm_weight"]),
    kernel("layer_norm", &["layer_norm"]),
    kernel("layer_norm_back", &["layer_norm_back"]),
    kernel("layer_norm_weight", &["layer_norm_weight"]),
    kernel("residual_norm", &["residual_norm"]),
    kernel("residual_norm_back", &["residual_norm_back"]),
    kernel("gated", &["activation", "gated"]),
    kernel("gated_back", &["activation", "gated_back"]),
    kernel("halves", &["activation", "halves"]),
    kernel("halves_back", &["activation", "halves_back"]),
    kernel("rotate", &["rotate"]),
    kernel("masked_softmax", &["masked_softmax"]),
    kernel("masked_softmax_back", &["masked_softmax_back"]),
    kernel("next_attention", &["next_attention"]),
    kernel("cross_entropy", &["cross_entropy"]),
    kernel("add_low_rank", &["add_low_rank_x*", "add_low_rank"]),
    kernel(
        "add_low_rank_back",
        &["add_low_rank_back_x*", "add_low_rank"],
    ),
    kernel("gather", &["gather"]),
    kernel("add_rows", &["add_rows"]),
    kernel("dropout", &["dropout"]),
    kernel("classify", &["classify"]),
    kernel("widen_codes", &["widen_codes_x*", "widen_codes"]),
    kernel("patches", &["picture", "patches"]),
    kernel("patches_back", &["picture", "patches_back"]),
    kernel("max_pool", &["picture", "max_pool"]),
    kernel("max_pool_back", &["picture", "max_pool_back"]),
    kernel("batch_sums", &["activation", "batch", "batch_sums"]),
    kernel("batch_channels", &["batch_channels"]),
    kernel("batch_follow", &["batch_follow"]),
    kernel("batch_apply", &["activation", "batch", "batch_apply"]),
    kernel(
        "batch_slope_sums",
        &["activation", "batch", "batch_slope_sums"],
    ),
    kernel("batch_slopes", &["batch_slopes"]),
    kernel("batch_back", &["activation", "batch", "batch_back"]),
    kernel("adamw", &["adamw"]),
    kernel("adamw_codes", &["adamw_codes"]),
    kernel("squares", &["squares"]),
];

/// Where the kernels stand: in this repository, or below the current folder where the program was carried to another machine.
pub fn folder() -> PathBuf {
    const PATH: &str = "models/src/ops/kernels/metal";
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PATH);
    if built.exists() { built } else { PATH.into() }
}

/// The kernel of this name.
///
/// Panics where there is none: that is a slip in this crate.
pub fn find(name: &str) -> &'static Kernel {
    let found = KERNELS.iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no kernel `{name}`"))
}

impl Kernel {
    /// The whole text for one storage.
    ///
    /// Panics where a file can't be read.
    pub fn source(&self, storage: &str) -> String {
        let lanes = &storage[storage.len() - 1..];
        let first = [storage.to_owned(), "groups".to_owned()];
        let files = first
            .into_iter()
            .chain(self.files.iter().map(|it| it.replace('*', lanes)));
        files
            .map(|name| {
                let path = folder().join("wgsl").join(format!("{name}.wgsl"));
                fs::read_to_string(&path)
                    .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
            })
            .collect()
    }
}
