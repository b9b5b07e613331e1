//! One way to take a lock, for everything that several threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value behind a lock, also after a thread panicked while it held it: each is whole at any time.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
