//! How near kernels come to the bandwidth of a device's memory: bytes they have to touch, per second.

use crate::{check::committed, device::Gpu};

/// One storage a process: figures of a second one in the same process are spoilt by how memory was given out before.
///
/// Errors: the driver's words.
pub fn all(gpu: &Gpu, storage: &str) -> Result<(), String> {
    println!("{}", gpu.name);
    let size = if storage.starts_with("f32") { 4 } else { 2 };
    let (rows, width) = (16_384usize, 2_048usize);
    let n = rows * width;
    let [r, w, c] = [rows as u32, width as u32, n as u32];
    let small = 1e-5f32.to_bits();
    // Each slot by its bytes, then the values.
    let (numbers, wide) = (|count: usize| count * size, |count: usize| count * 4);
    let show = |kernel: &str, slots: &[usize], values: &[u32], groups: [u32; 2], bytes: usize| {
        show(gpu, [kernel, storage], slots, values, groups, bytes)
    };
    let slots = [numbers(n), wide(width), numbers(n), wide(rows)];
    show("rms_norm", &slots, &[r, w, small, 0], [r, 1], 2 * n * size)?;
    let slots = [n, n].map(numbers).into_iter().chain([wide(width), wide(rows)]);
    let slots: Vec<usize> = slots.chain([n, n].map(numbers)).collect();
    show("rms_norm_back", &slots, &[r, w, 1, 0], [r, 1], 4 * n * size)?;
    show(
        "gated",
        &[numbers(n); 3],
        &[c, 0, 0, 0],
        [c / 1024, 1],
        3 * n * size,
    )?;
    show(
        "gated_back",
        &[numbers(n); 5],
        &[c, 0, 0, 0],
        [c / 1024, 1],
        5 * n * size,
    )?;
    let (v, r) = (49_152usize, 682usize);
    let slots = [numbers(v * r), wide(r), wide(r)];
    show(
        "cross_entropy",
        &slots,
        &[r as u32, v as u32, 1f32.to_bits(), 0],
        [r as u32, 1],
        3 * v * r * size,
    )?;
    let (rows, rank) = (16_384, 16);
    let [deep, one] = [rank as u32, 1f32.to_bits()];
    let values = [rows as u32, w, deep, one, deep, deep, 0, 0];
    let slots = [
        numbers(rows * rank),
        numbers(width * rank),
        numbers(n),
        numbers(rows * rank),
    ];
    show(
        "add_low_rank",
        &slots,
        &values,
        [2, rows as u32 / 4],
        2 * n * size,
    )?;
    let half = 0.5f32.to_bits();
    // One parameter of all that a launch may take.
    let mut values = [0; 36];
    values[0] = c;
    values[24..33].fill(half);
    let mut slots = [wide(4); 26];
    for at in [0, 1, 2, 14] {
        slots[at] = wide(n);
    }
    show("adamw", &slots, &values, [16_384, 1], 7 * n * 4)
}

/// Times one kernel, whose slots have so many bytes.
fn show(
    gpu: &Gpu,
    [kernel, storage]: [&str; 2],
    slots: &[usize],
    values: &[u32],
    groups: [u32; 2],
    bytes: usize,
) -> Result<(), String> {
    let mut bound: Vec<_> = slots
        .iter()
        .map(|it| gpu.buffer(&vec![0x3c; *it]))
        .collect();
    let values: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    bound.push(gpu.values(&values));
    let pipeline = gpu.pipeline(&committed(kernel, storage));
    gpu.dispatch(&pipeline, &bound, groups, 3)?;
    let seconds = gpu.dispatch(&pipeline, &bound, groups, 30)?;
    println!(
        "{storage:7} {kernel:20} {:9.1} us {:7.0} GB/s",
        seconds * 1e6,
        bytes as f64 / seconds / 1e9
    );
    Ok(())
}
