//! What computes 32 x 32 sums from packed panels: the processor's unit for bf16.

use std::{ptr, sync::LazyLock};

use super::{
    super::Output,
    pack::{Line, PANEL, TILE},
};

/// Steps that are taken before the next panel: the panel of columns then stays in a core's own cache.
const STEPS: usize = 16;

/// What multiplies numbers of bf16, and is here: only finding it makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only one is there")
)]
enum Kind {
    /// Tiles.
    Amx,
    /// Vectors.
    Avx512,
    /// Numbers, one after another.
    Portable,
}

/// Panels to multiply, each of `length` lines.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) a: &'a [Line],
    pub(super) b: &'a [Line],
    pub(super) length: usize,
}

/// Where the product of a block goes.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) start: *mut f32,
    /// From one row to the next.
    pub(super) width: usize,
    /// Rows and columns that are there, of as many as the panels have or more.
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// 32 x 32 sums, as they were and as they will be: the first one, and how far rows are apart. What lies `apart` 0 is one row for all.
#[derive(Clone, Copy)]
struct Sums {
    before: *const f32,
    before_apart: usize,
    after: *mut f32,
    after_apart: usize,
}

/// 32 x 32 sums of their own, for what lies at an edge.
#[repr(align(64))]
struct Edge([f32; PANEL * PANEL]);

/// A row of zeros.
#[repr(align(64))]
struct Zeros([f32; PANEL]);

static ZEROS: Zeros = Zeros([0.0; PANEL]);

impl Unit {
    /// The fastest one of this processor.
    pub(crate) fn here() -> Self {
        static HERE: LazyLock<Kind> = LazyLock::new(|| match () {
            #[cfg(target_arch = "x86_64")]
            () if !is_x86_feature_detected!("avx512bf16") => Kind::Portable,
            #[cfg(target_arch = "x86_64")]
            () if amx::is_here() => Kind::Amx,
            #[cfg(target_arch = "x86_64")]
            () => Kind::Avx512,
            #[cfg(not(target_arch = "x86_64"))]
            () => Kind::Portable,
        });
        Self(*HERE)
    }

    /// All that this processor has. One with tiles has vectors too.
    #[cfg(test)]
    pub(super) fn all_here() -> Vec<Self> {
        let all = [Kind::Portable, Kind::Avx512, Kind::Amx];
        let count = match Self::here().0 {
            Kind::Portable => 1,
            Kind::Avx512 => 2,
            Kind::Amx => 3,
        };
        all[..count].iter().map(|kind| Self(*kind)).collect()
    }

    /// Whether it is there to compare with, and slower than f32. Others pack operands in vectors of AVX-512.
    pub(crate) fn is_portable(self) -> bool {
        self.0 == Kind::Portable
    }

    /// Multiplies a block into its target.
    ///
    /// # Safety
    ///
    /// The target's rows and columns are numbers that nobody else uses. A panel has a whole number of steps, and one at least.
    #[allow(unsafe_code)]
    pub(super) unsafe fn multiply(self, block: Block, target: Target, output: Output) {
        #[cfg(target_arch = "x86_64")]
        let _tiles = (self.0 == Kind::Amx).then(amx::Tiles::configured);
        let mut edge = Edge([0.0; PANEL * PANEL]);
        let steps = block.length / PANEL;
        for first in (0..steps).step_by(STEPS) {
            let output = if first == 0 { output } else { Output::Add };
            let part = first * PANEL..(first + STEPS).min(steps) * PANEL;
            for (column, b) in block.b.chunks_exact(block.length).enumerate() {
                for (row, a) in block.a.chunks_exact(block.length).enumerate() {
                    let (row, column) = (row * PANEL, column * PANEL);
                    // Safety: the caller's.
                    unsafe {
                        let target = Target {
                            start: target.start.add(row * target.width + column),
                            width: target.width,
                            rows: (target.rows - row).min(PANEL),
                            columns: (target.columns - column).min(PANEL),
                        };
                        let (a, b) = (&a[part.clone()], &b[part.clone()]);
                        self.multiply_onto(a, b, target, output, &mut edge);
                    }
                }
            }
        }
    }

    /// Multiplies two panels into 32 x 32 numbers, or fewer at an edge. Safety: as [`Self::multiply`].
    #[allow(unsafe_code)]
    unsafe fn multiply_onto(
        self,
        a: &[Line],
        b: &[Line],
        target: Target,
        output: Output,
        edge: &mut Edge,
    ) {
        let is_whole = target.rows == PANEL && target.columns == PANEL;
        let (after, after_apart) = match is_whole {
            true => (target.start, target.width),
            false => (edge.0.as_mut_ptr(), PANEL),
        };
        // Safety: the caller's.
        let copy = |from: *const f32, from_apart: usize, to: *mut f32, to_apart: usize| unsafe {
            for row in 0..target.rows {
                let (from, to) = (from.add(row * from_apart), to.add(row * to_apart));
                ptr::copy_nonoverlapping(from, to, target.columns);
            }
        };
        let (before, before_apart) = match output {
            Output::Replace => (ZEROS.0.as_ptr(), 0),
            Output::Add => (after.cast_const(), after_apart),
        };
        if !is_whole && output == Output::Add {
            copy(target.start, target.width, after, after_apart);
        }
        let sums = Sums {
            before,
            before_apart,
            after,
            after_apart,
        };
        // Safety: the caller's.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Kind::Amx => amx::multiply(a, b, sums),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => avx512::multiply(a, b, sums),
                _ => portable(a, b, sums),
            }
        }
        if !is_whole {
            copy(after, after_apart, target.start, target.width);
        }
    }
}

/// The numbers of a pair.
fn pair(word: u32) -> [f32; 2] {
    [
        f32::from_bits(word << 16),
        f32::from_bits(word & 0xffff_0000),
    ]
}

/// The sums, one after another. Safety: `sums` are numbers that nobody else uses.
#[allow(unsafe_code)]
unsafe fn portable(a: &[Line], b: &[Line], sums: Sums) {
    for row in 0..PANEL {
        for column in 0..PANEL {
            // Safety: the caller's.
            let mut sum = unsafe { *sums.before.add(row * sums.before_apart + column) };
            for (a, b) in a.chunks_exact(PANEL).zip(b.chunks_exact(PANEL)) {
                let b = &b[column / TILE * TILE..];
                for (index, a) in a[row].0.iter().enumerate() {
                    let (a, b) = (pair(*a), pair(b[index].0[column % TILE]));
                    sum += a[0] * b[0] + a[1] * b[1];
                }
            }
            // Safety: as above.
            unsafe { *sums.after.add(row * sums.after_apart + column) = sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512 {
    use std::{
        arch::x86_64::{
            __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_load_si512, _mm512_loadu_ps,
            _mm512_set1_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
        },
        mem::transmute,
    };

    use super::{Line, PANEL, Sums, TILE};

    /// Rows whose sums stay in registers, each in two vectors.
    const ROWS: usize = 8;

    /// The sums in vectors of 16 columns. Safety: `sums` are numbers that nobody else uses.
    #[target_feature(enable = "avx512bf16")]
    pub(super) unsafe fn multiply(a: &[Line], b: &[Line], sums: Sums) {
        for first in (0..PANEL).step_by(ROWS) {
            // Safety: the caller's.
            unsafe {
                let mut totals = [[_mm512_setzero_ps(); 2]; ROWS];
                for (row, totals) in totals.iter_mut().enumerate() {
                    let before = sums.before.add((first + row) * sums.before_apart);
                    *totals = [_mm512_loadu_ps(before), _mm512_loadu_ps(before.add(TILE))];
                }
                for (a, b) in a.chunks_exact(PANEL).zip(b.chunks_exact(PANEL)) {
                    let a = a.as_ptr().add(first).cast::<i32>();
                    for pair in 0..TILE {
                        let b = b.as_ptr().add(pair);
                        let left = transmute::<__m512i, __m512bh>(_mm512_load_si512(b.cast()));
                        let right = _mm512_load_si512(b.add(TILE).cast());
                        let right = transmute::<__m512i, __m512bh>(right);
                        for (row, totals) in totals.iter_mut().enumerate() {
                            let a = _mm512_set1_epi32(*a.add(row * TILE + pair));
                            let a = transmute::<__m512i, __m512bh>(a);
                            totals[0] = _mm512_dpbf16_ps(totals[0], a, left);
                            totals[1] = _mm512_dpbf16_ps(totals[1], a, right);
                        }
                    }
                }
                for (row, totals) in totals.iter().enumerate() {
                    let after = sums.after.add((first + row) * sums.after_apart);
                    _mm512_storeu_ps(after, totals[0]);
                    _mm512_storeu_ps(after.add(TILE), totals[1]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod amx {
    use std::{
        arch::{
            asm,
            x86_64::{__cpuid, __cpuid_count},
        },
        marker::PhantomData,
    };

    use super::{Line, PANEL, Sums, TILE};

    /// Bytes of a line, and from one line of a tile to the next.
    const LINE_BYTES: usize = size_of::<Line>();

    /// Whether the processor has tiles with bf16, and the system lets this process use them.
    pub(super) fn is_here() -> bool {
        /// Both in the fourth register of leaf 7: tiles, and bf16 in them.
        const NEEDED: u32 = 1 << 24 | 1 << 22;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & NEEDED == NEEDED && is_permitted()
    }

    /// Linux gives a process tiles when it asks for them. Only builds for the usual C library have a way to ask.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn is_permitted() -> bool {
        /// `ARCH_REQ_XCOMP_PERM`, and the number of the state that holds the tiles.
        const REQUEST: (libc::c_long, libc::c_long) = (0x1023, 18);
        // Safety: it changes what this process may do, and nothing else.
        unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST.0, REQUEST.1) == 0 }
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    fn is_permitted() -> bool {
        false
    }

    /// The tiles of this thread, of 16 lines each, until it is dropped.
    pub(super) struct Tiles {
        /// They belong to the thread.
        thread: PhantomData<*const ()>,
    }

    impl Tiles {
        pub(super) fn configured() -> Self {
            #[repr(align(64))]
            struct Configuration([u8; 64]);
            let mut configuration = Configuration([0; 64]);
            configuration.0[0] = 1;
            for tile in 0..8 {
                // Bytes of a line as a number of two bytes, and lines.
                configuration.0[16 + 2 * tile] = LINE_BYTES as u8;
                configuration.0[48 + tile] = TILE as u8;
            }
            // Safety: the configuration is one that the processor knows.
            unsafe {
                asm!(
                    "ldtilecfg [{}]", in(reg) configuration.0.as_ptr(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                );
            };
            Self {
                thread: PhantomData,
            }
        }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            // Safety: nobody uses them any more.
            unsafe {
                asm!(
                    "tilerelease",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                );
            };
        }
    }

    /// The sums in four tiles, while the thread has [`Tiles`]. Safety: `sums` are numbers that nobody else uses.
    pub(super) unsafe fn multiply(a: &[Line], b: &[Line], sums: Sums) {
        let steps = a.len() / PANEL;
        debug_assert!(steps > 0 && a.len() == b.len());
        // Safety: the caller's. Panels have the same number of steps, which is not 0.
        unsafe {
            asm!(
                "tileloadd tmm0, [{before}+{before_apart}*1]",
                "tileloadd tmm1, [{before}+{before_apart}*1+64]",
                "tileloadd tmm2, [{below}+{before_apart}*1]",
                "tileloadd tmm3, [{below}+{before_apart}*1+64]",
                "2:",
                "tileloadd tmm4, [{a}+{line}*1]",
                "tileloadd tmm6, [{b}+{line}*1]",
                "tileloadd tmm7, [{b}+{line}*1+1024]",
                "tileloadd tmm5, [{a}+{line}*1+1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{after}+{after_apart}*1], tmm0",
                "tilestored [{after}+{after_apart}*1+64], tmm1",
                "tilestored [{under}+{after_apart}*1], tmm2",
                "tilestored [{under}+{after_apart}*1+64], tmm3",
                before = in(reg) sums.before,
                below = in(reg) sums.before.add(TILE * sums.before_apart),
                before_apart = in(reg) sums.before_apart * size_of::<f32>(),
                after = in(reg) sums.after,
                under = in(reg) sums.after.add(TILE * sums.after_apart),
                after_apart = in(reg) sums.after_apart * size_of::<f32>(),
                a = inout(reg) a.as_ptr() => _,
                b = inout(reg) b.as_ptr() => _,
                line = in(reg) LINE_BYTES,
                steps = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}
