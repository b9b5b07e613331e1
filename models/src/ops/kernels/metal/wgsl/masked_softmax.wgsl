// Scores [b, h, t, s] -> weights in their place, each query over its run of keys. A group per query and head.
struct Softmax { rows: u32, heads: u32, tokens: u32, keys: u32, scale: f32, cap: f32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read_write> scores: array<Stored>;
@group(0) @binding(1) var<storage, read> runs: array<vec2<u32>>;
@group(0) @binding(2) var<uniform> softmax: Softmax;

fn scored(x: Stored) -> Wide {
    let z = widen(x) * softmax.scale;
    if softmax.cap > 0.0 { return squeezed(z, softmax.cap); }
    return z;
}

@compute @workgroup_size(256)
fn masked_softmax(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                  @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                  @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = softmax.keys / LANES;
    for (var row = group.x; row < softmax.rows; row += groups.x) {
        let start = row * packs;
        let run = runs[row / (softmax.heads * softmax.tokens) * softmax.tokens + row % softmax.tokens];
        var largest = FAR_BELOW;
        var sum = 0.0;
        for (var i = run.x / LANES + thread; i * LANES < run.y; i += THREADS) {
            let key = indices(i * LANES);
            let seen = (key >= splat(run.x)) & (key < splat(run.y));
            let z = select(Wide(FAR_BELOW), scored(scores[start + i]), seen);
            let top = max(largest, largest_of(z));
            sum = sum * exp(largest - top) + total(select(Wide(0.0), exp(z - top), seen));
            largest = top;
        }
        let all = group_softmax(largest, sum, place);
        for (var i = thread; i < packs; i += THREADS) {
            let key = indices(i * LANES);
            let seen = (key >= splat(run.x)) & (key < splat(run.y));
            // What is not seen may be far above what is: it must not overflow before it is left out.
            let p = exp(min(scored(scores[start + i]) - all.x, Wide(0.0))) / all.y;
            scores[start + i] = narrow(select(Wide(0.0), p, seen));
        }
    }
}
