// LANES columns of the output by LANES numbers of the rank: a row of the factor for each column, [o, r].
struct Part { a: Wide, b: Wide, c: Wide, d: Wide }
fn factor_part(column: u32, k: u32) -> Part {
    let deep = low.rank / LANES;
    let at = column * LANES * deep + k;
    return Part(widen(factor[at]), widen(factor[at + deep]), widen(factor[at + 2 * deep]), widen(factor[at + 3 * deep]));
}
fn times_part(z: Wide, part: Part) -> Wide {
    return Wide(dot(z, part.a), dot(z, part.b), dot(z, part.c), dot(z, part.d));
}
