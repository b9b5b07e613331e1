// The gradients of y = f(a) c.
struct Gated { count: u32, activation: u32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> a: array<Stored>;
@group(0) @binding(1) var<storage, read> c: array<Stored>;
@group(0) @binding(2) var<storage, read> gradient: array<Stored>;
@group(0) @binding(3) var<storage, read_write> da: array<Stored>;
@group(0) @binding(4) var<storage, read_write> dc: array<Stored>;
@group(0) @binding(5) var<uniform> sizes: Gated;

@compute @workgroup_size(256)
fn gated_back(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < sizes.count / LANES; i += groups.x * THREADS) {
        let before = widen(a[i]);
        let g = widen(gradient[i]);
        da[i] = narrow(g * widen(c[i]) * slope_at(before, sizes.activation));
        dc[i] = narrow(g * activated(before, sizes.activation));
    }
}
