//! `anneal solve`: a trained model fills in a puzzle.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
    sync::atomic::Ordering,
};

use console::style;
use models::{
    device::RequestedDevice,
    figures::counted,
    tasks::puzzle::{
        solve::{Board, Effort, Solved, Thinking},
        source::text,
    },
};
use serde_json::json;

use super::{
    Ended,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::Host,
    wire::error::{AppError, Result},
};

/// The most bytes of a file with a puzzle.
const MAX_BYTES: u64 = 1 << 16;
/// The longest bar of a probability, in letters.
const BAR_WIDTH: f32 = 10.0;

/// Have a trained model fill in a puzzle, and show how it got there.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run that learned puzzles, or the folder of one of its checkpoints.
    #[arg(value_name = "RUN_OR_FOLDER")]
    model: String,
    #[command(flatten)]
    puzzle: Puzzle,
    /// Steps of thinking. Without it, as many as the model was trained with.
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = 0,
        hide_default_value = true
    )]
    steps: usize,
    /// Think about so many looks of the puzzle, with other digits and other orders of lines, and take what they agree on.
    #[arg(long, value_name = "LOOKS", default_value_t = 1)]
    votes: usize,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
}

/// Which puzzle. Without any of these, it is read from standard input.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Puzzle {
    /// Its cells row by row, with a dot or 0 for an empty one.
    #[arg(long, value_name = "CELLS")]
    puzzle: Option<String>,
    /// A file with its cells; lines and spaces between them don’t count.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// So many-th puzzle of those that the run never learned from, from 1.
    #[arg(long, value_name = "NUMBER")]
    held_out: Option<usize>,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let puzzle = arguments.puzzle.read(&arguments.model, host)?;
    let mut solver = host.open_solver(&arguments.model, arguments.device)?;
    for warning in &solver.warnings {
        terminal.warn(warning);
    }
    let effort = Effort {
        steps: arguments.steps,
        votes: arguments.votes,
    };
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let mut steps = Vec::new();
    let solved = solver.solve(&puzzle, effort, &mut |step| steps.push(step), &stop)?;
    for warning in &solved.warnings {
        terminal.warn(warning);
    }
    match terminal.json {
        true => terminal.json(&json!({
            "board": solver.board,
            "puzzle": solver.board.text(&solved.puzzle),
            "answer": steps.last().map(|it| solver.board.text(&it.guess)),
            "solution": solved.solution.as_ref().map(|it| solver.board.text(it)),
            "solved_at": solved.solved_at,
            "halts_at": solved.halts_at,
            "warnings": solved.warnings,
            "steps": steps,
        }))?,
        false => show(&solver.board, &solved, &steps, terminal),
    }
    Ok(match stop() {
        true => Ended::Stopped,
        false => Ended::Done,
    })
}

impl Puzzle {
    /// The text of the puzzle.
    fn read(&self, model: &str, host: &Host) -> Result<String> {
        if let Some(number) = self.held_out {
            let all = host.held_out_puzzles(model)?;
            let grid = number.checked_sub(1).and_then(|at| all.get(at));
            return grid.map(|it| text(&it.puzzle)).ok_or_else(|| {
                AppError::invalid(format!(
                    "there is no held-out puzzle {number}: the run has {}",
                    all.len()
                ))
            });
        }
        if let Some(puzzle) = &self.puzzle {
            return Ok(puzzle.clone());
        }
        let mut puzzle = String::new();
        match &self.file {
            Some(path) => {
                let failed = |error| AppError::file("read the puzzle", path)(error);
                let file = fs::File::open(path).map_err(failed)?;
                file.take(MAX_BYTES)
                    .read_to_string(&mut puzzle)
                    .map_err(failed)?;
            }
            None if io::stdin().is_terminal() => {
                return Err(AppError::invalid("it is not said which puzzle to fill in")
                    .with_hint("name it with --puzzle or --file, or take one with --held-out 1"));
            }
            None => {
                let read = io::stdin()
                    .lock()
                    .take(MAX_BYTES)
                    .read_to_string(&mut puzzle);
                read.map_err(|error| {
                    AppError::failed(format!("could not read the puzzle: {error}"))
                })?;
            }
        }
        Ok(puzzle)
    }
}

/// The puzzle beside what became of it, and a line for each step.
fn show(board: &Board, solved: &Solved, steps: &[Thinking], terminal: &Terminal) {
    let Some(last) = steps.last() else { return };
    let given = |cell: usize| solved.puzzle[cell] != board.blank;
    let puzzle = drawn(board, &solved.puzzle, &|cell, symbol| match given(cell) {
        true => style(symbol).bold().to_string(),
        false => style(symbol).dim().to_string(),
    });
    let answer = drawn(board, &last.guess, &|cell, symbol| match (
        given(cell),
        last.conflicts.contains(&cell),
    ) {
        (true, _) => style(symbol).bold().to_string(),
        (false, true) => style(symbol).red().underlined().to_string(),
        (false, false) => style(symbol).blue().to_string(),
    });
    for (before, after) in puzzle.iter().zip(&answer) {
        terminal.line(format!("{before}    {after}").trim_end());
    }
    terminal.line("");
    let head = ["step", "changed", "in conflict", "halting probability"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let settled = steps.iter().rposition(|it| !it.changed.is_empty());
    let shown = settled.unwrap_or(0).max(solved.halts_at.unwrap_or(0)) + 1;
    for (at, step) in steps.iter().enumerate().take(shown + 1) {
        let bar = "█".repeat((step.halt * BAR_WIDTH).round() as usize);
        let halts = match solved.halts_at == Some(at + 1) {
            true => "  would stop here",
            false => "",
        };
        rows.push(vec![
            (at + 1).to_string(),
            step.changed.len().to_string(),
            match step.conflicts.len() {
                0 => "–".to_owned(),
                count => count.to_string(),
            },
            format!("{:.2} {bar:<10}{halts}", step.halt),
        ]);
    }
    terminal.table(&rows);
    if shown + 1 < steps.len() {
        let from = shown + 2;
        terminal.line(format_args!(
            "steps {from} to {} change nothing",
            steps.len()
        ));
    }
    terminal.line("");
    terminal.line(verdict(board, solved, last));
}

/// What came of it, in a sentence.
fn verdict(board: &Board, solved: &Solved, last: &Thinking) -> String {
    let open = solved
        .puzzle
        .iter()
        .filter(|it| **it == board.blank)
        .count();
    let filled = counted(open as u64, "cell");
    match (solved.solved_at, &solved.solution) {
        (Some(step), _) => format!("solved at step {step}: {filled} filled, no rule broken"),
        (None, Some(solution)) => {
            let wrong = last
                .guess
                .iter()
                .zip(solution)
                .filter(|(one, other)| one != other);
            format!("not solved: {} of {filled} wrong", wrong.count())
        }
        (None, None) => format!(
            "not solved: {} in conflict",
            counted(last.conflicts.len() as u64, "cell")
        ),
    }
}

/// The lines of a grid, with lines between its boxes.
pub(super) fn drawn(
    board: &Board,
    cells: &[u32],
    look: &dyn Fn(usize, String) -> String,
) -> Vec<String> {
    let width = board
        .symbols
        .iter()
        .map(|it| it.chars().count())
        .max()
        .unwrap_or(1);
    let mut lines = Vec::new();
    let is_edge = |at: usize, of_box: usize| of_box > 0 && at > 0 && at.is_multiple_of(of_box);
    for row in 0..board.rows {
        let mut line = String::new();
        let mut rule = String::new();
        for column in 0..board.columns {
            if is_edge(column, board.box_columns) {
                line += "│ ";
                rule += "┼─";
            }
            let cell = row * board.columns + column;
            let symbol = board.text(&cells[cell..=cell]);
            line += &look(cell, format!("{:>width$}", printable(&symbol)));
            line.push(' ');
            rule += &"─".repeat(width + 1);
        }
        if is_edge(row, board.box_rows) {
            rule.pop();
            lines.push(rule);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use models::tasks::puzzle::sudoku::Sudoku;

    use super::*;

    fn board() -> Board {
        Board::sudoku(Sudoku::of_cells(16).unwrap())
    }

    #[test]
    fn a_grid_is_drawn_with_its_boxes() {
        let cells: Vec<u32> = (0..16).map(|cell| cell % 4 + 1).collect();
        let lines = drawn(&board(), &cells, &|_, symbol| symbol);
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(
            lines,
            [
                ". 1 │ 2 3",
                ". 1 │ 2 3",
                "────┼────",
                ". 1 │ 2 3",
                ". 1 │ 2 3"
            ]
        );
    }

    #[test]
    fn the_verdict_says_what_is_right_and_what_is_not() {
        let mut solved = Solved {
            puzzle: vec![1, 2, 1, 1],
            solution: Some(vec![3, 2, 4, 5]),
            solved_at: Some(3),
            halts_at: None,
            warnings: Vec::new(),
        };
        let last = Thinking {
            guess: vec![3, 2, 5, 5],
            confidence: vec![1.0; 4],
            changed: Vec::new(),
            conflicts: vec![2, 3],
            halt: 0.5,
        };
        let say = |solved: &Solved| verdict(&board(), solved, &last);
        assert_eq!(
            say(&solved),
            "solved at step 3: 3 cells filled, no rule broken"
        );
        solved.solved_at = None;
        assert_eq!(say(&solved), "not solved: 1 of 3 cells wrong");
        solved.solution = None;
        assert_eq!(say(&solved), "not solved: 2 cells in conflict");
    }
}
