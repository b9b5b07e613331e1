// The gradient of a table: row v is the sum of those gradients whose token is v. `order` has the places of the gradients by
// token, `starts` where each token's begin in it, and one more for the end. A group per row of the table; all rows are written.
struct Rows { vocabulary: u32, width: u32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> gradient: array<Stored>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read_write> sums: array<Stored>;
@group(0) @binding(4) var<uniform> sizes: Rows;

@compute @workgroup_size(256)
fn add_rows(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(local_invocation_index) thread: u32) {
    let packs = sizes.width / LANES;
    for (var token = group.x; token < sizes.vocabulary; token += groups.x) {
        let first = starts[token];
        let last = starts[token + 1];
        for (var i = thread; i < packs; i += THREADS) {
            var sum = Wide(0.0);
            for (var at = first; at < last; at++) { sum += widen(gradient[order[at] * packs + i]); }
            sums[token * packs + i] = narrow(sum);
        }
    }
}
