// One step of AdamW over weights that lie end to end. All of them, and their state, are f32.
struct AdamW {
    count: u32, gradient_scale: f32, beta1: f32, rest1: f32,
    beta2: f32, rest2: f32, epsilon: f32, shrink: f32,
    rate: f32, correction: f32, pad0: u32, pad1: u32,
}
@group(0) @binding(0) var<storage, read_write> weight: array<Wide>;
@group(0) @binding(1) var<storage, read_write> first: array<Wide>;
@group(0) @binding(2) var<storage, read_write> second: array<Wide>;
@group(0) @binding(3) var<storage, read> gradient: array<Wide>;
@group(0) @binding(4) var<uniform> step: AdamW;

@compute @workgroup_size(256)
fn adamw(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < step.count / LANES; i += groups.x * THREADS) {
        let g = gradient[i] * step.gradient_scale;
        let m = first[i] * step.beta1 + g * step.rest1;
        let v = second[i] * step.beta2 + g * g * step.rest2;
        first[i] = m;
        second[i] = v;
        weight[i] = weight[i] * step.shrink - m / (sqrt(v) * step.correction + step.epsilon) * step.rate;
    }
}
