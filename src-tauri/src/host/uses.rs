//! What can be done with what a run learned, as the terminal has it. The kinds of learning say which uses there are.

use crate::store::runs::Run;

/// What to do with what a run has learned.
pub(crate) fn how_to_use(run: &Run) -> String {
    let plan = run.plan();
    let uses = plan.as_ref().map_or(&["chat"][..], |it| it.task.uses());
    by_uses(&run.id, uses)
}

/// The same for a run of which the uses are known. The first of them counts.
pub(crate) fn by_uses(run: &str, uses: &[&str]) -> String {
    match uses.first() {
        Some(&"solve") => format!("have it solve a puzzle with `anneal solve {run} --held-out 1`"),
        Some(&"probe") => format!("see what it found with `anneal probe show {run}`"),
        Some(&"predict") => format!("ask it what a picture shows with `anneal predict {run} FILE`"),
        Some(_) => format!("chat with it in `anneal chat {run}`"),
        None => format!("see what it measured with `anneal runs show {run}`"),
    }
}
