// y = (x + z) rho without a weight, of rows or of columns: number i of line l stands at l apart_lines + i apart_numbers.
// A group per line; LANES is 1 where a line's numbers stand apart.
struct Norm { lines: u32, width: u32, apart_lines: u32, apart_numbers: u32, epsilon: f32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read> z: array<Stored>;
@group(0) @binding(2) var<storage, read_write> y: array<Stored>;
@group(0) @binding(3) var<storage, read_write> rho: array<f32>;
@group(0) @binding(4) var<uniform> norm: Norm;

@compute @workgroup_size(256)
fn residual_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32,
                 @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32) {
    let place = Place(thread, lane, subgroup, subgroups);
    let packs = norm.width / LANES;
    for (var line = group.x; line < norm.lines; line += groups.x) {
        let start = line * norm.apart_lines / LANES;
        var squares = 0.0;
        for (var i = thread; i < packs; i += THREADS) {
            let at = start + i * norm.apart_numbers;
            let sum = widen(x[at]) + widen(z[at]);
            squares += total(sum * sum);
        }
        let scale = inverseSqrt(group_sum(squares, place) / f32(norm.width) + norm.epsilon);
        if thread == 0 { rho[line] = scale; }
        for (var i = thread; i < packs; i += THREADS) {
            let at = start + i * norm.apart_numbers;
            y[at] = narrow((widen(x[at]) + widen(z[at])) * scale);
        }
    }
}
