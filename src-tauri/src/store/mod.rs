//! Everything the app keeps on disk. No other module knows a folder's name.

pub(crate) mod models;
pub(crate) mod paths;
pub(crate) mod record;
pub(crate) mod run_file;
pub(crate) mod runs;
pub(crate) mod settings;
pub(crate) mod yaml;
