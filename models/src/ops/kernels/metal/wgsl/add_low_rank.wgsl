// y += scale z factor^T in place, of which z [n, r] is thin; and z times the scale besides, which the way back needs. The rows of both
// may be parts of longer ones. A thread has LANES columns of four rows: what it reads of the factor serves all four.
struct LowRank {
    rows: u32, width: u32, rank: u32, scale: f32,
    z_apart: u32, scaled_apart: u32, pad0: u32, pad1: u32,
}
@group(0) @binding(0) var<storage, read> z: array<Stored>;
@group(0) @binding(1) var<storage, read> factor: array<Stored>;
@group(0) @binding(2) var<storage, read_write> y: array<Stored>;
@group(0) @binding(3) var<storage, read_write> scaled: array<Stored>;
@group(0) @binding(4) var<uniform> low: LowRank;

fn add_to(row: u32, column: u32, sum: Wide) {
    if row >= low.rows { return; }
    let packs = low.width / LANES;
    let at = row * packs + column;
    y[at] = narrow(widen(y[at]) + sum * low.scale);
}

// x: groups of columns; y: four rows each.
@compute @workgroup_size(256)
fn add_low_rank(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let deep = low.rank / LANES;
    let first = group.y * 4;
    if group.x == 0 {
        for (var i = thread; i < 4 * deep; i += THREADS) {
            let row = first + i / deep;
            if row >= low.rows { break; }
            let number = widen(z[row * low.z_apart / LANES + i % deep]);
            scaled[row * low.scaled_apart / LANES + i % deep] = narrow(number * low.scale);
        }
    }
    let column = group.x * THREADS + thread;
    if column >= low.width / LANES { return; }
    // Rows beyond the last read the last, and write nothing.
    let last = low.rows - 1;
    let rows = min(vec4<u32>(first, first + 1, first + 2, first + 3), vec4<u32>(last)) * low.z_apart / LANES;
    var sum0 = Wide(0.0);
    var sum1 = Wide(0.0);
    var sum2 = Wide(0.0);
    var sum3 = Wide(0.0);
    for (var k = 0u; k < deep; k++) {
        let part = factor_part(column, k);
        sum0 += times_part(widen(z[rows.x + k]), part);
        sum1 += times_part(widen(z[rows.y + k]), part);
        sum2 += times_part(widen(z[rows.z + k]), part);
        sum3 += times_part(widen(z[rows.w + k]), part);
    }
    add_to(first, column, sum0);
    add_to(first + 1, column, sum1);
    add_to(first + 2, column, sum2);
    add_to(first + 3, column, sum3);
}
