//! Products of few rows with weights in blocks of ggml, where those rows are rounded to eight bits as well: whole numbers are multiplied,
//! as llama.cpp does it when it writes. They are not those of [`super::blocks`], so nothing learns by them.
//!
//! Each group of 32 numbers of x has a scale of its own, so a product is off by less than a hundredth of what it is made of. A row has
//! the products that it has alone, to the bit.
//! Deliberately absent: processors without AVX2, where nothing is rounded.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;

use candle_core::quantized::GgmlDType;

use super::product::Output;

/// One product: x [n, i] with a weight [o, i].
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "nothing is rounded there")
)]
pub(super) struct Product<'a> {
    /// [n, o].
    pub(super) y: &'a mut [f32],
    pub(super) output: Output,
    pub(super) dtype: GgmlDType,
    /// Those of the weight, row after row.
    pub(super) blocks: &'a [u8],
}

/// Takes products of rows x [n, i] with several weights, all on all threads: each row of a weight is read once. Whether that can be done
/// here; if not, nothing is changed.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) fn project(x: &[f32], depth: usize, products: Vec<Product>) -> bool {
    use super::{each, fetch_ahead, rows_of_task};

    let dots: Option<Vec<_>> = products.iter().map(|it| avx2::dot(it.dtype)).collect();
    let (Some(dots), true) = (dots, avx2::is_here()) else {
        return false;
    };
    let outputs: usize = products.iter().map(|it| it.y.len()).sum();
    let columns_of_task = rows_of_task(depth);
    // Safety: the processor has what they need.
    let rows: Vec<_> = x
        .chunks(depth)
        .map(|x| unsafe { avx2::rounded(x) })
        .collect();
    let mut tasks = Vec::new();
    for (product, dot) in products.into_iter().zip(dots) {
        let columns = product.y.len() / rows.len();
        let row_bytes = product.blocks.len() / columns.max(1);
        let mut ys: Vec<_> = product.y.chunks_mut(columns.max(1)).collect();
        for blocks in product.blocks.chunks(columns_of_task * row_bytes) {
            let count = blocks.len() / row_bytes;
            let of_rows = ys
                .iter_mut()
                .map(|y| y.split_off_mut(..count).unwrap_or_default());
            let of_rows: Vec<_> = of_rows.collect();
            tasks.push((of_rows, blocks, row_bytes, product.output, dot));
        }
    }
    each(
        tasks,
        outputs * depth,
        |(mut ys, blocks, row_bytes, output, dot)| {
            for (column, row) in blocks.chunks(row_bytes).enumerate() {
                fetch_ahead(row);
                for (y, x) in ys.iter_mut().zip(&rows) {
                    // Safety: as above.
                    let product = unsafe { dot(row, x) };
                    y[column] = match output {
                        Output::Replace => product,
                        Output::Add => y[column] + product,
                    };
                }
            }
        },
    );
    true
}

/// Whether it can be done here, of the kinds of blocks that there are.
pub(super) fn is_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    return avx2::is_here();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn project(_: &[f32], _: usize, _: Vec<Product>) -> bool {
    false
}

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod tests {
    use candle_core::{DType, Device, Tensor, quantized::QTensor};

    use super::{
        super::blocks::KINDS,
        avx2::{dot, rounded},
        *,
    };
    use crate::ops::testing::normal;

    #[test]
    fn products_are_those_of_the_numbers_that_codes_stand_for() {
        let x = normal(3, &[512]).to_dtype(DType::F32).unwrap();
        let mut x: Vec<f32> = x.to_vec1().unwrap();
        x[32..64].fill(0.0);
        if !is_here() {
            return;
        }
        // Safety: the processor can.
        let rounded = unsafe { rounded(&x) };
        let groups = rounded.codes.iter().zip(&rounded.scales);
        let meant =
            groups.flat_map(|(codes, scale)| codes.map(|it| f64::from(it) * f64::from(*scale)));
        let meant: Vec<f64> = meant.collect();
        for (x, meant) in x.iter().zip(&meant) {
            assert!((f64::from(*x) - meant).abs() < 0.02, "{x} {meant}");
        }
        for dtype in KINDS {
            let dot = dot(dtype).unwrap();
            let weights = normal(7, &[3, 512]).to_dtype(DType::F32).unwrap();
            let sizes = Tensor::new(&[[1f32], [1e-3], [1e3]], &Device::Cpu).unwrap();
            let weights = weights.broadcast_mul(&sizes).unwrap();
            let blocks = QTensor::quantize(&weights, dtype).unwrap();
            let widened = blocks.dequantize(&Device::Cpu).unwrap();
            let widened = widened.to_vec2::<f32>().unwrap();
            let bytes = blocks.data().unwrap();
            let rows = bytes.chunks(bytes.len() / 3);
            for (row, weights) in rows.zip(widened) {
                let of_pair = |(weight, x): (&f32, &f64)| f64::from(*weight) * x;
                let products: Vec<f64> = weights.iter().zip(&meant).map(of_pair).collect();
                let expected: f64 = products.iter().sum();
                let size: f64 = products.iter().map(|it| it.abs()).sum();
                // Safety: the processor can.
                let found = f64::from(unsafe { dot(row, &rounded) });
                let off = (found - expected).abs() / size;
                assert!(off < 1e-6, "{dtype:?}: {found} for {expected}");
            }
        }
        assert!(dot(GgmlDType::Q2K).is_none());
    }

    #[test]
    fn a_row_among_others_has_the_products_that_it_has_alone() {
        let (rows, depth) = (3, 512);
        let x = normal(3, &[rows, depth]).to_dtype(DType::F32).unwrap();
        let x: Vec<f32> = x.flatten_all().unwrap().to_vec1().unwrap();
        for (dtype, columns) in [(GgmlDType::Q4_0, 70), (GgmlDType::Q6K, 3)] {
            let weights = normal(7, &[columns, depth]).to_dtype(DType::F32).unwrap();
            let blocks = QTensor::quantize(&weights, dtype).unwrap();
            let bytes = blocks.data().unwrap();
            let products = |x: &[f32], output| {
                let mut y = vec![1.0; x.len() / depth * columns];
                let product = Product {
                    y: &mut y,
                    output,
                    dtype,
                    blocks: &bytes,
                };
                assert_eq!(project(x, depth, vec![product]), is_here());
                y
            };
            let alone = |output| x.chunks(depth).flat_map(move |x| products(x, output));
            for output in [Output::Replace, Output::Add] {
                assert_eq!(products(&x, output), alone(output).collect::<Vec<_>>());
            }
            let more = products(&x, Output::Replace).into_iter().map(|it| it + 1.0);
            if is_here() {
                assert_eq!(more.collect::<Vec<_>>(), products(&x, Output::Add));
            }
        }
    }
}
