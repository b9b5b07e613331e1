// Mean, variance, rho, factor w rho and shift e - mean factor of each channel, from the parts of `batch_sums`.
struct Batch { rows: u32, width: u32, parts: u32, epsilon: f32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> sums: array<Wide>;
@group(0) @binding(2) var<storage, read> weight: array<Wide>;
@group(0) @binding(3) var<storage, read> bias: array<Wide>;
@group(0) @binding(4) var<storage, read_write> channels: array<Wide>;
@group(0) @binding(5) var<uniform> batch: Batch;

@compute @workgroup_size(256)
fn batch_channels(@builtin(global_invocation_id) id: vec3<u32>) {
    let packs = batch.width / LANES;
    let at = id.x;
    if at >= packs { return; }
    var far = Wide(0.0);
    var squares = Wide(0.0);
    for (var part = 0u; part < batch.parts; part++) {
        far += sums[part * packs + at];
        squares += sums[(batch.parts + part) * packs + at];
    }
    let from_first = far / f32(batch.rows);
    let variance = max(squares / f32(batch.rows) - from_first * from_first, Wide(0.0));
    let mean = widen(x[at]) + from_first;
    let rho = inverseSqrt(variance + batch.epsilon);
    let factor = weight[at] * rho;
    channels[at] = mean;
    channels[packs + at] = variance;
    channels[2 * packs + at] = rho;
    channels[3 * packs + at] = factor;
    channels[4 * packs + at] = bias[at] - mean * factor;
}
