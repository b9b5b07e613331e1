// y = f(a) c, number by number.
struct Gated { count: u32, activation: u32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> a: array<Stored>;
@group(0) @binding(1) var<storage, read> c: array<Stored>;
@group(0) @binding(2) var<storage, read_write> y: array<Stored>;
@group(0) @binding(3) var<uniform> sizes: Gated;

@compute @workgroup_size(256)
fn gated(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < sizes.count / LANES; i += groups.x * THREADS) {
        y[i] = narrow(activated(widen(a[i]), sizes.activation) * widen(c[i]));
    }
}
