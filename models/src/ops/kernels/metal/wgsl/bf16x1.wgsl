enable wgpu_int16;
// Numbers as they lie in memory: bf16, one at a time. WGSL has no bf16; it is the upper half of an f32's bits.
alias Stored = u16;
alias Wide = f32;
alias Index = u32;
const LANES: u32 = 1;
fn widen(x: Stored) -> Wide { return bitcast<Wide>(u32(x) << u32(16)); }
// To the nearest, halves to even. What is no number stays none: integers are compared, which fast arithmetic leaves alone.
fn narrow(x: Wide) -> Stored {
    let bits = bitcast<u32>(x);
    let rounded = (bits + u32(0x7fff) + ((bits >> u32(16)) & u32(1))) >> u32(16);
    let no_number = (bits & u32(0x7fffffff)) > u32(0x7f800000);
    return Stored(select(rounded, u32(0x7fc0), no_number));
}
fn total(x: Wide) -> f32 { return x; }
fn largest_of(x: Wide) -> f32 { return x; }
fn indices(start: u32) -> Index { return start; }
fn splat(x: u32) -> Index { return x; }
