// Numbers in NF4: two codes a byte, the first in the upper half, times the scale of their block. That is an f32, or, where scales
// are in codes themselves, the value of its code times the largest of its group, and what all have in common. `first` is the number
// that comes out first, a multiple of the lanes; `pairs` are the two numbers of each byte.
struct Nf4 { count: u32, first: u32, block: u32, scales_of_group: u32, offset: f32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<storage, read> codes: array<u32>;
@group(0) @binding(1) var<storage, read> pairs: array<f32>;
@group(0) @binding(2) var<storage, read> scale_codes: array<u32>;
@group(0) @binding(3) var<storage, read> scale_values: array<f32>;
@group(0) @binding(4) var<storage, read> largest: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<Stored>;
@group(0) @binding(6) var<uniform> sizes: Nf4;

fn value_of(number: u32) -> f32 {
    let byte = (codes[number / 8] >> (number / 2 % 4 * 8)) & 255;
    let value = pairs[byte * 2 + number % 2];
    let block = number / sizes.block;
    if sizes.scales_of_group == 0 { return value * largest[block]; }
    let scale = scale_values[(scale_codes[block / 4] >> (block % 4 * 8)) & 255];
    return value * (scale * largest[block / sizes.scales_of_group] + sizes.offset);
}

@compute @workgroup_size(256)
fn widen_codes(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < sizes.count / LANES; i += groups.x * THREADS) {
        y[i] = narrow(values_from(sizes.first + i * LANES));
    }
}
