// Gradients of attention's weights -> those of the products of queries and keys, in their place. A group per query and head.
// Without a cap the scores aren't read.
struct SoftmaxBack { rows: u32, keys: u32, scale: f32, cap: f32 }
@group(0) @binding(0) var<storage, read> weights: array<Stored>;
@group(0) @binding(1) var<storage, read> scores: array<Stored>;
@group(0) @binding(2) var<storage, read_write> gradient: array<Stored>;
@group(0) @binding(3) var<uniform> softmax: SoftmaxBack;

@compute @workgroup_size(256)
fn masked_softmax_back(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                       @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                       @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = softmax.keys / LANES;
    for (var row = group.x; row < softmax.rows; row += groups.x) {
        let start = row * packs;
        var products = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            products += total(widen(weights[start + i]) * widen(gradient[start + i]));
        }
        let along = group_sum(products, place);
        for (var i = thread; i < packs; i += THREADS) {
            var d = widen(weights[start + i]) * (widen(gradient[start + i]) - along) * softmax.scale;
            if softmax.cap > 0.0 {
                let share = squeezed(widen(scores[start + i]) * softmax.scale, softmax.cap) / softmax.cap;
                d *= 1.0 - share * share;
            }
            gradient[start + i] = narrow(d);
        }
    }
}
