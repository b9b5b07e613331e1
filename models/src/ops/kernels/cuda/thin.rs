//! Products with thin matrices, of which adapters are made: those of all layers of one input in one launch. See `thin.cu`.
//!
//! cuBLAS computes those with many numbers, which fill a GPU one by one, those of high ranks, and all on GPUs before compute
//! capability 8.0.
//!
//! n: rows, w: columns of the wide matrix, r: those of the thin one, a multiple of eight for each layer.

use candle_core::{DType, Tensor, cuda::cudarc::driver::DeviceRepr};

use super::{
    KERNELS, Launch, PACK,
    code::{Code, compiled},
    in_packs,
    linear::{plain, product, transposed},
    multiplies_tiles, strided_address,
};
use crate::Result;

const THIN: Code = compiled!("thin");

// The sizes that `thin.cu` knows.

/// Threads of a block, and its warps.
const THREADS: usize = 256;
const WARPS: usize = THREADS / 32;
/// Columns of a thin matrix that a block has, unless it goes up.
const RANKS: usize = 32;
/// Rows that a block has going down, and a warp going up, at least.
const ROWS: usize = 16;
/// Columns of the wide matrix that a warp has going up.
const UP_COLUMNS: usize = 64;
/// Columns of the wide matrix that a block has for a gradient, and the memory that its threads share.
const COLUMNS: usize = 32;
const GRADIENT_BYTES: usize = 48 << 10;

/// Columns of a thin matrix above which cuBLAS is faster, and numbers of a wide one.
const MOST_RANKS: usize = 64;
const MOST_NUMBERS: usize = 12 << 20;

/// Going up, a warp may have several times so many rows, and reads M once for all of them: as many as leave so many times 16 x 64
/// numbers for each, which keep a large GPU busy.
const MOST_TILES: usize = 4;
const BUSY_TILES: usize = 2048;

/// A number of a thin matrix.
const NARROW_BYTES: usize = 2;

/// A rank with as many zeros below it as make it a whole number of packs.
pub(super) fn padded(rank: usize) -> usize {
    rank.next_multiple_of(PACK)
}

/// A wide matrix [n, w], a thin one [n, r], and M [r, w] between them. Rows of the first two may lie apart.
pub(super) struct Thin {
    pub(super) wide: Tensor,
    pub(super) thin: Tensor,
    pub(super) matrix: Tensor,
    /// What the product is multiplied with.
    pub(super) scale: f64,
}

/// Where the gradient of M goes, in f32.
pub(super) struct Gradient {
    pub(super) wide: Tensor,
    pub(super) thin: Tensor,
    /// [r, w], or [w, r] where it is `turned`, of as many ranks as are wanted.
    pub(super) to: Tensor,
    pub(super) turned: bool,
    pub(super) scale: f64,
}

/// An adapter in f32, and M [padded r, w] of both its parts, which get its numbers with zeros below.
pub(super) struct Adapter<'a> {
    /// [r, i], [padded r, i].
    pub(super) a: [&'a Tensor; 2],
    /// [o, r], [padded r, o].
    pub(super) b: [&'a Tensor; 2],
    /// Its columns of z [n, padded r].
    pub(super) z: Tensor,
}

/// One product as kernels read it, or that of some columns of its thin matrix: see `thin.cuh`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Piece {
    wide: u64,
    thin: u64,
    matrix: u64,
    wide_apart: u64,
    thin_apart: u64,
    ranks: i32,
    width: i32,
    wanted: i32,
    turned: i32,
    of_row: i32,
    scale: f32,
}

/// Those of one launch.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Products([Piece; Products::MAX]);

// Safety: it is numbers without gaps, as in `thin.cuh`.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Products {}

impl Products {
    /// The most that one launch takes.
    pub(super) const MAX: usize = 12;
}

/// Fills every M of adapters of one input, and z = wide Aᵀ of each. All of them lie side by side in `all` and `a`.
pub(super) fn start(wide: &Tensor, adapters: &[Adapter], [a, all]: [&Tensor; 2]) -> Result<()> {
    let mut downs = Vec::new();
    let mut conversions = Vec::new();
    for Adapter { a, b, z } in adapters {
        conversions.extend([conversion(*a, false)?, conversion(*b, true)?]);
        let mut down = piece(wide, z, a[0], 1.0)?;
        down.wanted = a[0].dim(0)? as i32;
        downs.push(down);
    }
    let pieces = [downs.as_slice(), &conversions].concat();
    let fits = pieces.len() <= Products::MAX && downs.iter().all(|it| it.ranks as usize <= RANKS);
    if fits
        && is_served(wide, all)?
        && in_packs(&adapters.iter().map(|it| it.a[0]).collect::<Vec<_>>())?
    {
        let rows = wide.dim(0)?;
        let blocks = rows.div_ceil(ROWS);
        return launch(&THIN, "thin_start", wide, &pieces, blocks, |it| {
            it.whole(&[rows, downs.len()])
        });
    }
    let numbers = |it: &Piece| it.ranks as usize * it.width as usize;
    let blocks = largest(&conversions, numbers).div_ceil(THREADS * PACK);
    launch(&KERNELS, "thin_convert", wide, &conversions, blocks, |it| {
        it
    })?;
    down(&[Thin {
        wide: wide.clone(),
        thin: all.clone(),
        matrix: a.clone(),
        scale: 1.0,
    }])
}

fn conversion([from, to]: [&Tensor; 2], turned: bool) -> Result<Piece> {
    let (ranks, width) = to.dims2()?;
    Ok(Piece {
        wide: strided_address(from)?,
        matrix: strided_address(to)?,
        ranks: ranks as i32,
        width: width as i32,
        wanted: from.dim(usize::from(turned))? as i32,
        turned: i32::from(turned),
        of_row: from.dim(1)? as i32,
        ..Piece::default()
    })
}

/// thin = s wide Mᵀ.
pub(super) fn down(products: &[Thin]) -> Result<()> {
    let (ours, others) = shared_out(products, |it| [&it.wide, &it.thin])?;
    for it in others {
        let (wide, matrix) = (plain(&it.wide), transposed(&it.matrix));
        product(it.scale, wide, matrix, 0.0, &it.thin)?;
    }
    let Some(first) = ours.first() else {
        return Ok(());
    };
    let mut parts = Vec::new();
    for it in &ours {
        let bytes_of_rank = it.wide.dim(1)? * NARROW_BYTES;
        parts.extend(it.piece()?.parts(bytes_of_rank));
    }
    let rows = first.wide.dim(0)?;
    let blocks = rows.div_ceil(ROWS);
    launch(&THIN, "thin_down", &first.wide, &parts, blocks, |it| {
        it.whole(&[rows])
    })
}

/// wide = s thin M, which is added to what is there where it `adds`.
pub(super) fn up(products: &[Thin], adds: bool) -> Result<()> {
    let (ours, others) = shared_out(products, |it| [&it.wide, &it.thin])?;
    for it in others {
        let kept = f64::from(u8::from(adds));
        product(it.scale, plain(&it.thin), plain(&it.matrix), kept, &it.wide)?;
    }
    let Some(first) = ours.first() else {
        return Ok(());
    };
    let pieces: Vec<Piece> = ours.iter().map(|it| it.piece()).collect::<Result<_>>()?;
    let rows = first.wide.dim(0)?;
    let down = rows.div_ceil(ROWS);
    let across = |it: &Piece| (it.width as usize).div_ceil(UP_COLUMNS);
    let all: usize = pieces.iter().map(|it| across(it) * down).sum();
    let tiles = (all / BUSY_TILES).clamp(1, MOST_TILES);
    let blocks = (largest(&pieces, across) * down.div_ceil(tiles)).div_ceil(WARPS);
    let name = match largest(&pieces, |it| it.ranks as usize) {
        ..=16 => "thin_up_16",
        ..=32 => "thin_up_32",
        _ => "thin_up_64",
    };
    launch(&THIN, name, &first.wide, &pieces, blocks, |it| {
        it.whole(&[rows, tiles, usize::from(adds)])
    })
}

/// The gradients of M, s thinᵀ wide.
pub(super) fn gradients(products: &[Gradient]) -> Result<()> {
    let (ours, others) = shared_out(products, |it| [&it.wide, &it.thin])?;
    for it in others {
        let thin = it.thin.narrow(1, 0, it.ranks()?)?;
        let (a, b) = match it.turned {
            true => (transposed(&it.wide), plain(&thin)),
            false => (transposed(&thin), plain(&it.wide)),
        };
        product(it.scale, a, b, 0.0, &it.to)?;
    }
    let Some(first) = ours.first() else {
        return Ok(());
    };
    let mut parts = Vec::new();
    for it in &ours {
        let mut whole = piece(&it.wide, &it.thin, &it.to, it.scale)?;
        whole.wanted = it.ranks()? as i32;
        whole.turned = i32::from(it.turned);
        whole.of_row = it.to.dim(1)? as i32;
        let apart = if it.turned { 1 } else { it.wide.dim(1)? };
        parts.extend(whole.parts(apart * it.to.dtype().size_in_bytes()));
    }
    let rows = first.wide.dim(0)?;
    let blocks = largest(&parts, |it| it.width as usize).div_ceil(COLUMNS);
    launch(&THIN, "thin_gradient", &first.wide, &parts, blocks, |it| {
        it.whole(&[rows]).sharing(GRADIENT_BYTES)
    })
}

impl Thin {
    fn piece(&self) -> Result<Piece> {
        piece(&self.wide, &self.thin, &self.matrix, self.scale)
    }
}

impl Gradient {
    /// How many are wanted.
    fn ranks(&self) -> Result<usize> {
        Ok(self.to.dim(usize::from(self.turned))?)
    }
}

impl Piece {
    /// It by so many columns of the thin matrix as blocks take at once. What belongs to the next lies so many bytes behind in M.
    fn parts(self, bytes_of_rank: usize) -> impl Iterator<Item = Self> {
        let all = self.ranks as usize;
        (0..all).step_by(RANKS).map(move |start| Self {
            thin: self.thin + (start * NARROW_BYTES) as u64,
            matrix: self.matrix + (start * bytes_of_rank) as u64,
            ranks: RANKS.min(all - start) as i32,
            wanted: (self.wanted - start as i32).clamp(0, RANKS as i32),
            ..self
        })
    }
}

/// The products that our kernels compute, and those that cuBLAS does, by their wide and thin matrices.
fn shared_out<T>(products: &[T], of: impl Fn(&T) -> [&Tensor; 2]) -> Result<(Vec<&T>, Vec<&T>)> {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for it in products {
        let [wide, thin] = of(it);
        match is_served(wide, thin)? {
            true => ours.push(it),
            false => others.push(it),
        }
    }
    Ok((ours, others))
}

fn is_served(wide: &Tensor, thin: &Tensor) -> Result<bool> {
    let lies_in_packs = |it: &Tensor| -> Result<bool> {
        let stride = it.stride();
        Ok(stride[1] == 1 && stride[0].is_multiple_of(PACK) && in_packs(&[it])?)
    };
    Ok(matches!(wide.dtype(), DType::BF16 | DType::F16)
        && wide.dim(1)?.is_multiple_of(PACK)
        && wide.elem_count() <= MOST_NUMBERS
        && thin.dim(1)? <= MOST_RANKS
        && lies_in_packs(wide)?
        && lies_in_packs(thin)?
        && multiplies_tiles(wide.device())?)
}

fn piece(wide: &Tensor, thin: &Tensor, matrix: &Tensor, scale: f64) -> Result<Piece> {
    Ok(Piece {
        wide: strided_address(wide)?,
        thin: strided_address(thin)?,
        matrix: strided_address(matrix)?,
        wide_apart: wide.stride()[0] as u64,
        thin_apart: thin.stride()[0] as u64,
        ranks: thin.dim(1)? as i32,
        wanted: thin.dim(1)? as i32,
        width: wide.dim(1)? as i32,
        scale: scale as f32,
        ..Piece::default()
    })
}

fn largest(pieces: &[Piece], of: impl Fn(&Piece) -> usize) -> usize {
    pieces.iter().map(of).max().unwrap_or(0)
}

fn launch(
    code: &'static Code,
    name: &str,
    like: &Tensor,
    pieces: &[Piece],
    blocks: usize,
    with: impl Fn(Launch) -> Launch,
) -> Result<()> {
    for some in pieces.chunks(Products::MAX) {
        let mut products = Products::default();
        products.0[..some.len()].copy_from_slice(some);
        let launch = Launch::of_code(code, name, like)?.products(products);
        with(launch).launch_grid([blocks, some.len()], THREADS)?;
    }
    Ok(())
}
