//! What follows from the figures: how devices compare, and which device, dtype, batch and workers to choose.

use serde::Serialize;

use super::{BANDWIDTH, BenchCase, BenchRow, MATMUL, Unit, WORKLOADS, compare};
use crate::{device::dtype::Dtype, figures::counted};

/// A batch that reaches this share of the best rate is large enough: a larger one takes memory for little.
const ENOUGH: f64 = 0.95;
/// Making batches is no concern below this share of the time of a step.
const NO_CONCERN: f64 = 0.02;

/// What is read of less than this may lie in a cache, of which the rate of memory says nothing.
const CACHE_BYTES: f64 = 256e6;

/// What was measured on one device.
#[derive(Debug, Clone, Copy)]
pub struct OnDevice<'a> {
    /// What a person calls it: `Metal`.
    pub name: &'a str,
    /// How a run asks for it: `metal`.
    pub setting: &'a str,
    /// What was measured there.
    pub rows: &'a [BenchRow],
}

/// A choice that the figures speak for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Advice {
    /// As in a run file: `dtype.compute`.
    pub setting: &'static str,
    /// Its value, as there.
    pub value: String,
    /// Why, as a sentence with the figures.
    pub why: String,
}

/// How the fastest device compares with each other one: `LoRA step: Metal is 1.69x faster than the CPU.`
pub fn ratios(devices: &[OnDevice]) -> Vec<String> {
    let Some(best) = fastest(devices) else {
        return Vec::new();
    };
    let others = devices.iter().filter(|it| it.setting != best.setting);
    let sentences = others.flat_map(|other| {
        shared(best, other).into_iter().map(|shared| {
            let message = compare::describe(shared.ratio);
            let [one, another] = match shared.ways {
                [one, another] if one != another => [format!(" ({one})"), format!(" ({another})")],
                _ => Default::default(),
            };
            let (title, name, other) = (shared.title, best.name, other.name);
            format!("{title}: {name}{one} is {message} than {other}{another}.")
                .replace("as fast than", "as fast as")
        })
    });
    sentences.collect()
}

/// How much more is made for a step than it takes, where both count the same: a step waits for what makes less than it takes.
pub fn headrooms(devices: &[OnDevice]) -> Vec<String> {
    let headroom = |device: &OnDevice, title: &str, maker: &str, taker: &str| {
        let ((made, make_rate), (taken, take_rate)) =
            (best_of(device.rows, maker)?, best_of(device.rows, taker)?);
        (made.unit == taken.unit).then(|| {
            let workers = made.case.variation.workers.unwrap_or_default() as u64;
            format!(
                "{title} on {}: {:.1} times as fast as a step needs, with {}.",
                device.name,
                make_rate / take_rate,
                counted(workers, "worker")
            )
        })
    };
    let feeds = WORKLOADS.iter().filter_map(|it| Some((it, it.feeds?)));
    feeds
        .flat_map(|(it, taker)| {
            devices
                .iter()
                .filter_map(move |device| headroom(device, it.title, it.name, taker))
        })
        .collect()
}

/// A kind of learning that two devices did, each in the way in which it is fastest.
struct Shared {
    title: String,
    /// The rate of one over that of the other.
    ratio: f64,
    /// How each did it: `bf16, 16 rows`.
    ways: [String; 2],
}

/// What to choose on this machine.
pub fn advice(devices: &[OnDevice]) -> Vec<Advice> {
    let Some(best) = fastest(devices) else {
        return Vec::new();
    };
    let found = [
        device(best, devices),
        dtype(best.rows),
        batch(best.rows),
        workers(best.rows),
    ];
    found.into_iter().flatten().collect()
}

/// The share that a row reaches of what its device could do at best in its dtype: by arithmetic, or by memory where that
/// is what it waits for. Nothing for the two that say what could be done, where they are missing, and for what may lie in
/// a cache.
pub fn roofline_share(row: &BenchRow, rows: &[BenchRow]) -> Option<f64> {
    let measured = row.measured.as_ref()?;
    // Arithmetic differs between dtypes; memory doesn't know them, so its best rate is the ceiling.
    let ceiling = |workload: &str| {
        let counts = |it: &&BenchRow| {
            let same = it.case.dtype == row.case.dtype || workload == BANDWIDTH;
            it.case.workload == workload && same
        };
        let rates = rows.iter().filter(counts).filter_map(BenchRow::per_second);
        rates.max_by(f64::total_cmp)
    };
    let is_ceiling = [MATMUL, BANDWIDTH].contains(&row.case.workload.as_str());
    let may_be_cached = (1.0..CACHE_BYTES).contains(&measured.step.bytes);
    if is_ceiling || may_be_cached {
        return None;
    }
    let mut least_seconds: f64 = 0.0;
    for (amount, workload) in [
        (measured.step.operations, MATMUL),
        (measured.step.bytes, BANDWIDTH),
    ] {
        if amount > 0.0 {
            least_seconds = least_seconds.max(amount / ceiling(workload)?);
        }
    }
    (least_seconds > 0.0).then(|| least_seconds / measured.median_millis * 1e3)
}

/// The device that learns fastest.
fn fastest<'a>(devices: &'a [OnDevice<'a>]) -> Option<&'a OnDevice<'a>> {
    devices.iter().reduce(|best, other| {
        let ratios: Vec<f64> = shared(other, best).iter().map(|it| it.ratio).collect();
        match compare::mean(&ratios).is_some_and(|ratio| ratio > 1.0) {
            true => other,
            false => best,
        }
    })
}

/// The kinds of learning that both did.
fn shared(one: &OnDevice, other: &OnDevice) -> Vec<Shared> {
    let shared = |name: &str| {
        let (row, rate) = best_of(one.rows, name)?;
        let (other_row, other_rate) = best_of(other.rows, name)?;
        Some(Shared {
            title: row.case.title().to_owned(),
            ratio: rate / other_rate,
            ways: [row, other_row].map(way_of),
        })
    };
    advising().filter_map(shared).collect()
}

fn way_of(row: &BenchRow) -> String {
    let dtype = row.case.dtype.map(|dtype| dtype.to_string());
    let rows = row.case.variation.rows;
    let rows = rows.map(|rows| counted(rows as u64, "row"));
    [dtype, rows]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// The fastest row of a workload, and its rate.
fn best_of<'a>(rows: &'a [BenchRow], workload: &str) -> Option<(&'a BenchRow, f64)> {
    let of_it = rows.iter().filter(|row| row.case.workload == workload);
    of_it
        .filter_map(|row| Some((row, row.per_second()?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

fn device(best: &OnDevice, devices: &[OnDevice]) -> Option<Advice> {
    let others = devices.iter().filter(|it| it.setting != best.setting);
    let compared = others.filter_map(|other| {
        let ratios: Vec<f64> = shared(best, other).iter().map(|it| it.ratio).collect();
        let ratio = compare::mean(&ratios)?;
        Some(format!("{ratio:.2} times as fast as {}", other.name))
    });
    let compared: Vec<String> = compared.collect();
    let why = match compared.is_empty() {
        true => return None,
        false => format!("{}, averaged over what both did.", compared.join(" and ")),
    };
    Some(Advice {
        setting: "device",
        value: best.setting.to_owned(),
        why,
    })
}

fn dtype(rows: &[BenchRow]) -> Option<Advice> {
    let mut dtypes: Vec<Dtype> = rows.iter().filter_map(|row| row.case.dtype).collect();
    dtypes.dedup();
    let (&first, others) = dtypes.split_first()?;
    let ratio_to_first = |dtype: Dtype| {
        let ratios = rows
            .iter()
            .filter(|row| advises(row) && row.case.dtype == Some(dtype));
        let ratios = ratios.filter_map(|row| {
            let case = BenchCase {
                dtype: Some(first),
                ..row.case.clone()
            };
            let other = rows.iter().find(|it| it.case == case)?;
            Some(row.per_second()? / other.per_second()?)
        });
        compare::mean(&ratios.collect::<Vec<f64>>())
    };
    let measured = others.iter().filter(|&&dtype| dtype != first);
    let (best, ratio) = measured
        .filter_map(|&dtype| Some((dtype, ratio_to_first(dtype)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (value, why) = match ratio > 1.0 {
        true => (best, format!("{ratio:.2} times as fast as {first}.")),
        false => (
            first,
            format!("{best} reaches only {ratio:.2} times its speed."),
        ),
    };
    Some(Advice {
        setting: "dtype.compute",
        value: value.to_string(),
        why,
    })
}

fn batch(rows: &[BenchRow]) -> Option<Advice> {
    let name = advising().next()?;
    let (best, rate) = best_of(rows, name)?;
    let same = |row: &&BenchRow| row.case.workload == name && row.case.dtype == best.case.dtype;
    let mut tried: Vec<(usize, f64)> = rows
        .iter()
        .filter(same)
        .filter_map(|row| Some((row.case.variation.rows?, row.per_second()?)))
        .collect();
    tried.sort_by_key(|(rows, _)| *rows);
    if tried.len() < 2 {
        return None;
    }
    let &(enough, its_rate) = tried.iter().find(|(_, it)| *it >= ENOUGH * rate)?;
    let list: Vec<String> = tried
        .iter()
        .map(|(rows, rate)| format!("{rows}: {rate:.0}"))
        .collect();
    Some(Advice {
        setting: "batch.rows",
        value: enough.to_string(),
        why: format!(
            "{:.0} % of the best rate with the least memory. Tokens a second by rows: {}.",
            its_rate / rate * 100.0,
            list.join(", ")
        ),
    })
}

fn workers(rows: &[BenchRow]) -> Option<Advice> {
    let made = rows
        .iter()
        .filter(|row| row.unit == Unit::Batches)
        .filter_map(|row| Some((row.case.variation.workers?, row.per_second()?)));
    let (_, alone) = made.clone().find(|(workers, _)| *workers == 0)?;
    let fastest_step = rows
        .iter()
        .filter(|row| advises(row))
        .filter_map(|row| Some(row.measured.as_ref()?.median_millis))
        .min_by(f64::total_cmp)?;
    let millis = 1e3 / alone;
    let share = millis / fastest_step;
    let (best, rate) = made.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (value, why) = match share < NO_CONCERN || best == 0 {
        true => (
            0,
            format!(
                "Making a batch takes {millis:.3} ms, {:.2} % of the shortest step.",
                share * 100.0
            ),
        ),
        false => (
            best,
            format!("{:.1} times as fast as without workers.", rate / alone),
        ),
    };
    Some(Advice {
        setting: "workers",
        value: value.to_string(),
        why,
    })
}

/// The names of the workloads whose rates decide.
fn advising() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().filter(|it| it.advises).map(|it| it.name)
}

fn advises(row: &BenchRow) -> bool {
    row.case.workload().is_some_and(|it| it.advises)
}
