// The gradient of both parts of a sum that was normalized to y: rho (g - y mean of g y). Lines as in `residual_norm`.
struct Norm { lines: u32, width: u32, apart_lines: u32, apart_numbers: u32 }
@group(0) @binding(0) var<storage, read> gradient: array<Stored>;
@group(0) @binding(1) var<storage, read> y: array<Stored>;
@group(0) @binding(2) var<storage, read> rho: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<Stored>;
@group(0) @binding(4) var<uniform> norm: Norm;

@compute @workgroup_size(256)
fn residual_norm_back(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                      @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                      @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var line = group.x; line < norm.lines; line += groups.x) {
        let start = line * norm.apart_lines / LANES;
        var products = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let at = start + i * norm.apart_numbers;
            products += total(widen(gradient[at]) * widen(y[at]));
        }
        let along = group_sum(products, place) / f32(norm.width);
        for (var i = thread; i < packs; i += THREADS) {
            let at = start + i * norm.apart_numbers;
            dx[at] = narrow((widen(gradient[at]) - widen(y[at]) * along) * rho[line]);
        }
    }
}
