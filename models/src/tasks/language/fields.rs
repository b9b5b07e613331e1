//! The fields that only runs of language models have, as a person meets them.

use super::Language;
use crate::{
    arch::config::limits::MAX_CONTEXT,
    limits,
    train::{
        Kind,
        fields::{
            Choice, Field, FieldKind,
            FieldKind::{Choice as Word, Count, Flag, List, Map, Number, Path, Text},
            choice,
        },
    },
};

/// The widest adapter.
pub const MAX_RANK: usize = limits::ADAPTER_RANK.most as usize;

/// The name of this kind of learning.
const TASK: &str = Language::NAME;

const METHODS: &[Choice] = &[
    choice("lora", "Adapter (LoRA)"),
    choice("full", "Full fine-tune"),
    choice("scratch", "From scratch"),
];

const PRESETS: &[Choice] = &[
    choice("nano", "Nano: about 1 million parameters"),
    choice("micro", "Micro: about 3 million parameters"),
    choice("small", "Small: about 124 million parameters"),
    choice(
        "trm_chat_fast",
        "Recursive, fast: about 2 million parameters",
    ),
    choice("trm_chat", "Recursive: about 13 million parameters"),
    choice(
        "trm_chat_large",
        "Recursive, large: about 35 million parameters",
    ),
];

const QUANTIZE: &[Choice] = &[
    choice("none", "As they are"),
    choice("nf4", "4 bits (NF4)"),
    choice("q4_0", "4 bits (Q4_0)"),
    choice("q8_0", "8 bits (Q8_0)"),
];

const FORMATS: &[Choice] = &[
    choice("messages", "Conversations (messages)"),
    choice("sharegpt", "Conversations (ShareGPT)"),
    choice("prompt_completion", "Prompt and completion"),
    choice("alpaca", "Instruction and output"),
    choice("text", "Text"),
];

const TEXT_ROWS: &[Choice] = &[
    choice("whole", "One text, in windows"),
    choice("lines", "Each line"),
    choice("paragraphs", "Each paragraph"),
];

const LEARN: &[Choice] = &[
    choice("assistant", "Assistant’s turns"),
    choice("all", "All text"),
];

/// The fields of a language model's run.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    Field::new("Model", "method", "Method", Word, "An adapter trains a small add-on, a full fine-tune every weight of an existing model; from scratch makes a new model.").choices(METHODS).of(TASK),
    Field::new("Model", "model", "Model", Path, "The model to start from: a folder in the layout of the Hugging Face Hub, or the name of a model.").of(TASK),

    new_model("scratch.preset", "Size", Word, "A size that is known to work.").choices(PRESETS),
    new_model("scratch.vocab_size", "Vocabulary size", Count, "How many tokens a tokenizer trained for it may have.").unit("tokens").at_least(259.0).advanced(),
    new_model("scratch.tokenizer", "Tokenizer", Path, "“trained” makes one from the data. A path takes a tokenizer.json, or the folder of a model that has one.").advanced(),
    new_model("scratch.config", "Architecture", Map, "Fields of config.json. They replace those of the size.").advanced(),
    new_model("scratch.config.hidden_size", "Width", Count, "Values that represent a token inside the model.").advanced(),
    new_model("scratch.config.num_hidden_layers", "Layers", Count, "How many layers the model has.").advanced(),
    new_model("scratch.config.num_attention_heads", "Attention heads", Count, "Attention heads of a layer.").advanced(),
    new_model("scratch.config.num_key_value_heads", "Key/value heads", Count, "Heads that share keys and values: a divisor of the attention heads.").advanced(),
    new_model("scratch.config.intermediate_size", "Feed-forward width", Count, "Width of the feed-forward part of a layer.").advanced(),

    adapter("lora.rank", "Adapter rank", Count, "The width of the two matrices of the adapter. More can learn more.").at_least(1.0).at_most(MAX_RANK as f64),
    adapter("lora.alpha", "Alpha", Number, "How strongly the adapter counts: its output is scaled by alpha / rank.").above(0.0).advanced(),
    adapter("quantize", "Frozen weights", Word, "What the weights beside the adapter are put into. In 4 bits a model needs a quarter of the memory, and answers get worse, the more so the smaller the model.").choices(QUANTIZE).advanced(),
    adapter("lora.dropout", "Dropout", Number, "The share of the input of the adapter dropped at random in training. 0 turns it off.").at_least(0.0).at_most(0.9).advanced(),
    adapter("lora.targets", "Target modules", List, "Which weights get an adapter, by the last part of their names, such as [q_proj, v_proj].").advanced(),
    adapter("lora.layers", "Layers", List, "Which layers get an adapter, counted from 0, such as [0, 1, 2].").advanced(),
    adapter("lora.rslora", "Rank-stabilized", Flag, "Scale by alpha / sqrt(rank) instead, which keeps large ranks stable.").advanced(),

    Field::new("Data", "data.files", "Data", List, "Files, and folders of files, read in this order.").of(TASK),
    Field::new("Data", "data.format", "Format", Word, "The layout of a row. Without it, it is found from the columns.").choices(FORMATS).advanced().of(TASK),
    Field::new("Data", "data.columns", "Columns", Map, "Which column plays which part, such as {prompt: title, completion: body}.").advanced().of(TASK),
    Field::new("Data", "data.encoding", "Encoding", Text, "How bytes become letters: utf-8, latin-1, or another name from the encoding list of the web.").advanced().of(TASK),
    Field::new("Data", "data.rows", "Rows of plain text", Word, "What a row of a plain text file is.").choices(TEXT_ROWS).advanced().of(TASK),
    Field::new("Data", "data.held_out", "Held-out share", Number, "The share of rows kept aside for evaluation. 0 keeps none.").at_least(0.0).at_most(0.5).advanced().of(TASK),
    Field::new("Data", "data.learn", "Train on", Word, "Learn from the assistant’s turns only, or from all text.").choices(LEARN).advanced().of(TASK),
    Field::new("Data", "data.max_length", "Longest row", Count, "Rows with more tokens are cut.").unit("tokens").at_least(1.0).advanced().of(TASK),
    Field::new("Data", "data.packing", "Packing", Flag, "Put several short rows into one, so that no part of a batch is empty.").advanced().of(TASK),
    Field::new("Data", "data.skip_bad_rows", "Skip bad rows", Flag, "Leave out rows that can’t be read, instead of refusing the file.").advanced().of(TASK),

    Field::new("Samples", "sample.prompts", "Prompts", List, "What the model continues or answers. With none, the beginning of a held-out row.").advanced().of(TASK),
    Field::new("Samples", "sample.tokens", "Max tokens", Count, "How many tokens a sample may have.").unit("tokens").at_least(1.0).at_most(MAX_CONTEXT as f64).advanced().of(TASK),
];

const fn new_model(
    name: &'static str,
    label: &'static str,
    kind: FieldKind,
    help: &'static str,
) -> Field {
    Field::new("New model", name, label, kind, help)
        .needs("method", &["scratch"])
        .of(TASK)
}

const fn adapter(
    name: &'static str,
    label: &'static str,
    kind: FieldKind,
    help: &'static str,
) -> Field {
    Field::new("Adapter", name, label, kind, help)
        .needs("method", &["lora"])
        .of(TASK)
}
