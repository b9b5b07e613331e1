//! Names in a run file that are no fields: what is probably meant.

use std::sync::LazyLock;

use models::{
    tasks,
    train::{Problem, fields::Field},
};
use serde_json::Value;

/// A name may differ from a field in one letter of so many to be taken for it.
const LETTERS_PER_TYPO: usize = 3;

/// What is said of a name that nobody knows.
const NO_SETTING: &str = "is not a setting";

/// Where all fields are listed.
pub(super) const ALL_FIELDS: &str = "`anneal train --fields` lists all fields";

/// What others call a setting, and what is said of it here.
struct Known {
    /// The field of ours, or a section of fields, where there is one.
    ours: Option<&'static str>,
    /// What to know about it; without a field, a whole sentence without a full stop.
    note: &'static str,
    theirs: Vec<&'static str>,
}

/// What the settings of other trainers are called here.
static NAMES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let lines = include_str!("names.txt").lines();
    let known = lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (ours, rest) = line.split_once(" | ")?;
            let (note, theirs) = rest.split_once(" | ")?;
            Some(Known {
                ours: Some(ours).filter(|ours| *ours != "-"),
                note,
                theirs: theirs.split(' ').collect(),
            })
        });
    known.collect()
});

/// All fields of a run file.
static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(tasks::fields::fields);

/// What a name that is no field was probably meant to be.
#[derive(Debug, PartialEq)]
pub(super) struct Advice {
    /// What is said of the name: `is called `lora.rank` here`.
    pub(super) message: String,
    /// The field of ours, where there is one.
    pub(super) ours: Option<&'static str>,
}

impl Advice {
    /// How it is written in a file.
    pub(super) fn hint_in_a_file(&self) -> String {
        match self.ours.map(|ours| (ours, ours.rsplit_once('.'))) {
            Some((_, Some((section, name)))) => {
                format!("write `{name}` in a line of its own below `{section}:`")
            }
            Some((name, None)) => format!("write `{name}`"),
            None => ALL_FIELDS.to_owned(),
        }
    }

    /// How it is written behind `--set`, which the window knows without that word.
    pub(super) fn hint(&self) -> String {
        match self.ours {
            Some(name) => format!("write `{name}`"),
            None => self.hint_in_a_file(),
        }
    }
}

/// Whether a problem is that nobody knows a name.
pub(super) fn is_said(problem: &Problem) -> bool {
    problem.problem == NO_SETTING
}

/// The paths of all names in a request that are no fields, such as `lora.rnak`.
pub(super) fn names_in(tree: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect("", tree, &mut found);
    found
}

fn collect(section: &str, value: &Value, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = match section {
            "" => name.clone(),
            section => format!("{section}.{name}"),
        };
        if path == tasks::TASK || FIELDS.iter().any(|field| field.name == path) {
            continue;
        }
        match is_section(&path) {
            true => collect(&path, value, found),
            false => found.push(path),
        }
    }
}

fn is_section(path: &str) -> bool {
    let fields = FIELDS.iter();
    fields
        .filter_map(|field| field.name.strip_prefix(path))
        .any(|rest| rest.starts_with('.'))
}

/// What is probably meant by a name.
pub(super) fn advice(path: &str) -> Advice {
    let last = path.rsplit('.').next().unwrap_or(path);
    let last = last.to_lowercase().replace('-', "_");
    let known = NAMES.iter().find(|known| known.theirs.contains(&&*last));
    if let Some(&Known { ours, note, .. }) = known {
        let message = match ours {
            Some(ours) => format!("is called `{ours}` here{note}"),
            None => format!("{NO_SETTING}: {note}"),
        };
        return Advice { message, ours };
    }
    match nearest(path, &last) {
        Some(ours) => Advice {
            message: format!("{NO_SETTING}; the nearest is `{ours}`"),
            ours: Some(ours),
        },
        None => Advice {
            message: NO_SETTING.to_owned(),
            ours: None,
        },
    }
}

/// The field with the fewest letters that differ: in the last part of its name, and then in all of it.
fn nearest(path: &str, last: &str) -> Option<&'static str> {
    let most = (last.chars().count() / LETTERS_PER_TYPO).max(1);
    let distances = FIELDS.iter().map(|field| {
        let name = field.name.rsplit('.').next().unwrap_or(field.name);
        let whole = strsim::osa_distance(path, field.name);
        (
            strsim::osa_distance(last, name).min(whole),
            whole,
            field.name,
        )
    });
    let (letters, _, name) = distances.min()?;
    (letters <= most).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[track_caller]
    fn check(path: &str, message: &str) {
        assert_eq!(advice(path).message, message, "{path}");
    }

    #[test]
    fn names_of_other_trainers_get_ours() {
        for (theirs, ours) in [
            ("per_device_train_batch_size", "batch.rows"),
            ("batch_size", "batch.rows"),
            ("gradient_accumulation_steps", "batch.accumulate"),
            ("num_train_epochs", "epochs"),
            ("max_steps", "steps"),
            ("iters", "steps"),
            ("max_seq_length", "batch.length"),
            ("sequence_len", "batch.length"),
            ("cutoff_len", "batch.length"),
            ("lora_r", "lora.rank"),
            ("r", "lora.rank"),
            ("lora_alpha", "lora.alpha"),
            ("lora_dropout", "lora.dropout"),
            ("target_modules", "lora.targets"),
            ("lr", "learning_rate"),
            ("lr_scheduler_type", "schedule.kind"),
            ("max_grad_norm", "clip_norm"),
            ("save_steps", "save.every"),
            ("save_total_limit", "save.keep_last"),
            ("eval_steps", "evaluate.every"),
            ("steps_per_eval", "evaluate.every"),
            ("val_batches", "evaluate.batches"),
            ("model_name_or_path", "model"),
            ("base_model", "model"),
            ("grad_checkpoint", "gradient_checkpointing"),
            ("packing", "data.packing"),
            ("sample_packing", "data.packing"),
            ("weight_decay", "optimizer.weight_decay"),
            ("adam_weight_decay", "optimizer.weight_decay"),
            ("optim", "optimizer.kind"),
            ("random_seed", "seed"),
            ("Per-Device-Train-Batch-Size", "batch.rows"),
            ("training.lr", "learning_rate"),
        ] {
            check(theirs, &format!("is called `{ours}` here"));
        }
        check(
            "warmup_ratio",
            "is called `schedule.warmup_steps` here and counts steps",
        );
        check("bf16", "is called `dtype.compute` here; set it to `bf16`");
        check(
            "num_layers",
            "is called `lora.layers` here and lists layers from 0; without it, all get an adapter",
        );
        check(
            "load_in_4bit",
            "is called `quantize` here and names what frozen weights are put into: `nf4` is 4 bits",
        );
        for theirs in ["dataset", "datasets", "adapter", "fp16"] {
            assert!(advice(theirs).ours.is_some(), "{theirs}");
        }
    }

    #[test]
    fn what_is_not_there_is_answered() {
        check(
            "logging_steps",
            "is not a setting: every step is recorded, so there is nothing to set",
        );
    }

    #[test]
    fn a_typo_gets_the_nearest_field() {
        for (typed, ours) in [
            ("lora.rnak", "lora.rank"),
            ("rank", "lora.rank"),
            ("step", "steps"),
            ("learning-rate", "learning_rate"),
            ("optimiser.kind", "optimizer.kind"),
            ("dtype.computes", "dtype.compute"),
        ] {
            let message = format!("is not a setting; the nearest is `{ours}`");
            check(typed, &message);
        }
        check("nonsense", NO_SETTING);
    }

    #[test]
    fn every_name_is_one_of_ours_and_none_of_theirs_is() {
        let mut seen = HashSet::new();
        let is_ours = |name: &str| FIELDS.iter().any(|field| field.name == name);
        assert!(NAMES.len() > 70, "each line is read");
        for Known { ours, theirs, .. } in NAMES.iter() {
            if let Some(ours) = ours {
                assert!(is_ours(ours) || is_section(ours), "{ours}");
            }
            for name in theirs {
                assert!(!is_ours(name) && !is_section(name), "{name} is a field");
                assert!(seen.insert(*name), "{name} stands twice");
                assert_eq!(*name, name.to_lowercase().replace('-', "_"));
            }
        }
    }

    #[test]
    fn names_are_looked_for_in_sections_and_not_in_maps() {
        let tree = serde_json::json!({
            "steps": 3, "lora_r": 8, "lora": {"rank": 8, "rnak": 8}, "batch": "auto",
            "data": {"columns": {"prompt": "a"}}, "scratch": {"config": {"hidden_size": 8}}, "trainer": {"x": 1},
        });
        assert_eq!(names_in(&tree), ["lora_r", "lora.rnak", "trainer"]);
    }
}
