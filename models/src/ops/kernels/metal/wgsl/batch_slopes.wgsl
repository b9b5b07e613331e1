// The gradients of bias and weight, and slope and offset of what mean and variance add to dx, from the parts of `batch_slope_sums`.
// The latter are 0 where mean and variance are not those of the batch. All are f32.
struct Batch { rows: u32, width: u32, parts: u32, of_batch: u32 }
@group(0) @binding(0) var<storage, read> sums: array<Wide>;
@group(0) @binding(1) var<storage, read> channels: array<Wide>;
@group(0) @binding(2) var<storage, read_write> slopes: array<Wide>;
@group(0) @binding(3) var<uniform> batch: Batch;

@compute @workgroup_size(256)
fn batch_slopes(@builtin(global_invocation_id) id: vec3<u32>) {
    let packs = batch.width / LANES;
    let at = id.x;
    if at >= packs { return; }
    var sum = Wide(0.0);
    var along = Wide(0.0);
    for (var part = 0u; part < batch.parts; part++) {
        sum += sums[part * packs + at];
        along += sums[(batch.parts + part) * packs + at];
    }
    let rho = channels[2 * packs + at];
    let factor = channels[3 * packs + at];
    let dw = along * rho;
    let share = select(0.0, -1.0 / f32(batch.rows), batch.of_batch == 1);
    let slope = factor * rho * dw * share;
    slopes[at] = sum;
    slopes[packs + at] = dw;
    slopes[2 * packs + at] = slope;
    slopes[3 * packs + at] = factor * sum * share - slope * channels[at];
}
