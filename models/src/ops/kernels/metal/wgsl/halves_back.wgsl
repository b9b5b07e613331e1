// y = f(a) c once more, and the gradients of a and c where those stand.
struct Halves { count: u32, inner: u32, activation: u32, pad: u32 }
@group(0) @binding(0) var<storage, read> both: array<Stored>;
@group(0) @binding(1) var<storage, read> gradient: array<Stored>;
@group(0) @binding(2) var<storage, read_write> y: array<Stored>;
@group(0) @binding(3) var<storage, read_write> d_both: array<Stored>;
@group(0) @binding(4) var<uniform> sizes: Halves;

@compute @workgroup_size(256)
fn halves_back(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let inner = sizes.inner / LANES;
    for (var i = id.x; i < sizes.count / LANES; i += groups.x * THREADS) {
        let at = i + i / inner * inner;
        let before = widen(both[at]);
        let after = activated(before, sizes.activation);
        let c = widen(both[at + inner]);
        let g = widen(gradient[i]);
        y[i] = narrow(after * c);
        d_both[at] = narrow(g * c * slope_at(before, sizes.activation));
        d_both[at + inner] = narrow(g * after);
    }
}
