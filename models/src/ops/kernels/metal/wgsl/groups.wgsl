// What a group of threads finds together: sums, and largest numbers with sums of exponentials. The order is fixed, so a
// result has the same bits every time. Right for subgroups of any size from 4 threads on.
const THREADS: u32 = 256;
// Far below any score, and yet a number: no device turns it into what is none.
const FAR_BELOW: f32 = -3.0e38;
var<workgroup> of_subgroup: array<vec2<f32>, 64>;

// Which thread this is, within its subgroup and within its group.
struct Place { thread: u32, lane: u32, subgroup: u32, subgroups: u32 }

fn group_sum(value: f32, place: Place) -> f32 {
    let sum = subgroupAdd(value);
    // Sums of the call before may still be read.
    workgroupBarrier();
    if place.lane == 0 { of_subgroup[place.subgroup].x = sum; }
    workgroupBarrier();
    var all = 0.0;
    for (var i = 0u; i < place.subgroups; i++) { all += of_subgroup[i].x; }
    return all;
}

// Two sums at once.
fn group_sums(a: f32, b: f32, place: Place) -> vec2<f32> {
    let sums = vec2<f32>(subgroupAdd(a), subgroupAdd(b));
    workgroupBarrier();
    if place.lane == 0 { of_subgroup[place.subgroup] = sums; }
    workgroupBarrier();
    var all = vec2<f32>(0.0);
    for (var i = 0u; i < place.subgroups; i++) { all += of_subgroup[i]; }
    return all;
}

// The largest of all, and the sum of exponentials relative to it, from those of each thread.
fn group_softmax(largest: f32, sum: f32, place: Place) -> vec2<f32> {
    let most = subgroupMax(largest);
    let share = subgroupAdd(sum * exp(largest - most));
    workgroupBarrier();
    if place.lane == 0 { of_subgroup[place.subgroup] = vec2<f32>(most, share); }
    workgroupBarrier();
    var all = of_subgroup[0];
    for (var i = 1u; i < place.subgroups; i++) {
        let other = of_subgroup[i];
        let top = max(all.x, other.x);
        all = vec2<f32>(top, all.y * exp(all.x - top) + other.y * exp(other.x - top));
    }
    return all;
}

// c tanh(z / c): a score squeezed into (-c, c). Beyond 15 a tanh is 1 anyway, and some devices overflow.
fn squeezed(z: Wide, cap: f32) -> Wide {
    return cap * tanh(clamp(z / cap, Wide(-15.0), Wide(15.0)));
}
