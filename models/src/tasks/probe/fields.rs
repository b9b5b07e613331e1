//! The fields that only runs of probes have, as a person meets them. Data and model have theirs in common with other kinds.

use super::Probe;
use crate::train::{
    Kind,
    fields::{
        Choice, Field, FieldKind,
        FieldKind::{Choice as Word, Count, Flag, List, Text},
        choice,
    },
};

const POSITIONS: &[Choice] = &[
    choice("mean", "Mean over the text"),
    choice("last", "Last token"),
    choice("max", "Largest over the text"),
    choice("mean_and_max", "Mean and largest"),
    choice("answer", "Mean over the answer"),
    choice("marked", "Mean over marked parts"),
];

const SOLVERS: &[Choice] = &[
    choice("exact", "Exact (L-BFGS)"),
    choice("mean_difference", "Difference of means"),
    choice("adamw", "Small batches (AdamW)"),
];

/// The fields of a run of probes.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    of("Probe", "probe.position", "States", Word, "Which hidden states are kept of a text. A mean over the text can be read while a model writes; the last token says most where a suffix asks for something.").choices(POSITIONS),
    of("Probe", "probe.suffix", "Suffix", Text, "Words that follow each text and ask for what the probe looks for, or words with {text} in them. A probe works only with the suffix that it was trained with."),
    of("Probe", "probe.chat", "As a chat", Flag, "Show the text as a user’s turn of a chat, up to where the answer would begin."),
    of("Probe", "probe.sites", "Sites", List, "Where states are read: embed, block.0, block.1 and so on, final. Without it, everywhere.").advanced(),
    of("Probe", "probe.labels", "Labels", List, "The labels to learn. Without it, all."),
    of("Probe", "probe.solver", "Solver", Word, "How weights are found: the exact optimum of logistic regression, the difference of two means, or small batches with early stopping as others train probes.").choices(SOLVERS).advanced(),
    of("Probe", "probe.penalties", "Values of C", List, "Values of C to choose from on validation rows. A larger one penalizes weights less.").advanced(),
    of("Probe", "probe.balanced", "Balance", Flag, "Have rows with a label count as much in all as rows without it.").advanced(),
    of("Probe", "probe.folds", "Folds", Count, "Judge every text once, by probes that learned from the others, and choose everything without it: cross-validation in two levels, in so many folds. 0 is none. Without it, 5 where a label has fewer than a hundred texts.").at_most(10.0).advanced(),
    of("Probe", "data.text_column", "Text column", Text, "The column with the text. Without it, it is found by its name.").advanced(),
    of("Probe", "data.label_column", "Label column", Text, "The column with the label, or with a list of labels. Without it, it is found by its name.").advanced(),
    of("Probe", "data.group_column", "Group column", Text, "The column with what belongs together, such as a conversation: it is never divided between learning and measuring.").advanced(),
];

const fn of(
    group: &'static str,
    name: &'static str,
    label: &'static str,
    kind: FieldKind,
    help: &'static str,
) -> Field {
    Field::new(group, name, label, kind, help).of(Probe::NAME)
}
