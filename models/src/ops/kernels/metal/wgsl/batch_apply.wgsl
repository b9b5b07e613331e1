// y = f(x factor + shift + z), where z may be missing: then x stands in its place, unread.
struct Apply { count: u32, width: u32, function: u32, has_residual: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> z: array<Stored>;
@group(0) @binding(2) var<storage, read> channels: array<Wide>;
@group(0) @binding(3) var<storage, read_write> y: array<Stored>;
@group(0) @binding(4) var<uniform> apply: Apply;

@compute @workgroup_size(256)
fn batch_apply(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = apply.width / LANES;
    for (var i = id.x; i < apply.count / LANES; i += groups.x * THREADS) {
        let column = i % packs;
        var before = widen(x[i]) * channels[3 * packs + column] + channels[4 * packs + column];
        if apply.has_residual == 1 { before += widen(z[i]); }
        y[i] = narrow(applied(before, apply.function));
    }
}
