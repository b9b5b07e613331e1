// Attention of one query for each row and head over its run of keys. A group for each: of some keys at a time a thread finds the
// score of each; then a thread for each vector of the result, in each share of these keys, adds values up. Keys and values stand
// apart as they do in a cache.
struct Next {
    rows: u32, heads: u32, shared_by: u32, width: u32,
    row_apart: u32, token_apart: u32, head_apart: u32, pad0: u32,
    scale: f32, cap: f32, pad1: u32, pad2: u32,
}
@group(0) @binding(0) var<storage, read> q: array<Stored>;
@group(0) @binding(1) var<storage, read> k: array<Stored>;
@group(0) @binding(2) var<storage, read> v: array<Stored>;
@group(0) @binding(3) var<storage, read> runs: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<Stored>;
@group(0) @binding(5) var<uniform> next: Next;

var<workgroup> weights: array<f32, 256>;
var<workgroup> parts: array<Wide, 256>;

fn score(query: u32, key: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < next.width / LANES; i++) { sum += total(widen(q[query + i]) * widen(k[key + i])); }
    let z = sum * next.scale;
    if next.cap > 0.0 { return next.cap * tanh(clamp(z / next.cap, -15.0, 15.0)); }
    return z;
}

@compute @workgroup_size(256)
fn next_attention(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                  @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                  @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = next.width / LANES;
    let shares = THREADS / packs;
    let column = thread % packs;
    let share = thread / packs;
    for (var query = group.x; query < next.rows * next.heads; query += groups.x) {
        let row = query / next.heads;
        let run = runs[row];
        let start = (row * next.row_apart + query % next.heads / next.shared_by * next.head_apart) / LANES;
        var largest = FAR_BELOW;
        var all = 0.0;
        var sum = Wide(0.0);
        for (var first = run.x; first < run.y; first += THREADS) {
            let count = min(run.y - first, THREADS);
            var z = FAR_BELOW;
            if thread < count { z = score(query * packs, start + (first + thread) * next.token_apart / LANES); }
            let here = group_softmax(z, select(0.0, 1.0, thread < count), place);
            let top = max(largest, here.x);
            let kept = exp(largest - top);
            all = all * kept + here.y * exp(here.x - top);
            largest = top;
            weights[thread] = select(0.0, exp(z - top), thread < count);
            workgroupBarrier();
            sum *= kept;
            if share < shares {
                for (var i = share; i < count; i += shares) {
                    sum += weights[i] * widen(v[start + (first + i) * next.token_apart / LANES + column]);
                }
            }
            workgroupBarrier();
        }
        parts[thread] = sum;
        workgroupBarrier();
        if thread < packs {
            var result = Wide(0.0);
            for (var i = 0u; i < shares; i++) { result += parts[i * packs + thread]; }
            y[query * packs + thread] = narrow(result / all);
        }
        workgroupBarrier();
    }
}
