// For each channel, the sums of how far its numbers are from that of the first row, and of the squares of that: in parts of the
// rows, [2, parts, width].
struct Batch { rows: u32, width: u32, parts: u32, across: u32 }
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read_write> sums: array<Wide>;
@group(0) @binding(2) var<uniform> batch: Batch;

// x: groups of channels; y: parts of the rows.
@compute @workgroup_size(256)
fn batch_sums(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let packs = batch.width / LANES;
    let lane = lane_of(group.x, thread, batch.across);
    var own = Sums(Wide(0.0), Wide(0.0));
    if lane.column < packs {
        let first = widen(x[lane.column]);
        for (var row = group.y * lane.lines + lane.line; row < batch.rows; row += batch.parts * lane.lines) {
            let far = widen(x[row * packs + lane.column]) - first;
            own.a += far;
            own.b += far * far;
        }
    }
    let all = over_lines(own, thread, batch.across);
    if lane.line == 0 && lane.column < packs {
        sums[group.y * packs + lane.column] = all.a;
        sums[(batch.parts + group.y) * packs + lane.column] = all.b;
    }
}
