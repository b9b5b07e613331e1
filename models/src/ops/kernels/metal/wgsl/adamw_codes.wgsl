// One step of AdamW over a parameter whose moments are codes of 8 bits, relative to the largest of a block of 256. A group per block,
// a thread per number. `tables` are the values of the codes of first moments and the middles between them, and those of second ones.
// All numbers are f32, one at a time, in every storage.
struct AdamW {
    count: u32,
    gradient_scale: f32, beta1: f32, rest1: f32, beta2: f32,
    rest2: f32, epsilon: f32, shrink: f32, rate: f32,
    correction: f32, pad0: u32, pad1: u32,
}
@group(0) @binding(0) var<storage, read_write> weight: array<f32>;
@group(0) @binding(1) var<storage, read> gradient: array<f32>;
@group(0) @binding(2) var<storage, read_write> first: array<u32>;
@group(0) @binding(3) var<storage, read_write> first_largest: array<f32>;
@group(0) @binding(4) var<storage, read_write> second: array<u32>;
@group(0) @binding(5) var<storage, read_write> second_largest: array<f32>;
@group(0) @binding(6) var<storage, read> tables: array<f32>;
@group(0) @binding(7) var<uniform> step: AdamW;

const TABLE: u32 = 256;
var<workgroup> codes: array<vec2<u32>, 256>;
var<workgroup> largest_of_subgroup: array<vec2<f32>, 64>;

// The code of the nearest value of the table at `start`, whose middles follow it.
fn nearest(number: f32, start: u32) -> u32 {
    var code = 0u;
    for (var half = 128u; half > 0; half /= 2) {
        if tables[start + TABLE + code + half - 1] < number { code += half; }
    }
    return code;
}

// What a number is divided by: the largest, unless all are 0.
fn divisor(largest: f32) -> f32 { return select(largest, 1.0, largest == 0.0); }

// Four codes as they lie in memory.
fn packed_codes(at: u32, moment: u32) -> u32 {
    return codes[at][moment] | (codes[at + 1][moment] << 8) | (codes[at + 2][moment] << 16) | (codes[at + 3][moment] << 24);
}

@compute @workgroup_size(256)
fn adamw_codes(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
               @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
               @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    for (var block = group.x; block * THREADS < step.count; block += groups.x) {
        let i = block * THREADS + thread;
        let is_there = i < step.count;
        let was = vec2<u32>(first[i / 4] >> (i % 4 * 8), second[i / 4] >> (i % 4 * 8)) & vec2<u32>(255);
        var m = 0.0;
        var v = 0.0;
        if is_there {
            let g = gradient[i] * step.gradient_scale;
            m = tables[was.x] * first_largest[block] * step.beta1 + g * step.rest1;
            v = tables[2 * TABLE + was.y] * second_largest[block] * step.beta2 + g * g * step.rest2;
            weight[i] = weight[i] * step.shrink - m / (sqrt(v) * step.correction + step.epsilon) * step.rate;
        }
        let of_subgroup_here = vec2<f32>(subgroupMax(abs(m)), subgroupMax(v));
        workgroupBarrier();
        if lane == 0 { largest_of_subgroup[subgroup] = of_subgroup_here; }
        workgroupBarrier();
        var largest = vec2<f32>(0.0);
        for (var at = 0u; at < subgroups; at++) { largest = max(largest, largest_of_subgroup[at]); }
        // What lies behind the last weight stays. A second moment above 0 never becomes 0.
        let now = vec2<u32>(nearest(m / divisor(largest.x), 0),
                            max(nearest(v / divisor(largest.y), 2 * TABLE), select(0u, 1u, v > 0.0)));
        codes[thread] = select(was, now, is_there);
        workgroupBarrier();
        if thread < THREADS / 4 {
            first[block * THREADS / 4 + thread] = packed_codes(4 * thread, 0);
            second[block * THREADS / 4 + thread] = packed_codes(4 * thread, 1);
        }
        if thread == 0 {
            first_largest[block] = largest.x;
            second_largest[block] = largest.y;
        }
    }
}
