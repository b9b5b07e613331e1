// The gradients of a layer norm's weight and bias, in parts, as `rms_norm_weight` has them.
struct NormWeight { rows: u32, width: u32, parts: u32, pad: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> gradient: array<Stored>;
@group(0) @binding(2) var<storage, read> moments: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> weight_sums: array<Wide>;
@group(0) @binding(4) var<storage, read_write> bias_sums: array<Wide>;
@group(0) @binding(5) var<uniform> norm: NormWeight;

// x: groups of columns; y: parts of the rows.
@compute @workgroup_size(256)
fn layer_norm_weight(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let packs = norm.width / LANES;
    let column = group.x * THREADS + thread;
    if column >= packs { return; }
    var of_weight = Wide(0.0);
    var of_bias = Wide(0.0);
    for (var row = group.y; row < norm.rows; row += norm.parts) {
        let at = row * packs + column;
        let moment = moments[row];
        let g = widen(gradient[at]);
        of_weight += g * ((widen(x[at]) - moment.x) * moment.y);
        of_bias += g;
    }
    weight_sums[group.y * packs + column] = of_weight;
    bias_sums[group.y * packs + column] = of_bias;
}
