// What the kernels of batch norm share: numbers of channels as rows of `width` (mean, variance, rho, factor and shift), what is
// applied to what was normalized, and sums of two numbers over the lines of a group.
const NO_FUNCTION: u32 = 4;
var<workgroup> of_lines: array<Wide, 512>;

fn applied(x: Wide, function: u32) -> Wide {
    if function == NO_FUNCTION { return x; }
    return activated(x, function);
}

fn slope_of(x: Wide, function: u32) -> Wide {
    if function == NO_FUNCTION { return Wide(1.0); }
    return slope_at(x, function);
}

// Which channels a thread has, and in which rows: `across` threads side by side take a pack each, and the next as many the row
// that follows.
struct Lane { column: u32, line: u32, lines: u32 }

fn lane_of(group: u32, thread: u32, across: u32) -> Lane {
    return Lane(group * across + thread % across, thread / across, THREADS / across);
}

struct Sums { a: Wide, b: Wide }

// The sums over the lines, for the threads of line 0.
fn over_lines(sums: Sums, thread: u32, across: u32) -> Sums {
    of_lines[thread] = sums.a;
    of_lines[THREADS + thread] = sums.b;
    workgroupBarrier();
    var all = Sums(Wide(0.0), Wide(0.0));
    for (var at = thread % across; at < THREADS; at += across) {
        all.a += of_lines[at];
        all.b += of_lines[THREADS + at];
    }
    return all;
}
