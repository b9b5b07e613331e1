//! Figures of probes on labelled texts that they were applied to, in the files that scripts for such figures read.
//!
//! | file | holds |
//! |---|---|
//! | `metrics_{label}.json` | accuracy, precision, recall, F1, both areas and the four counts of a label |
//! | `aggregate_metrics.json` | their means over labels, and all of them |
//! | `layer_{i}/…` | the same of each block, where probes of all sites were applied |
//! | `per_action_layer_analysis.json` | for each label its layer, and how much the layers differ |
//!
//! The layer of a label is the one that was best on validation rows when the probes were learned: texts that choose can’t report. A
//! figure without rows of both classes is null, and in no mean.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    apply::Threshold,
    folder::Probes,
    ranking::{Confusion, Ranking},
};
use crate::{Error, Result, arch::sites::Site, checkpoint::save};

/// What probes said of a text, and its labels.
pub type Scored = (Vec<String>, Vec<f32>);

/// Writes the figures of probes, by their places, on texts whose scores are in that order. Returns the files.
///
/// Errors: [`Error::Data`] where no text has a label that a probe knows; [`Error::File`] when the disk refuses.
pub fn write(
    folder: &Path,
    probes: &Probes,
    which: &[usize],
    rows: &[Scored],
    threshold: Threshold,
) -> Result<Vec<PathBuf>> {
    let known = |label: &String| {
        which
            .iter()
            .any(|it| probes.about.probes[*it].label == *label)
    };
    if !rows.iter().any(|(labels, _)| labels.iter().any(known)) {
        return Err(Error::Data(
            "no text has a label of the probes, so there are no figures of them; name the column of the label with \
             `--label-column`"
                .to_owned(),
        ));
    }
    let figures: Vec<Figures> = which
        .iter()
        .enumerate()
        .map(|(at, &probe)| Figures::of(probes, probe, &column(rows, at), threshold, rows))
        .collect();
    let mut files = Vec::new();
    let chosen: Vec<&Figures> = figures.iter().filter(|it| it.is_chosen).collect();
    write_labels(folder, &chosen, &mut files)?;
    let layers: BTreeSet<usize> = figures.iter().filter_map(|it| it.layer).collect();
    if figures.len() > chosen.len() {
        for layer in layers {
            let of_layer: Vec<&Figures> = figures
                .iter()
                .filter(|it| it.layer == Some(layer))
                .collect();
            write_labels(
                &folder.join(format!("layer_{layer}")),
                &of_layer,
                &mut files,
            )?;
        }
        let analysis = json!({ "per_action_best_layers": layer_analysis(&figures) });
        write_json(
            folder.join("per_action_layer_analysis.json"),
            &analysis,
            &mut files,
        )?;
    }
    Ok(files)
}

/// Figures of a probe.
struct Figures {
    label: String,
    layer: Option<usize>,
    is_chosen: bool,
    /// Where it is known.
    validation: Option<f64>,
    threshold: f64,
    confusion: Confusion,
    auc: Option<f64>,
    average_precision: Option<f64>,
}

fn column(rows: &[Scored], at: usize) -> Vec<f32> {
    rows.iter().map(|(_, scores)| scores[at]).collect()
}

impl Figures {
    fn of(
        probes: &Probes,
        probe: usize,
        scores: &[f32],
        threshold: Threshold,
        rows: &[Scored],
    ) -> Self {
        let about = &probes.about.probes[probe];
        let positive: Vec<bool> = rows
            .iter()
            .map(|(labels, _)| labels.contains(&about.label))
            .collect();
        let called = |score: &f32| f32::from(u8::from(probes.is_active(probe, *score, threshold)));
        let called: Vec<f32> = scores.iter().map(called).collect();
        let ranking = Ranking::new(scores);
        let auc = ranking.auc(&positive);
        Self {
            label: about.label.clone(),
            layer: match about.site {
                Site::Block(index) => Some(index),
                Site::Embed | Site::Final => None,
            },
            is_chosen: about.is_chosen,
            validation: about.validation,
            threshold: match threshold {
                Threshold::Chosen => probes.strength(probe, about.threshold),
                Threshold::Probability(least) => least,
            },
            confusion: Confusion::at(&called, &positive, 0.5),
            average_precision: auc.and_then(|_| ranking.average_precision(&positive)),
            auc,
        }
    }

    fn json(&self) -> Value {
        let it = self.confusion;
        json!({
            "action": self.label,
            "accuracy": it.accuracy(),
            "precision": it.precision(),
            "recall": it.recall(),
            "f1": it.f1(),
            "auc_roc": self.auc,
            "auc_pr": self.average_precision,
            "confusion_matrix": {
                "true_negative": it.true_negatives,
                "false_positive": it.false_positives,
                "false_negative": it.false_negatives,
                "true_positive": it.true_positives,
            },
            "layer": self.layer,
            "threshold": self.threshold,
        })
    }
}

/// The figures of labels at one place, each in its file, and their means.
fn write_labels(folder: &Path, figures: &[&Figures], files: &mut Vec<PathBuf>) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::file("create the folder of the figures", folder))?;
    let mut names = BTreeSet::new();
    for it in figures {
        let mut metrics = it.json();
        // Nothing was learned here, and what reads these files looks for it.
        metrics["history"] = json!({
            "train_loss": [], "val_loss": [], "val_auc": [], "val_accuracy": [], "learning_rates": [],
            "best_epoch": null, "best_val_auc": it.validation, "stopped_early": false,
        });
        let path = folder.join(format!("metrics_{}.json", file_name(&it.label, &mut names)));
        write_json(path, &metrics, files)?;
    }
    let mean = |figure: &dyn Fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = figures.iter().filter_map(|it| figure(it)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let aggregate = json!({
        "average_auc_roc": mean(&|it| it.auc),
        "average_auc_pr": mean(&|it| it.average_precision),
        "average_f1": mean(&|it| Some(it.confusion.f1())),
        "average_accuracy": mean(&|it| Some(it.confusion.accuracy())),
        "average_precision": mean(&|it| Some(it.confusion.precision())),
        "average_recall": mean(&|it| Some(it.confusion.recall())),
        "per_action_metrics": figures.iter().map(|it| it.json()).collect::<Vec<_>>(),
    });
    write_json(folder.join("aggregate_metrics.json"), &aggregate, files)
}

/// For each label its best layer on validation rows, with its figures here, and how much layers differ here.
fn layer_analysis(figures: &[Figures]) -> Vec<Value> {
    let labels: BTreeSet<&String> = figures.iter().map(|it| &it.label).collect();
    let known = |validation: Option<f64>| validation.unwrap_or(f64::NEG_INFINITY);
    let of_label = |label: &String| {
        let layers = figures
            .iter()
            .filter(|it| it.label == *label && it.layer.is_some());
        let best = layers
            .clone()
            .max_by(|a, b| known(a.validation).total_cmp(&known(b.validation)))?;
        let aucs = layers.filter_map(|it| it.auc);
        let worst = aucs.clone().min_by(f64::total_cmp);
        let highest = aucs.max_by(f64::total_cmp);
        Some(json!({
            "action": label,
            "best_layer": best.layer,
            "best_auc": best.auc,
            "best_f1": best.confusion.f1(),
            "worst_auc": worst,
            "layer_sensitivity": highest.zip(worst).map(|(highest, worst)| highest - worst),
        }))
    };
    labels.into_iter().filter_map(of_label).collect()
}

/// A label as a part of a file's name, which no other label has.
fn file_name(label: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |letter: char| match letter.is_alphanumeric() || "-_. ".contains(letter) {
        true => letter,
        false => '_',
    };
    let name: String = label.chars().map(plain).take(100).collect();
    let names = (1..).map(|number| match number {
        1 => name.clone(),
        number => format!("{name}_{number}"),
    });
    let mut free = names.filter(|name| !taken.contains(&name.to_lowercase()));
    let name = free.next().unwrap_or_default();
    // Some file systems tell no letters of different case apart.
    taken.insert(name.to_lowercase());
    name
}

fn write_json(path: PathBuf, value: &Value, files: &mut Vec<PathBuf>) -> Result<()> {
    save::write_json(&path, value)?;
    files.push(path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_no_names_of_files_become_some_and_none_is_written_over() {
        let mut taken = BTreeSet::new();
        let labels = ["joy", "a/b", "a:b", "../x", "Joy"];
        let names = labels.map(|it| file_name(it, &mut taken));
        assert_eq!(names, ["joy", "a_b", "a_b_2", ".._x", "Joy_2"]);
    }
}
