//! The form of a run as data: which settings it shows, in which part, and what each does.
//!
//! The form sends what was filled in as `field: value`, each value written as in a run file, so that the window, a file and
//! `--set` on the command line mean the same and fail with the same words.

/// A setting of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// As in a run file: `lora.rank`.
    pub(crate) name: &'static str,
    /// The part of the form.
    pub(crate) group: &'static str,
    pub(crate) label: &'static str,
    /// One sentence: what it does.
    pub(crate) help: &'static str,
    /// The words it knows. Without any, it takes what is typed.
    pub(crate) words: &'static [&'static str],
    /// The methods that have it. Empty is all.
    pub(crate) methods: &'static [&'static str],
}

const BOOL: &[&str] = &["true", "false"];
const DTYPES: &[&str] = &["f32", "bf16", "f16"];
const LORA: &[&str] = &["lora"];
const SCRATCH: &[&str] = &["scratch"];

const fn any(
    group: &'static str,
    name: &'static str,
    label: &'static str,
    words: &'static [&'static str],
    help: &'static str,
) -> Field {
    only(&[], group, name, label, words, help)
}

const fn only(
    methods: &'static [&'static str],
    group: &'static str,
    name: &'static str,
    label: &'static str,
    words: &'static [&'static str],
    help: &'static str,
) -> Field {
    Field {
        name,
        group,
        label,
        help,
        words,
        methods,
    }
}

/// Every setting that the form folds away. Model, data, method, length and name stand in the form itself.
#[rustfmt::skip]
pub(crate) const FIELDS: &[Field] = &[
    only(LORA, "Adapter", "lora.rank", "Rank", &[], "The width of its two matrices. More can learn more."),
    only(LORA, "Adapter", "lora.alpha", "Alpha", &[], "How strongly it counts: its output is scaled by alpha / rank."),
    only(LORA, "Adapter", "lora.dropout", "Dropout", &[], "The share of its input dropped at random while it learns."),
    only(LORA, "Adapter", "lora.targets", "Targets", &[], "Which weights get one, such as [q_proj, v_proj]."),
    only(LORA, "Adapter", "lora.layers", "Layers", &[], "In which layers, counted from 0, such as [0, 1, 2]."),
    only(LORA, "Adapter", "lora.rslora", "Rank-stabilized", BOOL, "Scale by alpha / sqrt(rank), which keeps large ranks stable."),
    only(SCRATCH, "New model", "scratch.preset", "Size", &["nano", "micro", "small"], "A size that works: about 1, 3 or 124 million parameters."),
    only(SCRATCH, "New model", "scratch.vocab_size", "Vocabulary", &[], "How many tokens its tokenizer may have."),
    only(SCRATCH, "New model", "scratch.tokenizer", "Tokenizer", &[], "trained makes one from the data; or the folder of a model."),
    only(SCRATCH, "New model", "scratch.config.hidden_size", "Width", &[], "Numbers that stand for a token inside the model."),
    only(SCRATCH, "New model", "scratch.config.num_hidden_layers", "Layers", &[], "How many layers it has."),
    only(SCRATCH, "New model", "scratch.config.num_attention_heads", "Heads", &[], "Attention heads of a layer."),
    only(SCRATCH, "New model", "scratch.config.num_key_value_heads", "Key heads", &[], "Heads that share keys and values; a divisor of the heads."),
    only(SCRATCH, "New model", "scratch.config.intermediate_size", "Feed-forward width", &[], "Width of the part that stores what was learned."),
    any("Step", "batch.rows", "Rows at once", &[], "Rows computed at once. Memory grows with it."),
    any("Step", "batch.length", "Row length", &[], "Tokens in a row. Memory grows with it."),
    any("Step", "batch.accumulate", "Accumulate", &[], "Batches added up before the weights change. Time grows with it, memory does not."),
    any("Step", "gradient_checkpointing", "Checkpointing", BOOL, "Compute activations twice instead of keeping them: less memory, about a third more time."),
    any("Learning", "learning_rate", "Learning rate", &[], "The highest of the run, such as 2e-4."),
    any("Learning", "schedule.kind", "Schedule", &["cosine", "linear", "constant"], "How the learning rate falls after the warm-up."),
    any("Learning", "schedule.warmup_steps", "Warm-up", &[], "Steps in which the learning rate rises from 0."),
    any("Learning", "schedule.min_ratio", "Last rate", &[], "The last learning rate, as a share of the highest."),
    any("Learning", "optimizer.kind", "Optimizer", &["adamw", "sgd"], "The rule that turns gradients into updates."),
    any("Learning", "optimizer.beta1", "Beta 1", &[], "AdamW: how much of the mean of past gradients is kept."),
    any("Learning", "optimizer.beta2", "Beta 2", &[], "AdamW: how much of the mean of past squared gradients is kept."),
    any("Learning", "optimizer.epsilon", "Epsilon", &[], "AdamW: keeps the division from growing without bound."),
    any("Learning", "optimizer.weight_decay", "Weight decay", &[], "How much of each weight is taken away at each step, times the learning rate."),
    any("Learning", "optimizer.momentum", "Momentum", &[], "SGD: how much of the last update is kept."),
    any("Learning", "clip_norm", "Clip norm", &[], "Gradients whose norm is larger are scaled down to it. 0 turns it off."),
    any("Learning", "ema", "Average", &[], "How much of the running average of the weights is kept, such as 0.999. 0 turns it off."),
    any("Data", "data.learn", "Learn", &["assistant", "all"], "From the assistant's words only, or from all words."),
    any("Data", "data.held_out", "Held out", &[], "The share of rows kept aside to measure with, from 0 to 0.5."),
    any("Data", "data.max_length", "Longest row", &[], "Rows with more tokens are cut."),
    any("Data", "data.packing", "Packing", BOOL, "Put several short rows into one, so that no part of a batch is empty."),
    any("Data", "data.skip_bad_rows", "Skip bad rows", BOOL, "Leave out rows that can't be read, instead of refusing the file."),
    any("Machine", "device", "Device", &[], "auto, cpu, metal, cuda, or cuda:1 for the second one."),
    any("Machine", "dtype.compute", "Computes in", DTYPES, "The numbers of activations and gradients."),
    any("Machine", "dtype.storage", "Stores in", DTYPES, "The numbers of weights that don't learn."),
    any("Machine", "strict", "Strict", BOOL, "Refuse what the device can't do safely, instead of taking the next best."),
    any("Machine", "seed", "Seed", &[], "Where all randomness starts. The same seed and data give the same run."),
    any("Watching", "evaluate.every", "Measure every", &[], "After how many steps the held-out data is looked at. 0 turns it off."),
    any("Watching", "evaluate.batches", "Measure on", &[], "How many batches of it. 0 means all."),
    any("Watching", "sample.every", "Write every", &[], "After how many steps the model writes something. 0 turns it off."),
    any("Watching", "sample.prompts", "Prompts", &[], "What it is to continue or answer, such as [\"Hello\"]."),
    any("Watching", "sample.tokens", "Write tokens", &[], "How many tokens it may write."),
    any("Watching", "save.every", "Save every", &[], "After how many steps the run is saved. 0 saves only at the end and when it is stopped."),
    any("Watching", "save.keep_last", "Keep last", &[], "How many of the newest checkpoints are kept."),
    any("Watching", "save.keep_every", "Keep every", &[], "After how many steps the run is saved and that checkpoint is kept for good. 0 turns it off."),
    any("Watching", "save.keep_best", "Keep best", BOOL, "Also keep the checkpoint that measured best."),
];

#[cfg(test)]
mod tests {
    use models::tasks::AnyRequest;

    use super::FIELDS;
    use crate::store::run_file;

    #[test]
    fn every_field_of_the_form_is_one_of_a_run_file_and_knows_its_words() {
        for field in FIELDS {
            let words = if field.words.is_empty() {
                &[""]
            } else {
                field.words
            };
            for word in words {
                let change = format!("{}={word}", field.name);
                run_file::set(AnyRequest::default(), &[change]).unwrap();
            }
        }
    }
}
