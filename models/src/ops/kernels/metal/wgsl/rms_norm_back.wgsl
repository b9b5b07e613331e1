// The gradient of what an RMS norm got: rho (u - x rho^2 mean of u x), with u = gradient factor. A group per row. Where it `adds`, what
// came back around the norm is added.
struct NormBack { rows: u32, width: u32, adds: u32, pad0: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> gradient: array<Stored>;
@group(0) @binding(2) var<storage, read> factor: array<Wide>;
@group(0) @binding(3) var<storage, read> rho: array<f32>;
@group(0) @binding(4) var<storage, read> around: array<Stored>;
@group(0) @binding(5) var<storage, read_write> dx: array<Stored>;
@group(0) @binding(6) var<uniform> norm: NormBack;

@compute @workgroup_size(256)
fn rms_norm_back(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                 @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var row = group.x; row < norm.rows; row += groups.x) {
        let start = row * packs;
        let scale = rho[row];
        var products = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            // Normalized before it is multiplied: squares of large numbers would overflow.
            products += total(widen(gradient[start + i]) * factor[i] * (widen(x[start + i]) * scale));
        }
        let along = group_sum(products, place) / f32(norm.width);
        for (var i = thread; i < packs; i += THREADS) {
            let normalized = widen(x[start + i]) * scale;
            let back = scale * (widen(gradient[start + i]) * factor[i] - normalized * along);
            if (norm.adds == 1u) {
                dx[start + i] = narrow(back + widen(around[start + i]));
            } else {
                dx[start + i] = narrow(back);
            }
        }
    }
}
