// y = (x - mean) rho factor + bias of each row. The mean is taken first, so numbers far from zero lose nothing. A group per row.
struct Norm { rows: u32, width: u32, epsilon: f32, pad: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> factor: array<Wide>;
@group(0) @binding(2) var<storage, read> bias: array<Wide>;
@group(0) @binding(3) var<storage, read_write> y: array<Stored>;
// Mean and rho of each row.
@group(0) @binding(4) var<storage, read_write> moments: array<vec2<f32>>;
@group(0) @binding(5) var<uniform> norm: Norm;

@compute @workgroup_size(256)
fn layer_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
              @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
              @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var row = group.x; row < norm.rows; row += groups.x) {
        let start = row * packs;
        var sum = 0.0;
        for (var i = thread; i < packs; i += THREADS) { sum += total(widen(x[start + i])); }
        let mean = group_sum(sum, place) / f32(norm.width);
        var squares = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let a = widen(x[start + i]) - mean;
            squares += total(a * a);
        }
        let scale = inverseSqrt(group_sum(squares, place) / f32(norm.width) + norm.epsilon);
        if thread == 0 { moments[row] = vec2<f32>(mean, scale); }
        for (var i = thread; i < packs; i += THREADS) {
            y[start + i] = narrow((widen(x[start + i]) - mean) * scale * factor[i] + bias[i]);
        }
    }
}
