// The gradient of an RMS norm's weight, in parts: part p sums gradient x rho over every so many-th row from row p on.
struct NormWeight { rows: u32, width: u32, parts: u32, pad: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> gradient: array<Stored>;
@group(0) @binding(2) var<storage, read> rho: array<f32>;
@group(0) @binding(3) var<storage, read_write> sums: array<Wide>;
@group(0) @binding(4) var<uniform> norm: NormWeight;

// x: groups of columns; y: parts of the rows.
@compute @workgroup_size(256)
fn rms_norm_weight(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let packs = norm.width / LANES;
    let column = group.x * THREADS + thread;
    if column >= packs { return; }
    var sum = Wide(0.0);
    for (var row = group.y; row < norm.rows; row += norm.parts) {
        let at = row * packs + column;
        sum += widen(gradient[at]) * (widen(x[at]) * rho[row]);
    }
    sums[group.y * packs + column] = sum;
}
