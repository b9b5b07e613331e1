// One step of AdamW over up to 12 parameters, whose moments lie in two vectors, each from its start on. All are f32.
// x: groups of numbers; y: parameters. Those that are missing have no numbers.
struct AdamW {
    counts: array<vec4<u32>, 3>, starts: array<vec4<u32>, 3>,
    gradient_scale: f32, beta1: f32, rest1: f32, beta2: f32,
    rest2: f32, epsilon: f32, shrink: f32, rate: f32,
    correction: f32, pad0: u32, pad1: u32, pad2: u32,
}
@group(0) @binding(0) var<storage, read_write> first: array<Wide>;
@group(0) @binding(1) var<storage, read_write> second: array<Wide>;
@group(0) @binding(2) var<storage, read_write> weight_a: array<Wide>;
@group(0) @binding(3) var<storage, read_write> weight_b: array<Wide>;
@group(0) @binding(4) var<storage, read_write> weight_c: array<Wide>;
@group(0) @binding(5) var<storage, read_write> weight_d: array<Wide>;
@group(0) @binding(6) var<storage, read_write> weight_e: array<Wide>;
@group(0) @binding(7) var<storage, read_write> weight_f: array<Wide>;
@group(0) @binding(8) var<storage, read_write> weight_g: array<Wide>;
@group(0) @binding(9) var<storage, read_write> weight_h: array<Wide>;
@group(0) @binding(10) var<storage, read_write> weight_i: array<Wide>;
@group(0) @binding(11) var<storage, read_write> weight_j: array<Wide>;
@group(0) @binding(12) var<storage, read_write> weight_k: array<Wide>;
@group(0) @binding(13) var<storage, read_write> weight_l: array<Wide>;
@group(0) @binding(14) var<storage, read> gradient_a: array<Wide>;
@group(0) @binding(15) var<storage, read> gradient_b: array<Wide>;
@group(0) @binding(16) var<storage, read> gradient_c: array<Wide>;
@group(0) @binding(17) var<storage, read> gradient_d: array<Wide>;
@group(0) @binding(18) var<storage, read> gradient_e: array<Wide>;
@group(0) @binding(19) var<storage, read> gradient_f: array<Wide>;
@group(0) @binding(20) var<storage, read> gradient_g: array<Wide>;
@group(0) @binding(21) var<storage, read> gradient_h: array<Wide>;
@group(0) @binding(22) var<storage, read> gradient_i: array<Wide>;
@group(0) @binding(23) var<storage, read> gradient_j: array<Wide>;
@group(0) @binding(24) var<storage, read> gradient_k: array<Wide>;
@group(0) @binding(25) var<storage, read> gradient_l: array<Wide>;
@group(0) @binding(26) var<uniform> step: AdamW;

fn gradient(parameter: u32, i: u32) -> Wide {
    switch parameter {
        case 0u: { return gradient_a[i]; }
        case 1u: { return gradient_b[i]; }
        case 2u: { return gradient_c[i]; }
        case 3u: { return gradient_d[i]; }
        case 4u: { return gradient_e[i]; }
        case 5u: { return gradient_f[i]; }
        case 6u: { return gradient_g[i]; }
        case 7u: { return gradient_h[i]; }
        case 8u: { return gradient_i[i]; }
        case 9u: { return gradient_j[i]; }
        case 10u: { return gradient_k[i]; }
        default: { return gradient_l[i]; }
    }
}

fn change_weight(parameter: u32, i: u32, change: Wide) {
    switch parameter {
        case 0u: { weight_a[i] = weight_a[i] * step.shrink - change; }
        case 1u: { weight_b[i] = weight_b[i] * step.shrink - change; }
        case 2u: { weight_c[i] = weight_c[i] * step.shrink - change; }
        case 3u: { weight_d[i] = weight_d[i] * step.shrink - change; }
        case 4u: { weight_e[i] = weight_e[i] * step.shrink - change; }
        case 5u: { weight_f[i] = weight_f[i] * step.shrink - change; }
        case 6u: { weight_g[i] = weight_g[i] * step.shrink - change; }
        case 7u: { weight_h[i] = weight_h[i] * step.shrink - change; }
        case 8u: { weight_i[i] = weight_i[i] * step.shrink - change; }
        case 9u: { weight_j[i] = weight_j[i] * step.shrink - change; }
        case 10u: { weight_k[i] = weight_k[i] * step.shrink - change; }
        default: { weight_l[i] = weight_l[i] * step.shrink - change; }
    }
}

@compute @workgroup_size(256)
fn adamw(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
         @builtin(local_invocation_index) thread: u32) {
    let parameter = group.y;
    let count = step.counts[parameter / 4][parameter % 4] / LANES;
    let start = step.starts[parameter / 4][parameter % 4] / LANES;
    for (var i = group.x * THREADS + thread; i < count; i += groups.x * THREADS) {
        let g = gradient(parameter, i) * step.gradient_scale;
        let m = first[start + i] * step.beta1 + g * step.rest1;
        let v = second[start + i] * step.beta2 + g * g * step.rest2;
        first[start + i] = m;
        second[start + i] = v;
        change_weight(parameter, i, m / (sqrt(v) * step.correction + step.epsilon) * step.rate);
    }
}
