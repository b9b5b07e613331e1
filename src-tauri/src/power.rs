//! The machine's power: keeping it awake while a run is running, and knowing what feeds it.

#[cfg(feature = "gui")]
pub(crate) mod awake;
pub(crate) mod supply;
pub(crate) mod watch;
