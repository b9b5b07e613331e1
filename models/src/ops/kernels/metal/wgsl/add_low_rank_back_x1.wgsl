fn factor_part(column: u32, k: u32) -> Wide { return widen(factor[k * low.width + column]); }
fn times_part(z: Wide, part: Wide) -> Wide { return z * part; }
