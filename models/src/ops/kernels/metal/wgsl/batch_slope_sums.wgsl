// For each channel, the sums of u = g f' and of u (x - mean), in parts of the rows as `batch_sums` has them.
struct Batch { rows: u32, width: u32, parts: u32, across: u32, function: u32, has_residual: u32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> gradient: array<Stored>;
@group(0) @binding(1) var<storage, read> x: array<Stored>;
@group(0) @binding(2) var<storage, read> z: array<Stored>;
@group(0) @binding(3) var<storage, read> channels: array<Wide>;
@group(0) @binding(4) var<storage, read_write> sums: array<Wide>;
@group(0) @binding(5) var<uniform> batch: Batch;

// x: groups of channels; y: parts of the rows.
@compute @workgroup_size(256)
fn batch_slope_sums(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let packs = batch.width / LANES;
    let lane = lane_of(group.x, thread, batch.across);
    var own = Sums(Wide(0.0), Wide(0.0));
    if lane.column < packs {
        let mean = channels[lane.column];
        let factor = channels[3 * packs + lane.column];
        let shift = channels[4 * packs + lane.column];
        for (var row = group.y * lane.lines + lane.line; row < batch.rows; row += batch.parts * lane.lines) {
            let at = row * packs + lane.column;
            let number = widen(x[at]);
            var before = number * factor + shift;
            if batch.has_residual == 1 { before += widen(z[at]); }
            let u = widen(gradient[at]) * slope_of(before, batch.function);
            own.a += u;
            own.b += u * (number - mean);
        }
    }
    let all = over_lines(own, thread, batch.across);
    if lane.line == 0 && lane.column < packs {
        sums[group.y * packs + lane.column] = all.a;
        sums[(batch.parts + group.y) * packs + lane.column] = all.b;
    }
}
