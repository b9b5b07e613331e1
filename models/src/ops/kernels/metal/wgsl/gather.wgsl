// Up to 8 tensors in f32, one after the other in one, each from its start on. x: groups of numbers; y: tensors. Those that are
// missing have no numbers.
struct Gather { counts: array<vec4<u32>, 2>, starts: array<vec4<u32>, 2> }
@group(0) @binding(0) var<storage, read> x_a: array<Wide>;
@group(0) @binding(1) var<storage, read> x_b: array<Wide>;
@group(0) @binding(2) var<storage, read> x_c: array<Wide>;
@group(0) @binding(3) var<storage, read> x_d: array<Wide>;
@group(0) @binding(4) var<storage, read> x_e: array<Wide>;
@group(0) @binding(5) var<storage, read> x_f: array<Wide>;
@group(0) @binding(6) var<storage, read> x_g: array<Wide>;
@group(0) @binding(7) var<storage, read> x_h: array<Wide>;
@group(0) @binding(8) var<storage, read_write> all: array<Stored>;
@group(0) @binding(9) var<uniform> sizes: Gather;

fn number(tensor: u32, i: u32) -> Wide {
    switch tensor {
        case 0u: { return x_a[i]; }
        case 1u: { return x_b[i]; }
        case 2u: { return x_c[i]; }
        case 3u: { return x_d[i]; }
        case 4u: { return x_e[i]; }
        case 5u: { return x_f[i]; }
        case 6u: { return x_g[i]; }
        default: { return x_h[i]; }
    }
}

@compute @workgroup_size(256)
fn gather(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
          @builtin(local_invocation_index) thread: u32) {
    let count = sizes.counts[group.y / 4][group.y % 4] / LANES;
    let start = sizes.starts[group.y / 4][group.y % 4] / LANES;
    for (var i = group.x * THREADS + thread; i < count; i += groups.x * THREADS) {
        all[start + i] = narrow(number(group.y, i));
    }
}
