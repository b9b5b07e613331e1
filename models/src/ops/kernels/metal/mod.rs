//! Kernels for Metal: their text, and what a host has to know of each.
//!
//! They are written in WGSL (`wgsl`), translated by naga when we develop and committed (`msl`), which nobody edits; `tests/metal`
//! runs them on Vulkan. Deliberately absent so far: the launch. Every operation on Metal is still composed.

mod msl;

/// What is bound at a slot of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// A buffer that is only read.
    Read,
    /// A buffer that is written, and perhaps read.
    Write,
    /// So many bytes by value.
    Values(usize),
}

/// A kernel in all its storages.
struct Text {
    name: &'static str,
    /// Threads of a group.
    threads: usize,
    bindings: &'static [Binding],
    /// f32, f16 and bf16, each four numbers at a time and one.
    by_storage: [&'static str; 6],
}

/// The storages, in the order of [`Text::by_storage`].
const STORAGES: [&str; 6] = ["f32x4", "f32x1", "f16x4", "f16x1", "bf16x4", "bf16x1"];

/// The most bytes that Metal takes by value.
const MOST_VALUES: usize = 4096;

#[test]
fn every_text_is_of_the_kernel_and_storage_that_the_table_says() {
    for text in msl::TEXTS {
        for (storage, written) in STORAGES.iter().zip(text.by_storage) {
            let begin = format!("kernel void {storage}_{}(", text.name);
            assert!(written.contains(&begin), "{storage} {}", text.name);
            let threads = format!("max_total_threads_per_threadgroup({})", text.threads);
            assert!(written.contains(&threads), "{storage} {}", text.name);
            for (slot, binding) in text.bindings.iter().enumerate() {
                let line = written
                    .lines()
                    .find(|it| it.contains(&format!("[[buffer({slot})]]")))
                    .unwrap_or_else(|| panic!("{storage} {} has no slot {slot}", text.name));
                let right = match binding {
                    Binding::Read => line.contains("device") && line.contains(" const& "),
                    Binding::Write => line.contains("device") && !line.contains(" const& "),
                    Binding::Values(size) => line.contains("constant") && *size <= MOST_VALUES,
                };
                assert!(right, "{storage} {}, slot {slot}: {line}", text.name);
            }
        }
    }
}
