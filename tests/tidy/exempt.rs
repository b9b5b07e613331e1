//! What may break a budget, and why. An entry that is not needed any more is a violation itself.

use crate::budget::Exempt;

/// Files and functions that are longer than their budget on purpose.
///
/// A reason says why the thing is easier to read in one piece: a flat list, a table, a generated file.
pub(crate) const LONG: &[Exempt] = &[
    Exempt {
        path: "models/benches/operations.rs",
        function: Some("decoder"),
        reason: "a flat list of operations with their shapes",
    },
    Exempt {
        path: "models/src/tasks/language/resolve.rs",
        function: Some("data"),
        reason: "one paragraph per field of the plan's data, in the order of the plan",
    },
    Exempt {
        path: "models/src/train/sentence.rs",
        function: Some("sentence"),
        reason: "one sentence an event, side by side",
    },
    Exempt {
        path: "models/src/train/sentence.rs",
        function: Some("every_event_is_a_sentence_but_those_that_are_shown"),
        reason: "one case an event, side by side",
    },
    Exempt {
        path: "ui/src/api/bindings.ts",
        function: None,
        reason: "generated from the commands and the types of the window",
    },
];
