// The gradient of what a layer norm got: rho (u - mean of u - n mean of u n), with u = gradient factor and the normalized row n.
// A group per row.
struct NormBack { rows: u32, width: u32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> gradient: array<Stored>;
@group(0) @binding(2) var<storage, read> factor: array<Wide>;
@group(0) @binding(3) var<storage, read> moments: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> dx: array<Stored>;
@group(0) @binding(5) var<uniform> norm: NormBack;

@compute @workgroup_size(256)
fn layer_norm_back(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                   @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                   @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var row = group.x; row < norm.rows; row += groups.x) {
        let start = row * packs;
        let moment = moments[row];
        var sum = 0.0;
        var products = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let u = widen(gradient[start + i]) * factor[i];
            sum += total(u);
            products += total(u * ((widen(x[start + i]) - moment.x) * moment.y));
        }
        let means = group_sums(sum, products, place) / f32(norm.width);
        for (var i = thread; i < packs; i += THREADS) {
            let u = widen(gradient[start + i]) * factor[i];
            let normalized = (widen(x[start + i]) - moment.x) * moment.y;
            dx[start + i] = narrow(moment.y * (u - means.x - normalized * means.y));
        }
    }
}
