// y = f(a) c of lines in which a stands before c, `inner` numbers each.
struct Halves { count: u32, inner: u32, activation: u32, pad: u32 }
@group(0) @binding(0) var<storage, read> both: array<Stored>;
@group(0) @binding(1) var<storage, read_write> y: array<Stored>;
@group(0) @binding(2) var<uniform> sizes: Halves;

@compute @workgroup_size(256)
fn halves(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let inner = sizes.inner / LANES;
    for (var i = id.x; i < sizes.count / LANES; i += groups.x * THREADS) {
        let at = i + i / inner * inner;
        y[i] = narrow(activated(widen(both[at]), sizes.activation) * widen(both[at + inner]));
    }
}
