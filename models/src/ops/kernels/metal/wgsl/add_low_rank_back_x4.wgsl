// LANES columns of the output by LANES numbers of the rank: a row of the factor for each number, [r, i].
struct Part { a: Wide, b: Wide, c: Wide, d: Wide }
fn factor_part(column: u32, k: u32) -> Part {
    let packs = low.width / LANES;
    let at = k * LANES * packs + column;
    return Part(widen(factor[at]), widen(factor[at + packs]), widen(factor[at + 2 * packs]), widen(factor[at + 3 * packs]));
}
fn times_part(z: Wide, part: Part) -> Wide {
    return z.x * part.a + z.y * part.b + z.z * part.c + z.w * part.d;
}
