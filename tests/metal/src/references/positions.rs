//! Rotary positions, with heads and tokens in either order.

use crate::{
    check::{
        Check,
        Data::{Empty, Numbers, Wide},
        Field::{F, U},
    },
    storage::normal,
};

pub(crate) fn rotate(check: &mut Check) {
    let (rows, tokens, heads, width, half) = match check.storage.lanes() {
        4 => (2, 9, 3, 72, 32),
        _ => (2, 9, 3, 14, 5),
    };
    let count = rows * tokens * heads * width;
    let x = check.storage.normal(1, count, 1.0);
    // Distances between rows, tokens and heads: heads of a token side by side, or tokens of a head.
    let by_token = [tokens * heads * width, heads * width, width];
    let by_head = [tokens * heads * width, width, tokens * width];
    // One table for all rows, and one for each.
    for (shared, from, to) in [
        (true, by_token, by_head),
        (false, by_head, by_token),
        (false, by_token, by_token),
    ] {
        let places = if shared { tokens } else { rows * tokens };
        let [cosines, sines] = [2, 3].map(|seed| normal(seed, places * half));
        let turned = rows * tokens * heads * (width - half);
        let mut fields = vec![
            U(turned),
            U(tokens),
            U(heads),
            U(width),
            U(half),
            U(places),
            F(-1.0),
            U(0),
        ];
        for apart in [from, to] {
            fields.extend(apart.map(U));
            fields.push(U(0));
        }
        let mut expected = vec![0.0; count];
        for (row, token, head, i) in places_of(rows, tokens, heads, width) {
            let at = |apart: [usize; 3], i: usize| {
                row * apart[0] + token * apart[1] + head * apart[2] + i
            };
            let angle = (row * tokens + token) % places * half + i % half;
            let (c, s) = (cosines[angle], -sines[angle]);
            expected[at(to, i)] = match i {
                i if i < half => x[at(from, i)] * c - x[at(from, i + half)] * s,
                i if i < 2 * half => x[at(from, i)] * c + x[at(from, i - half)] * s,
                _ => x[at(from, i)],
            };
        }
        let data = [Numbers(&x), Wide(&cosines), Wide(&sines), Empty(count)];
        if let Some(out) = check.run("rotate", &data, &fields, [3, 1]) {
            check.same("rotate", &out[3], &expected);
        }
    }
}

fn places_of(
    rows: usize,
    tokens: usize,
    heads: usize,
    width: usize,
) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let all = rows * tokens * heads * width;
    (0..all).map(move |at| {
        let (i, rest) = (at % width, at / width);
        (
            rest / heads / tokens,
            rest / heads % tokens,
            rest % heads,
            i,
        )
    })
}
