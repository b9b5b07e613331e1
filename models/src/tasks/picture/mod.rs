//! Pictures: which of some classes each belongs to.
//!
//! - [`pixels`]: what a picture is; [`decode`]: files of pictures; [`resize`]: as Pillow does it, byte for byte
//! - [`source`]: which layout a path has, and what is kept aside, by `split`
//! - `idx`, `cifar` with `cifar_pickle`, `hub_parquet` and `class_folders`: the layouts
//! - [`store`]: pixels of a set, in memory or in a `pixel_file` that is made once
//! - [`doctor`]: what is wrong with a set
//! - [`classifier`]: a trained network that says what a picture shows
//! - [`published`]: networks that others have trained
//! - [`export`]: a trained network for other programs
//! - [`augment`]: a picture seen otherwise, and as the numbers that a network takes

pub mod augment;
mod cifar;
mod cifar_pickle;
mod class_folders;
pub mod classifier;
pub mod decode;
pub mod doctor;
pub mod export;
mod hub_parquet;
mod idx;
mod pixel_file;
pub mod pixels;
pub mod published;
pub mod resize;
pub mod source;
mod split;
pub mod store;
