//! The fields that only runs of puzzles have, as a person meets them.

use super::Puzzle;
use crate::limits::LOOKS;
use crate::train::{
    Kind,
    fields::{
        Choice, Field, FieldKind,
        FieldKind::{Choice as Word, Count, Flag, Number, Path, Text},
        choice,
    },
};

const POSITIONS: &[Choice] = &[
    choice("rope", "Rotary"),
    choice("learned", "Learned"),
    choice("none", "None"),
];

const LOSSES: &[Choice] = &[
    choice("stablemax", "Stablemax"),
    choice("softmax", "Softmax"),
];

/// The fields of a run that learns puzzles. The names under `trm` are those of the reference.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    of("Puzzle model", "recipe", "Recipe", Text, "The settings to begin with: lesson, lesson-6, sudoku-mlp, sudoku-attention, sudoku-anneal, sudoku-cycles, maze, arc-1 or arc-2."),
    of("Puzzle model", "start_from", "Start from", Path, "Weights to start from: a file step_N of the program that Tiny Recursive Models come from.").advanced(),
    of("Puzzle model", "trm.hidden_size", "Width", Count, "Values that represent a cell inside the model.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.num_heads", "Attention heads", Count, "Attention heads of a layer.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.expansion", "Expansion", Number, "How much wider the feed-forward parts are than the model.").above(0.0).advanced(),
    of("Puzzle model", "trm.L_layers", "Layers", Count, "Layers of the one stack that is used again and again.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.H_cycles", "Answer cycles", Count, "How often the answer is improved in a step of thinking.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.L_cycles", "Thought cycles", Count, "How often the thoughts are improved before each answer.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.mlp_t", "Mix by products", Flag, "Mix cells by a product along the grid instead of attention: good for small grids of one size.").advanced(),
    of("Puzzle model", "trm.pos_encodings", "Positions", Word, "How the model knows where a cell is.").choices(POSITIONS).advanced(),
    of("Puzzle model", "trm.puzzle_emb_ndim", "Puzzle vector", Count, "Values of the vector that each puzzle has of its own. 0 is none.").advanced(),
    of("Puzzle model", "trm.puzzle_emb_len", "Puzzle places", Count, "Places before the cells, of which the puzzle’s vector takes the first.").advanced(),
    of("Puzzle model", "trm.halt_max_steps", "Most steps of thinking", Count, "After how many steps of thinking the next puzzle comes.").at_least(1.0).advanced(),
    of("Puzzle model", "trm.halt_exploration_prob", "Exploration", Number, "How often a puzzle is thought about longer than the model wants.").at_least(0.0).at_most(1.0).advanced(),
    of("Puzzle model", "trm.rms_norm_eps", "Norm epsilon", Number, "Keeps the norm from dividing by zero.").above(0.0).advanced(),
    of("Puzzle model", "trm.rope_theta", "Rotary base", Number, "The base of rotary positions.").above(0.0).advanced(),
    of("Puzzle model", "trm.loss", "Loss", Word, "How scores become probabilities.").choices(LOSSES).advanced(),
    of("Puzzle model", "halting_weight", "Weight of halting", Number, "How much knowing when it is solved counts in the loss, beside the cells.").at_least(0.0).at_most(10.0).advanced(),
    of("Puzzle model", "curriculum", "Cycles of the first parts", Text, "Fewer cycles at first: 1x2:0.3 2x4:0.6 is one answer cycle of two thought cycles for 30 % of the steps, then two of four up to 60 %.").advanced(),
    of("Puzzle model", "table.learning_rate", "Learning rate of puzzle vectors", Number, "By how much each value of a puzzle’s vector moves.").at_least(0.0).advanced(),
    of("Puzzle model", "table.weight_decay", "Decay of puzzle vectors", Number, "How much a puzzle’s vector shrinks when it is in a batch.").at_least(0.0).advanced(),
    of("Data", "data.label_smoothing", "Label smoothing", Number, "How much of each label is shared among all symbols. 0 turns it off.").at_least(0.0).at_most(0.9).advanced(),
    of("Data", "data.augment", "Augment", Flag, "Show each puzzle in another look each time: other digits, other orders of rows and columns.").advanced(),
    of("Data", "data.subsample_size", "Rows drawn", Count, "Learn from so many random rows of each table. 0 is all.").advanced(),
    of("Data", "data.min_difficulty", "Least rating", Count, "Learn only from rows of tables that are rated so or higher.").advanced(),
    of("Data", "data.augmentations", "Looks of a task", Count, "How many other looks of each task of ARC there are, each with a vector of its own.").at_most(LOOKS.most as f64).advanced(),
    of("Data", "data.evaluate_puzzles", "Puzzles to measure with", Count, "How many held-out puzzles are measured during the run, always the same. 0 is all.").advanced(),
    of("Data", "data.evaluate_at_end", "Puzzles to measure at the end", Count, "How many held-out puzzles are measured when all steps are done. 0 is all. Each look of a task of ARC is one.").advanced(),
];

const fn of(
    group: &'static str,
    name: &'static str,
    label: &'static str,
    kind: FieldKind,
    help: &'static str,
) -> Field {
    Field::new(group, name, label, kind, help).of(Puzzle::NAME)
}
