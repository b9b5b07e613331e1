// Turns heads by the angles of their tokens: number i of a head with number i + `half`, and copies what is beyond both. Input and
// output have tokens and heads in any order, told by distances in numbers.
struct Rope {
    count: u32, tokens: u32, heads: u32, width: u32,
    half: u32, places: u32, direction: f32, pad0: u32,
    from_row: u32, from_token: u32, from_head: u32, pad1: u32,
    to_row: u32, to_token: u32, to_head: u32, pad2: u32,
}
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> cosines: array<Wide>;
@group(0) @binding(2) var<storage, read> sines: array<Wide>;
@group(0) @binding(3) var<storage, read_write> y: array<Stored>;
@group(0) @binding(4) var<uniform> rope: Rope;

// `count` is that of the numbers, less those that are turned as the second of a pair.
@compute @workgroup_size(256)
fn rotate(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let half = rope.half / LANES;
    let each = rope.width / LANES - half;
    for (var at = id.x; at < rope.count / LANES; at += groups.x * THREADS) {
        let i = at % each;
        let head = at / each % rope.heads;
        let token = at / each / rope.heads % rope.tokens;
        let row = at / each / rope.heads / rope.tokens;
        let first = (row * rope.from_row + token * rope.from_token + head * rope.from_head) / LANES;
        let goal = (row * rope.to_row + token * rope.to_token + head * rope.to_head) / LANES;
        if i >= half {
            y[goal + half + i] = x[first + half + i];
            continue;
        }
        // One table for all rows of a batch, or one for each.
        let angle = (row * rope.tokens + token) % rope.places * half + i;
        let c = cosines[angle];
        let s = sines[angle] * rope.direction;
        let a = widen(x[first + i]);
        let b = widen(x[first + half + i]);
        y[goal + i] = narrow(a * c - b * s);
        y[goal + half + i] = narrow(b * c + a * s);
    }
}
