// y = x rho factor, with rho = 1 / sqrt(mean of x^2 + epsilon) of each row. A group per row.
struct Norm { rows: u32, width: u32, epsilon: f32, pad: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> factor: array<Wide>;
@group(0) @binding(2) var<storage, read_write> y: array<Stored>;
@group(0) @binding(3) var<storage, read_write> rho: array<f32>;
@group(0) @binding(4) var<uniform> norm: Norm;

@compute @workgroup_size(256)
fn rms_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
            @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var row = group.x; row < norm.rows; row += groups.x) {
        let start = row * packs;
        var squares = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let a = widen(x[start + i]);
            squares += total(a * a);
        }
        let scale = inverseSqrt(group_sum(squares, place) / f32(norm.width) + norm.epsilon);
        if thread == 0 { rho[row] = scale; }
        for (var i = thread; i < packs; i += THREADS) {
            y[start + i] = narrow(widen(x[start + i]) * scale * factor[i]);
        }
    }
}
