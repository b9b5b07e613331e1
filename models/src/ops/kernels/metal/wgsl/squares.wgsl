// The sums of squares of up to 24 tensors, a part per group. x: parts of a tensor; y: tensors. Those that are missing have no numbers.
struct Squares { counts: array<vec4<u32>, 6> }
@group(0) @binding(0) var<storage, read> x_a: array<Stored>;
@group(0) @binding(1) var<storage, read> x_b: array<Stored>;
@group(0) @binding(2) var<storage, read> x_c: array<Stored>;
@group(0) @binding(3) var<storage, read> x_d: array<Stored>;
@group(0) @binding(4) var<storage, read> x_e: array<Stored>;
@group(0) @binding(5) var<storage, read> x_f: array<Stored>;
@group(0) @binding(6) var<storage, read> x_g: array<Stored>;
@group(0) @binding(7) var<storage, read> x_h: array<Stored>;
@group(0) @binding(8) var<storage, read> x_i: array<Stored>;
@group(0) @binding(9) var<storage, read> x_j: array<Stored>;
@group(0) @binding(10) var<storage, read> x_k: array<Stored>;
@group(0) @binding(11) var<storage, read> x_l: array<Stored>;
@group(0) @binding(12) var<storage, read> x_m: array<Stored>;
@group(0) @binding(13) var<storage, read> x_n: array<Stored>;
@group(0) @binding(14) var<storage, read> x_o: array<Stored>;
@group(0) @binding(15) var<storage, read> x_p: array<Stored>;
@group(0) @binding(16) var<storage, read> x_q: array<Stored>;
@group(0) @binding(17) var<storage, read> x_r: array<Stored>;
@group(0) @binding(18) var<storage, read> x_s: array<Stored>;
@group(0) @binding(19) var<storage, read> x_t: array<Stored>;
@group(0) @binding(20) var<storage, read> x_u: array<Stored>;
@group(0) @binding(21) var<storage, read> x_v: array<Stored>;
@group(0) @binding(22) var<storage, read> x_w: array<Stored>;
@group(0) @binding(23) var<storage, read> x_x: array<Stored>;
@group(0) @binding(24) var<storage, read_write> sums: array<f32>;
@group(0) @binding(25) var<uniform> sizes: Squares;

fn number(tensor: u32, i: u32) -> Stored {
    switch tensor {
        case 0u: { return x_a[i]; }
        case 1u: { return x_b[i]; }
        case 2u: { return x_c[i]; }
        case 3u: { return x_d[i]; }
        case 4u: { return x_e[i]; }
        case 5u: { return x_f[i]; }
        case 6u: { return x_g[i]; }
        case 7u: { return x_h[i]; }
        case 8u: { return x_i[i]; }
        case 9u: { return x_j[i]; }
        case 10u: { return x_k[i]; }
        case 11u: { return x_l[i]; }
        case 12u: { return x_m[i]; }
        case 13u: { return x_n[i]; }
        case 14u: { return x_o[i]; }
        case 15u: { return x_p[i]; }
        case 16u: { return x_q[i]; }
        case 17u: { return x_r[i]; }
        case 18u: { return x_s[i]; }
        case 19u: { return x_t[i]; }
        case 20u: { return x_u[i]; }
        case 21u: { return x_v[i]; }
        case 22u: { return x_w[i]; }
        default: { return x_x[i]; }
    }
}

@compute @workgroup_size(256)
fn squares(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
           @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
           @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let count = sizes.counts[group.y / 4][group.y % 4] / LANES;
    var sum = 0.0;
    for (var i = group.x * THREADS + thread; i < count; i += groups.x * THREADS) {
        let n = widen(number(group.y, i));
        sum += total(n * n);
    }
    let all = group_sum(sum, place);
    if thread == 0 { sums[group.y * groups.x + group.x] = all; }
}
