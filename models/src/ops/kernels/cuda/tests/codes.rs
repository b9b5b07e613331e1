//! Weights in codes become the numbers that they become on the CPU.

use candle_core::{DType, Device};

use super::device;
use crate::ops::{testing::normal, weight::nf4::MakeNf4};

#[test]
#[ignore = "needs a CUDA device"]
fn codes_become_the_numbers_that_they_become_on_the_processor() {
    // In whole packs; blocks across rows that begin in the middle of a byte.
    for (rows, width) in [(70, 64), (5, 33), (3, 47), (300, 576)] {
        let numbers = normal(2, &[rows, width]).to_dtype(DType::F32).unwrap();
        let numbers: Vec<f32> = numbers.flatten_all().unwrap().to_vec1().unwrap();
        for nested in [true, false] {
            let mut made = MakeNf4::new([rows, width]);
            made.push(&numbers);
            let stored = if nested { made.nested() } else { made.plain() };
            let here = stored.clone().on(&Device::Cpu).unwrap();
            let there = stored.on(&device()).unwrap();
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                for part in [0..rows, 1..3, 2..rows] {
                    let [here, there] = [&here, &there].map(|it| {
                        let wide = it.widen(part.clone(), dtype).unwrap();
                        let wide = wide.to_device(&Device::Cpu).unwrap();
                        wide.to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap()
                    });
                    assert!(
                        here == there,
                        "{rows} x {width} {dtype:?} {part:?} {nested}"
                    );
                }
            }
        }
    }
}
