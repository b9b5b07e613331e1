// The sum of squares of x, a part per group.
struct Squares { count: u32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;
@group(0) @binding(2) var<uniform> sizes: Squares;

@compute @workgroup_size(256)
fn squares(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
           @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
           @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    var sum = 0.0;
    for (var i = group.x * THREADS + thread; i < sizes.count / LANES; i += groups.x * THREADS) {
        let n = widen(x[i]);
        sum += total(n * n);
    }
    let all = group_sum(sum, place);
    if thread == 0 { sums[group.x] = all; }
}
