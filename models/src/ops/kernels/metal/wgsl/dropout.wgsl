// y = x where the bits of a number's place reach the threshold, times `kept`, and 0 elsewhere.
struct Dropout { count: u32, low: u32, high: u32, threshold: u32, kept: f32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read_write> y: array<Stored>;
@group(0) @binding(2) var<uniform> mask: Dropout;

// Wellons' mixing of 32 bits.
fn mixed(bits: Index) -> Index {
    let first = (bits ^ (bits >> splat(16))) * splat(0x7feb352d);
    let second = (first ^ (first >> splat(15))) * splat(0x846ca68b);
    return second ^ (second >> splat(16));
}

@compute @workgroup_size(256)
fn dropout(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < mask.count / LANES; i += groups.x * THREADS) {
        let bits = mixed(mixed(indices(i * LANES) ^ splat(mask.low)) + splat(mask.high));
        y[i] = narrow(select(Wide(0.0), widen(x[i]) * mask.kept, bits >= splat(mask.threshold)));
    }
}
