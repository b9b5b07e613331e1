//! The threads that compute on the processor.

use std::thread;

use rayon::ThreadPoolBuilder;

/// Makes the calling thread one of those that operations are computed on, for as long as the program runs. Otherwise it hands
/// each operation to others, sleeps, and is woken when they are done, which takes longer than many an operation of a model
/// that writes. Only the first call in a program counts, and only before anything is computed.
///
/// Nothing changes on one core. Where this is the only thread that computes, what another wants computed waits until this one has
/// time, so that nobody may wait here for something that is computed there.
pub fn compute_on_this_thread() {
    if thread::available_parallelism().is_ok_and(|threads| threads.get() > 1) {
        // Fails where the others have started already, which compute as well without this one.
        let _ = ThreadPoolBuilder::new().use_current_thread().build_global();
    }
}
