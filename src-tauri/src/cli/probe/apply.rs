//! `anneal probe apply`: what probes say of states that were captured since.

use std::path::PathBuf;

use console::style;
use models::tasks::probe::{
    folder::Probes,
    states::{Matrix, StateRow, States},
};
use serde_json::json;

use crate::{
    cli::{
        Ended,
        terminal::{Terminal, printable},
    },
    wire::error::Result,
};

/// Letters of a text that are shown.
const SHOWN: usize = 60;

/// Say what probes find in captured states, text by text.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// A folder of probes, made by `anneal probe train`.
    #[arg(value_name = "PROBES")]
    probes: PathBuf,
    /// The states of the texts, captured with the same model, suffix and position.
    #[arg(long, value_name = "STATES")]
    states: PathBuf,
    /// Labels of each text to show, the strongest first.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    top: usize,
    /// Show only labels of at least this probability, where there is one. Without it, all are shown, and those above the threshold
    /// that validation rows chose are marked.
    #[arg(long, value_name = "PROBABILITY")]
    threshold: Option<f64>,
    /// Apply them although the states are of another model, prompt or position.
    #[arg(long)]
    force: bool,
}

pub(in crate::cli) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Ended> {
    let probes = Probes::open(&arguments.probes)?;
    let states = States::open(&arguments.states)?;
    match (probes.check(states.about()), arguments.force) {
        (Err(problem), true) => terminal.warn(problem),
        (checked, _) => checked?,
    }
    let chosen = probes.chosen();
    let site = |probe: &usize| states.matrix(probes.about.probes[*probe].site);
    let matrices: Vec<Matrix> = chosen.iter().map(site).collect::<Result<_, _>>()?;
    let mut state = vec![0.0; states.about().width];
    for (row, text) in states.vectors_of_rows().into_iter().zip(states.rows()) {
        let mut found: Vec<Found> = Vec::new();
        for (&probe, matrix) in chosen.iter().zip(&matrices) {
            matrix.copy_vector(row.start, &mut state);
            found.push(Found::of(&probes, probe, probes.score(probe, &state)));
        }
        found.retain(|it| it.is_at_least(arguments.threshold));
        found.sort_by(|a, b| b.order().total_cmp(&a.order()));
        found.truncate(arguments.top.max(1));
        show(text, &found, &probes, terminal)?;
    }
    Ok(Ended::Done)
}

/// What a probe says of a text.
struct Found {
    probe: usize,
    score: f32,
    probability: Option<f64>,
    is_positive: bool,
}

impl Found {
    fn of(probes: &Probes, probe: usize, score: f32) -> Self {
        let about = &probes.about.probes[probe];
        Self {
            probe,
            score,
            probability: about.scale.map(|it| it.probability(score)),
            is_positive: score >= about.threshold,
        }
    }

    fn is_at_least(&self, threshold: Option<f64>) -> bool {
        threshold.is_none_or(|least| self.order() >= least)
    }

    /// What labels are compared by: scores of different probes mean different things, their probabilities don’t.
    fn order(&self) -> f64 {
        let plain = 1.0 / (1.0 + (-f64::from(self.score)).exp());
        self.probability.unwrap_or(plain)
    }
}

fn show(text: &StateRow, found: &[Found], probes: &Probes, terminal: &Terminal) -> Result<()> {
    let about = |it: &Found| &probes.about.probes[it.probe];
    if terminal.json {
        let labels = found.iter().map(|it| {
            json!({
                "label": about(it).label,
                "site": about(it).site,
                "score": it.score,
                "probability": it.probability,
                "active": it.is_positive,
            })
        });
        let labels: Vec<_> = labels.collect();
        return terminal.json(&json!({ "id": text.id, "labels": labels }));
    }
    let shown: String = text.text.chars().take(SHOWN).collect();
    let shown = if shown.is_empty() { &text.id } else { &shown };
    terminal.line(style(printable(shown)).bold());
    let rows = found.iter().map(|it| {
        let probability = it
            .probability
            .map_or(String::new(), |it| format!("{it:.3}"));
        let mark = if it.is_positive {
            style("yes").green()
        } else {
            style("")
        };
        vec![
            format!("  {}", printable(&about(it).label)),
            format!("{:+.2}", it.score),
            probability,
            about(it).site.to_string(),
            mark.to_string(),
        ]
    });
    terminal.table(&rows.collect::<Vec<_>>());
    Ok(())
}
