// Activation functions and their slopes, by number: 0 silu, 1 gelu, 2 gelu with a tanh, 3 relu.

// 1 / (1 + e^-x), and 0 far below, without an infinity on the way: a compiler may take it that there are none.
fn sigmoid(x: Wide) -> Wide {
    return select(Wide(0.0), 1.0 / (1.0 + exp(-max(x, Wide(-80.0)))), x > Wide(-80.0));
}

// The share of a normal distribution below x. The error function by Abramowitz and Stegun, 7.1.26: exact to 1.5e-7.
fn below(x: Wide) -> Wide {
    let z = min(abs(x), Wide(12.0)) * 0.70710678;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    // Nothing is left of it below -12, however large a number it is multiplied with.
    let tail = select(Wide(0.0), 0.5 * series * exp(-z * z), abs(x) < Wide(12.0));
    return select(tail, 1.0 - tail, x > Wide(0.0));
}

// Of gelu with a tanh: (1 + tanh u) / 2 as a sigmoid of 2 u, u = sqrt(2 / pi) (x + 0.044715 x^3). Beyond 12 it is 0 or 1.
fn gate(x: Wide) -> Wide {
    let near = clamp(x, Wide(-12.0), Wide(12.0));
    return sigmoid(near * (1.59576912 + 0.07135482 * near * near));
}

fn activated(x: Wide, activation: u32) -> Wide {
    if activation == 0 { return x * sigmoid(x); }
    if activation == 1 { return x * below(x); }
    if activation == 2 { return x * gate(x); }
    return max(x, Wide(0.0));
}

fn slope_at(x: Wide, activation: u32) -> Wide {
    if activation == 0 {
        let s = sigmoid(x);
        return s + max(x, Wide(-80.0)) * s * (1.0 - s);
    }
    let near = clamp(x, Wide(-12.0), Wide(12.0));
    if activation == 1 { return below(x) + near * 0.39894228 * exp(-0.5 * near * near); }
    if activation == 2 {
        let s = gate(x);
        return s + near * s * (1.0 - s) * (1.59576912 + 0.21406446 * near * near);
    }
    return select(Wide(0.0), Wide(1.0), x > Wide(0.0));
}
