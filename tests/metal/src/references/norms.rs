//! Norms of rows, and of sums along either dimension.

use super::each;
use crate::{
    check::{
        Check,
        Data::{Empty, EmptyWide, Numbers, Wide},
        Field::{F, U},
    },
    storage::{normal, wide},
};

const EPSILON: f64 = 1e-5;

/// Rows, and their width: one of whole packs, and one of none.
fn sizes(check: &Check) -> (usize, usize) {
    match check.storage.lanes() {
        4 => (37, 576),
        _ => (5, 101),
    }
}

pub(crate) fn rms_norm(check: &mut Check) {
    let (rows, width) = sizes(check);
    let n = rows * width;
    let [x, g] = [1, 2].map(|seed| check.storage.normal(seed, n, 1.0));
    let factor = normal(3, width);
    let data = [Numbers(&x), Wide(&factor), Empty(n), EmptyWide(rows)];
    let out = check.run(
        "rms_norm",
        &data,
        &[U(rows), U(width), F(EPSILON), U(0)],
        [16, 1],
    );
    let mean = |row: &[f64]| row.iter().map(|it| it * it).sum::<f64>() / width as f64;
    let rho: Vec<f64> = x
        .chunks(width)
        .map(|row| 1.0 / (mean(row) + EPSILON).sqrt())
        .collect();
    let normalized = each(n, |i| x[i] * rho[i / width]);
    if let Some(out) = out {
        check.same(
            "rms_norm: y",
            &out[2],
            &each(n, |i| normalized[i] * factor[i % width]),
        );
        check.same_wide("rms_norm: rho", &out[3], &rho);
    }

    let along = each(rows, |row| {
        let row = row * width..(row + 1) * width;
        row.map(|i| g[i] * factor[i % width] * normalized[i])
            .sum::<f64>()
            / width as f64
    });
    let dx = each(n, |i| {
        rho[i / width] * (g[i] * factor[i % width] - normalized[i] * along[i / width])
    });
    let around = check.storage.normal(4, n, 1.0);
    for adds in [0, 1] {
        let data = [
            Numbers(&x),
            Numbers(&g),
            Wide(&factor),
            Wide(&rho),
            Numbers(&around),
            Empty(n),
        ];
        let fields = [U(rows), U(width), U(adds), U(0)];
        if let Some(out) = check.run("rms_norm_back", &data, &fields, [16, 1]) {
            let dx = each(n, |i| dx[i] + adds as f64 * around[i]);
            check.same("rms_norm_back: dx", &out[5], &dx);
        }
    }
    rms_norm_weight(check, [&x, &g, &normalized], &rho);
}

fn rms_norm_weight(check: &mut Check, [x, g, normalized]: [&[f64]; 3], rho: &[f64]) {
    let (rows, width) = (rho.len(), x.len() / rho.len());
    let (parts, lanes) = (8, check.storage.lanes());
    let data = [Numbers(x), Numbers(g), Wide(rho), EmptyWide(parts * width)];
    let fields = [U(rows), U(width), U(parts), U(0)];
    let groups = [(width / lanes).div_ceil(256), parts];
    if let Some(out) = check.run("rms_norm_weight", &data, &fields, groups) {
        let got = columns(&wide(&out[3]), width);
        let dw = columns(&each(x.len(), |i| g[i] * normalized[i]), width);
        check.compare("rms_norm_weight: dw", &got, &dw, 3e-6);
    }
}

pub(crate) fn layer_norm(check: &mut Check) {
    let (rows, width) = sizes(check);
    let n = rows * width;
    let x: Vec<f64> = check
        .storage
        .normal(1, n, 1.0)
        .iter()
        .map(|it| it + 3.0)
        .collect();
    let (x, g) = (check.storage.kept(x), check.storage.normal(2, n, 1.0));
    let (factor, bias) = (normal(3, width), normal(4, width));
    let data = [
        Numbers(&x),
        Wide(&factor),
        Wide(&bias),
        Empty(n),
        EmptyWide(2 * rows),
    ];
    let out = check.run(
        "layer_norm",
        &data,
        &[U(rows), U(width), F(EPSILON), U(0)],
        [16, 1],
    );
    let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / width as f64;
    let row = |row: usize| row * width..(row + 1) * width;
    let means = each(rows, |it| mean(x[row(it)].to_vec()));
    let variance = |it: usize| mean(row(it).map(|i| (x[i] - means[it]).powi(2)).collect());
    let rho = each(rows, |it| 1.0 / (variance(it) + EPSILON).sqrt());
    let normalized = each(n, |i| (x[i] - means[i / width]) * rho[i / width]);
    let moments = each(
        2 * rows,
        |i| if i % 2 == 0 { means[i / 2] } else { rho[i / 2] },
    );
    if let Some(out) = out {
        let y = each(n, |i| normalized[i] * factor[i % width] + bias[i % width]);
        check.same("layer_norm: y", &out[3], &y);
        check.same_wide("layer_norm: moments", &out[4], &moments);
    }

    let data = [
        Numbers(&x),
        Numbers(&g),
        Wide(&factor),
        Wide(&moments),
        Empty(n),
    ];
    let out = check.run(
        "layer_norm_back",
        &data,
        &[U(rows), U(width), U(0), U(0)],
        [16, 1],
    );
    let u = each(n, |i| g[i] * factor[i % width]);
    let centre = each(rows, |it| mean(u[row(it)].to_vec()));
    let along = each(rows, |it| {
        mean(row(it).map(|i| u[i] * normalized[i]).collect())
    });
    if let Some(out) = out {
        let dx = each(n, |i| {
            rho[i / width] * (u[i] - centre[i / width] - normalized[i] * along[i / width])
        });
        check.same("layer_norm_back: dx", &out[4], &dx);
    }
    layer_norm_weight(check, [&x, &g, &normalized], &moments);
}

fn layer_norm_weight(check: &mut Check, [x, g, normalized]: [&[f64]; 3], moments: &[f64]) {
    let rows = moments.len() / 2;
    let width = x.len() / rows;
    let (parts, lanes) = (8, check.storage.lanes());
    let [sums, bias_sums] = [EmptyWide(parts * width), EmptyWide(parts * width)];
    let data = [Numbers(x), Numbers(g), Wide(moments), sums, bias_sums];
    let fields = [U(rows), U(width), U(parts), U(0)];
    if let Some(out) = check.run(
        "layer_norm_weight",
        &data,
        &fields,
        [(width / lanes).div_ceil(256), parts],
    ) {
        let dw = columns(&each(x.len(), |i| g[i] * normalized[i]), width);
        check.compare(
            "layer_norm_weight: dw",
            &columns(&wide(&out[3]), width),
            &dw,
            3e-6,
        );
        check.compare(
            "layer_norm_weight: dc",
            &columns(&wide(&out[4]), width),
            &columns(g, width),
            3e-6,
        );
    }
}

pub(crate) fn residual_norm(check: &mut Check) {
    let (rows, width) = if check.storage.lanes() == 4 {
        (37, 576)
    } else {
        (19, 101)
    };
    let n = rows * width;
    let [x, z, g] = [1, 2, 3].map(|seed| check.storage.normal(seed, n, 1.0));
    // Rows, whose numbers stand side by side, and columns, which have one storage only.
    for (along, [lines, length], apart) in [
        ("rows", [rows, width], [width, 1]),
        ("columns", [width, rows], [1, width]),
    ] {
        if along == "columns" && check.storage.lanes() == 4 {
            continue;
        }
        let line = |i: usize| {
            if along == "rows" {
                i / width
            } else {
                i % width
            }
        };
        let mut squares = vec![0.0; lines];
        (0..n).for_each(|i| squares[line(i)] += (x[i] + z[i]).powi(2));
        let rho = each(lines, |it| {
            1.0 / (squares[it] / length as f64 + EPSILON).sqrt()
        });
        let data = [Numbers(&x), Numbers(&z), Empty(n), EmptyWide(lines)];
        let fields = [
            U(lines),
            U(length),
            U(apart[0]),
            U(apart[1]),
            F(EPSILON),
            U(0),
            U(0),
            U(0),
        ];
        let exact = each(n, |i| (x[i] + z[i]) * rho[line(i)]);
        if let Some(out) = check.run("residual_norm", &data, &fields, [16, 1]) {
            check.same(&format!("residual_norm: {along}"), &out[2], &exact);
            check.same_wide(&format!("residual_norm: rho of {along}"), &out[3], &rho);
        }
        let y = check.storage.kept(exact);
        let data = [Numbers(&g), Numbers(&y), Wide(&rho), Empty(n)];
        let mut sums = vec![0.0; lines];
        (0..n).for_each(|i| sums[line(i)] += g[i] * y[i] / length as f64);
        if let Some(out) = check.run("residual_norm_back", &data, &fields[..4], [16, 1]) {
            let dx = each(n, |i| (g[i] - y[i] * sums[line(i)]) * rho[line(i)]);
            check.same(&format!("residual_norm_back: {along}"), &out[3], &dx);
        }
    }
}

/// The sum of each column.
fn columns(numbers: &[f64], width: usize) -> Vec<f64> {
    each(width, |column| {
        numbers.iter().skip(column).step_by(width).sum()
    })
}
