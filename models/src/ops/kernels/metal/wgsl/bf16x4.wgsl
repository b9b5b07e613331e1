// Numbers as they lie in memory: bf16, four at a time. WGSL has no bf16; it is the upper half of an f32's bits.
alias Stored = vec2<u32>;
alias Wide = vec4<f32>;
alias Index = vec4<u32>;
const LANES: u32 = 4;
fn widen(x: Stored) -> Wide {
    return bitcast<Wide>(vec4<u32>(x.x << 16, x.x & 0xffff0000, x.y << 16, x.y & 0xffff0000));
}
// To the nearest, halves to even. What is no number stays none: integers are compared, which fast arithmetic leaves alone.
fn narrow(x: Wide) -> Stored {
    let bits = bitcast<vec4<u32>>(x);
    let rounded = bits + vec4<u32>(0x7fff) + ((bits >> vec4<u32>(16)) & vec4<u32>(1));
    let no_number = (bits & vec4<u32>(0x7fffffff)) > vec4<u32>(0x7f800000);
    let upper = select(rounded, vec4<u32>(0x7fc00000), no_number);
    return Stored((upper.x >> 16) | (upper.y & 0xffff0000), (upper.z >> 16) | (upper.w & 0xffff0000));
}
fn total(x: Wide) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest_of(x: Wide) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn indices(start: u32) -> Index { return vec4<u32>(start) + vec4<u32>(0, 1, 2, 3); }
fn splat(x: u32) -> Index { return Index(x); }
