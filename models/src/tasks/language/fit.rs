//! How a language run is made to fit into memory, beside what every run can do.

use super::{
    Language,
    plan::{LoraPlan, Stored},
    preset,
    request::Method,
};
use crate::{
    checkpoint::quantize::Quantization,
    figures::{count, counted},
    train::fit::{self, Measure},
};

/// The shortest rows that are offered: what is shorter says little.
const SHORTEST_ROW: usize = 64;

type Search<'a> = fit::Search<'a, Language>;
type Changed = fit::Changed<Language>;

/// The cheapest first. An adapter leaves more room for long rows, so it has its turn before them.
pub(super) const MEASURES: &[Measure<Language>] = &[
    Measure {
        change: shorter_rows,
        turn: 6,
    },
    Measure {
        change: quantized,
        turn: 5,
    },
    Measure {
        change: adapter,
        turn: 4,
    },
];

fn shorter_rows(search: &Search, from: &Changed) -> Option<Changed> {
    let before = from.plan.run.batch.length;
    let shorter = |length: usize| {
        let mut plan = from.plan.clone();
        plan.run.batch.length = length;
        plan.task.data.max_length = plan.task.data.max_length.min(length);
        plan
    };
    let half = before.next_power_of_two() / 2;
    let halves = std::iter::successors(Some(half), |length| Some(length / 2));
    // Of rows that are cut, the end is lost: where most are, a smaller model learns more.
    let most_cut = search.facts().task.data.rows / 2;
    let cut = |length: usize| search.facts().task.data.longer_than(length).unwrap_or(0);
    let lengths: Vec<usize> = halves
        .take_while(|&it| it >= SHORTEST_ROW && cut(it) <= most_cut)
        .collect();
    let fits = |length: &&usize| search.fits(&shorter(**length));
    let &length = lengths.iter().find(fits).or(lengths.last())?;
    let cost = match search.facts().task.data.longer_than(length) {
        Some(0) => "cuts no row".to_owned(),
        Some(rows) => format!("cuts {}", counted(rows as u64, "row")),
        None => "the model sees less text at once".to_owned(),
    };
    let message = format!(
        "rows of {} instead of {}: {cost}",
        count(length as u64),
        count(before as u64)
    );
    let plan = shorter(length);
    let changes = [
        ("batch.length", length.to_string()),
        ("data.max_length", plan.task.data.max_length.to_string()),
    ];
    Some(from.with(plan, &changes, message).with_its_batch())
}

/// Only what does not learn can be, and only what is not in blocks already.
fn quantized(search: &Search, from: &Changed) -> Option<Changed> {
    let task = &from.plan.task;
    if task.lora.is_none() || task.quantize.is_some() || search.shape().stored != Stored::Wide {
        return None;
    }
    let mut plan = from.plan.clone();
    let quantize = Quantization::Nf4;
    plan.task.quantize = Some(quantize);
    let message =
        "frozen weights in 4 bits: answers get worse, the more so the smaller the model".to_owned();
    let changes = [("quantize", quantize.name().to_owned())];
    Some(from.with(plan, &changes, message))
}

fn adapter(search: &Search, from: &Changed) -> Option<Changed> {
    if from.plan.task.method != Method::Full {
        return None;
    }
    // Only a decoder can have an adapter.
    let shape = search.shape().network.decoder()?;
    let linears = shape.linears().iter();
    let mut plan = from.plan.clone();
    plan.task.method = Method::Lora;
    plan.task.lora = Some(LoraPlan {
        rank: preset::LORA_RANK,
        alpha: 2.0 * preset::LORA_RANK as f64,
        dropout: 0.0,
        targets: linears.map(|&name| name.to_owned()).collect(),
        layers: (0..shape.layers.len()).collect(),
        rslora: false,
    });
    let message = "an adapter instead of all weights: can learn less".to_owned();
    let changes = [("method", "lora".to_owned())];
    Some(from.with(plan, &changes, message).with_its_batch())
}
