// Scores of few classes -> the loss of each row, and the gradient of its scores in f32. A thread per row, whose numbers lie side by
// side. With smoothing, a class is meant with 1 - smoothing, and each of them with a share of the rest.
const SOFTMAX: u32 = 1;
struct Classes { rows: u32, width: u32, squash: u32, smoothing: f32 }
@group(0) @binding(0) var<storage, read> scores: array<Stored>;
@group(0) @binding(1) var<storage, read> classes: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> losses: array<f32>;
@group(0) @binding(4) var<storage, read_write> gradient: array<Wide>;
@group(0) @binding(5) var<uniform> sizes: Classes;

// How far each class is meant.
fn meant(at: u32, goal: u32) -> Wide {
    let rest = Wide(sizes.smoothing / f32(sizes.width));
    return select(rest, rest + (1.0 - sizes.smoothing), indices(at * LANES) == splat(goal));
}

@compute @workgroup_size(256)
fn classify(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = sizes.width / LANES;
    let softmax = sizes.squash == SOFTMAX;
    for (var row = id.x; row < sizes.rows; row += groups.x * THREADS) {
        let start = row * packs;
        let goal = classes[row];
        var largest = FAR_BELOW;
        if softmax {
            for (var i = 0u; i < packs; i++) { largest = max(largest, largest_of(widen(scores[start + i]))); }
        }
        var sum = 0.0;
        var along = 0.0;
        for (var i = 0u; i < packs; i++) {
            let x = widen(scores[start + i]);
            let size = 1.0 + abs(x);
            let far = x - largest;
            let up = x >= Wide(0.0);
            let stable = select(1.0 / size, size, up);
            let logarithm = select(-log(size), log(size), up);
            sum += total(select(stable, exp(far), softmax));
            along += total(meant(i, goal) * select(logarithm, far, softmax));
        }
        let weight = weights[row];
        losses[row] = (log(sum) - along) * weight;
        for (var i = 0u; i < packs; i++) {
            let x = widen(scores[start + i]);
            let inverse = 1.0 / (1.0 + abs(x));
            let rise = select(inverse * inverse, Wide(1.0), x >= Wide(0.0));
            let share = select(rise, exp(x - largest), softmax) / sum;
            let slope = select(inverse, Wide(1.0), softmax);
            gradient[start + i] = (share - meant(i, goal) * slope) * weight;
        }
    }
}
