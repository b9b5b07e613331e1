// Rows of logits -> the loss of each, and the gradient of the logits in their place. A group per row. A row without a target has
// no loss and no gradient.
struct Entropy { rows: u32, vocabulary: u32, share: f32, cap: f32 }
const NO_TARGET: u32 = 0xffffffff;
@group(0) @binding(0) var<storage, read_write> logits: array<Stored>;
@group(0) @binding(1) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read_write> losses: array<f32>;
@group(0) @binding(3) var<uniform> entropy: Entropy;

fn logit(x: Stored) -> Wide {
    let z = widen(x);
    if entropy.cap > 0.0 { return squeezed(z, entropy.cap); }
    return z;
}

@compute @workgroup_size(256)
fn cross_entropy(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                 @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = entropy.vocabulary / LANES;
    for (var row = group.x; row < entropy.rows; row += groups.x) {
        let start = row * packs;
        let goal = targets[row];
        var largest = FAR_BELOW;
        var sum = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let z = logit(logits[start + i]);
            let top = max(largest, largest_of(z));
            sum = sum * exp(largest - top) + total(exp(z - top));
            largest = top;
        }
        let all = group_softmax(largest, sum, place);
        let offset = all.x + log(all.y);
        let share = select(entropy.share, 0.0, goal == NO_TARGET);
        if goal == NO_TARGET {
            if thread == 0 { losses[row] = 0.0; }
        }
        // The loss is taken by the thread that will write over the target's logit.
        for (var i = thread; i < packs; i += THREADS) {
            let z = logit(logits[start + i]);
            let hit = select(Wide(0.0), Wide(1.0), indices(i * LANES) == splat(goal));
            if i == goal / LANES { losses[row] = offset - total(z * hit); }
            var d = (exp(z - offset) - hit) * share;
            if entropy.cap > 0.0 { d *= 1.0 - (z / entropy.cap) * (z / entropy.cap); }
            logits[start + i] = narrow(d);
        }
    }
}
