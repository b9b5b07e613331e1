//! An allocator that counts, so that a reader can be held to a limit of memory.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bytes that are allocated now.
static NOW: AtomicUsize = AtomicUsize::new(0);
/// The most that were since it was last asked.
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The largest that may be asked for at once. Nothing is refused before the harness says so.
static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts what another allocator gives.
pub(crate) struct Counting<A>(pub(crate) A);

/// From now on, a request for more than so many bytes at once fails, as it does on a machine without them.
pub(crate) fn refuse_above(bytes: usize) {
    LARGEST.store(bytes, Relaxed);
}

/// Begins to count anew. Returns how much is allocated.
pub(crate) fn begin() -> usize {
    let now = NOW.load(Relaxed);
    PEAK.store(now, Relaxed);
    now
}

/// The most that was allocated since it began.
pub(crate) fn peak() -> usize {
    PEAK.load(Relaxed)
}

fn grown(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: every request is passed on as it is, or refused with null, which the trait allows.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST.load(Relaxed) {
            return std::ptr::null_mut();
        }
        grown(layout.size());
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST.load(Relaxed) {
            return std::ptr::null_mut();
        }
        grown(layout.size());
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > LARGEST.load(Relaxed) {
            return std::ptr::null_mut();
        }
        grown(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
