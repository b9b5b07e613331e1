//! Everything the app keeps on disk. No other module knows a folder's name.

#[cfg(feature = "gui")]
pub(crate) mod conversations;
#[cfg(feature = "gui")]
pub(crate) mod data_sets;
pub(crate) mod models;
pub(crate) mod paths;
pub(crate) mod record;
pub(crate) mod run_file;
pub(crate) mod run_state;
pub(crate) mod runs;
pub(crate) mod settings;
#[cfg(feature = "gui")]
pub(crate) mod waiting;
pub(crate) mod yaml;
