// dx = factor u + x slope + offset, and u = g f' itself where there is a residual that wants it.
struct Back { count: u32, width: u32, function: u32, has_residual: u32, wants_u: u32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<storage, read> gradient: array<Stored>;
@group(0) @binding(1) var<storage, read> x: array<Stored>;
@group(0) @binding(2) var<storage, read> z: array<Stored>;
@group(0) @binding(3) var<storage, read> channels: array<Wide>;
@group(0) @binding(4) var<storage, read> slopes: array<Wide>;
@group(0) @binding(5) var<storage, read_write> dx: array<Stored>;
@group(0) @binding(6) var<storage, read_write> u: array<Stored>;
@group(0) @binding(7) var<uniform> back: Back;

@compute @workgroup_size(256)
fn batch_back(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = back.width / LANES;
    for (var i = id.x; i < back.count / LANES; i += groups.x * THREADS) {
        let column = i % packs;
        let number = widen(x[i]);
        let factor = channels[3 * packs + column];
        var before = number * factor + channels[4 * packs + column];
        if back.has_residual == 1 { before += widen(z[i]); }
        let along = widen(gradient[i]) * slope_of(before, back.function);
        if back.wants_u == 1 { u[i] = narrow(along); }
        dx[i] = narrow(along * factor + number * slopes[2 * packs + column] + slopes[3 * packs + column]);
    }
}
