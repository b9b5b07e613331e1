//! `anneal solve`: a trained model solves a puzzle.

use std::{
    io::{self, IsTerminal, Read},
    path::PathBuf,
    sync::atomic::Ordering,
};

use console::style;
use models::{
    device::RequestedDevice,
    figures::{count, counted},
    limits,
    tasks::puzzle::{
        board::{Board, BoardKind},
        question::Asked,
        solve::{Effort, Solved, Thinking},
    },
};
use serde_json::{Value, json};

use super::{
    Ended,
    grids::{WALL, beside, coloured, drawn},
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::{Host, solve::puzzle_text},
    wire::error::{AppError, Result},
};

/// The most letters of a line of grids beside each other.
const MAX_WIDTH: usize = 100;
/// The longest bar of a probability, in letters.
const BAR_WIDTH: f32 = 10.0;

/// Have a trained model solve a puzzle, and show how it got there.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run that was trained on puzzles, or the folder of one of its checkpoints.
    #[arg(value_name = "RUN_OR_FOLDER")]
    model: String,
    #[command(flatten)]
    puzzle: Puzzle,
    /// Steps of recursion. Without it, as many as the model was trained with.
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = 0,
        hide_default_value = true
    )]
    steps: usize,
    /// Solve this many variants of the puzzle, such as turned or with other digits, and take what they agree on.
    /// Without it, one; eight for a task of ARC.
    #[arg(
        long,
        value_name = "LOOKS",
        default_value_t = 0,
        hide_default_value = true
    )]
    votes: usize,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
}

/// Which puzzle. Without any of these, it is read from standard input.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Puzzle {
    /// Its cells row by row: of a Sudoku with a dot or 0 for an empty one, of a maze # S G and a dot. Of ARC, the name of a task.
    #[arg(long, value_name = "PUZZLE")]
    puzzle: Option<String>,
    /// A file with its cells, a maze in a line for each row; or with a task of ARC.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The held-out puzzle with this number, from 1: the run never trained on it.
    #[arg(long, value_name = "NUMBER")]
    held_out: Option<usize>,
}

/// What a question of a puzzle came to.
struct Answered {
    solved: Solved,
    steps: Vec<Thinking>,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let puzzle = arguments.puzzle.read(&arguments.model, host)?;
    let mut solver = host.open_solver(&arguments.model, arguments.device)?;
    let question = solver.read(&puzzle)?;
    // What is known beforehand is said before it is thought about.
    for warning in solver.warnings.iter().chain(&question.warnings) {
        terminal.warn(warning);
    }
    let effort = Effort {
        steps: arguments.steps,
        votes: arguments.votes,
    };
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let mut answers = Vec::new();
    for part in 0..question.parts() {
        let mut steps = Vec::new();
        let mut watch = |step| steps.push(step);
        let solved = solver.solve((&puzzle, part), effort, &mut watch, &stop)?;
        let new = |it: &&String| !question.warnings.contains(it);
        for warning in solved.warnings.iter().filter(new) {
            terminal.warn(warning);
        }
        answers.push(Answered { solved, steps });
        if stop() {
            break;
        }
    }
    let (board, asked) = (&solver.board, question.asked.as_ref());
    match (terminal.json, asked) {
        (true, None) => {
            let answered = answers.first();
            terminal.json(&answered.map(|it| it.json(board)))?;
        }
        (true, Some(asked)) => {
            let all: Vec<Value> = answers.iter().map(|it| it.json(board)).collect();
            terminal.json(
                &json!({"task": asked.task.name, "is_known": asked.is_known, "questions": all}),
            )?;
        }
        (false, None) => answers.iter().for_each(|it| it.show(board, terminal)),
        (false, Some(asked)) => show_task(asked, board, &answers, terminal),
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
            let set = host.puzzles_of(model)?;
            let held = number.checked_sub(1).and_then(|at| set.held(at));
            return held.map(|it| it.puzzle).ok_or_else(|| {
                AppError::invalid(format!(
                    "there is no held-out puzzle {number}: the run has {}",
                    set.held_count()
                ))
            });
        }
        if let Some(puzzle) = &self.puzzle {
            return Ok(puzzle.clone());
        }
        if let Some(path) = &self.file {
            return puzzle_text(path);
        }
        if io::stdin().is_terminal() {
            return Err(AppError::invalid("it is not said which puzzle to solve")
                .with_hint("name it with --puzzle or --file, or take one with --held-out 1"));
        }
        read_input(io::stdin().lock())
    }
}

/// A puzzle that is piped in, all of it or none.
fn read_input(input: impl Read) -> Result<String> {
    let mut puzzle = String::new();
    input
        .take(limits::PUZZLE.most + 1)
        .read_to_string(&mut puzzle)
        .map_err(|error| AppError::failed(format!("could not read the puzzle: {error}")))?;
    match puzzle.len() as u64 > limits::PUZZLE.most {
        true => {
            let most = count(limits::PUZZLE.most);
            Err(AppError::invalid(format!(
                "the puzzle is longer than {most} bytes, which are the most that are read"
            )))
        }
        false => Ok(puzzle),
    }
}

impl Answered {
    fn json(&self, board: &Board) -> Value {
        let Self { solved, steps } = self;
        let mut told = json!({
            "board": board,
            "puzzle": board.text(&solved.puzzle),
            "answer": steps.last().map(|it| board.text(&it.guess)),
            "solution": solved.solution.as_ref().map(|it| board.text(it)),
            "solved_at": solved.solved_at,
            "halts_at": solved.halts_at,
            "warnings": solved.warnings,
            "steps": steps,
        });
        match board.kind {
            BoardKind::Sudoku => {}
            BoardKind::Maze => told["way"] = json!(solved.way),
            BoardKind::Arc => {
                told["looks"] = json!(solved.looks);
                told["answers"] = json!(solved.answers);
            }
        }
        told
    }

    /// The puzzle with what became of it, and a line for each step.
    fn show(&self, board: &Board, terminal: &Terminal) {
        let Some(last) = self.steps.last() else {
            return;
        };
        let given = |cell: usize| self.solved.puzzle[cell] != board.blank;
        let puzzle = |cell, symbol| match given(cell) {
            true => style(symbol).bold().to_string(),
            false => style(symbol).dim().to_string(),
        };
        let answer = |cell: usize, symbol| match (given(cell), last.conflicts.contains(&cell)) {
            (true, _) => style(symbol).bold().to_string(),
            // The model put a wall where there is none.
            (false, true) if symbol == WALL => style("▒▒".to_owned()).red().to_string(),
            (false, true) => style(symbol).red().underlined().to_string(),
            (false, false) => style(symbol).blue().to_string(),
        };
        let after = drawn(board, &last.guess, &answer);
        let lines = match board.kind {
            // The path is drawn into the maze, so one grid says all.
            BoardKind::Maze => after.iter().map(|it| it.trim_end().to_owned()).collect(),
            _ => beside(&drawn(board, &self.solved.puzzle, &puzzle), &after),
        };
        lines.iter().for_each(|line| terminal.line(line));
        terminal.line("");
        self.show_steps(board, terminal);
        terminal.line("");
        terminal.line(verdict(board, &self.solved, last));
    }

    fn show_steps(&self, board: &Board, terminal: &Terminal) {
        let Self { solved, steps } = self;
        let third = match board.kind {
            BoardKind::Sudoku => "in conflict",
            BoardKind::Maze => "off path",
            BoardKind::Arc => "votes",
        };
        let head = ["step", "changed", third, "halting probability"];
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
                match (step.votes, step.conflicts.len()) {
                    (Some(votes), _) => format!("{votes} of {}", solved.looks),
                    (None, 0) => "–".to_owned(),
                    (None, count) => count.to_string(),
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
    }
}

/// The questions of a task, each beside the answers with the most votes.
fn show_task(asked: &Asked, board: &Board, answers: &[Answered], terminal: &Terminal) {
    let (tests, name) = (&asked.task.test, printable(&asked.task.name));
    let name = if name.is_empty() { "of yours" } else { &name };
    for (at, (answered, pair)) in answers.iter().zip(tests).enumerate() {
        if at > 0 {
            terminal.line("");
        }
        let number = match tests.len() {
            1 => String::new(),
            count => format!(", test input {} of {count}", at + 1),
        };
        terminal.line(style(format!("task {name}{number}")).bold());
        let mut grids = vec![coloured(&pair.input.lines())];
        for answer in &answered.solved.answers {
            grids.push(match answer.rows.first().is_none_or(Vec::is_empty) {
                true => vec!["no grid".to_owned()],
                false => coloured(&answer.rows),
            });
        }
        for line in placed(&grids) {
            terminal.line(line);
        }
        terminal.line("");
        answered.show_steps(board, terminal);
        terminal.line("");
        if let Some(last) = answered.steps.last() {
            terminal.line(verdict(board, &answered.solved, last));
        }
    }
}

/// Grids beside each other, or below each other where that is too wide to be read.
fn placed(grids: &[Vec<String>]) -> Vec<String> {
    let empty = Vec::new();
    let (first, others) = grids.split_first().unwrap_or((&empty, &[]));
    let row = others
        .iter()
        .fold(first.clone(), |lines, grid| beside(&lines, grid));
    let width = row.iter().map(|line| console::measure_text_width(line));
    match width.max().unwrap_or(0) > MAX_WIDTH {
        true => grids.join(&String::new()),
        false => row,
    }
}

/// What came of it, in a sentence.
fn verdict(board: &Board, solved: &Solved, last: &Thinking) -> String {
    match board.kind {
        BoardKind::Sudoku => verdict_of_cells(board, solved, last),
        BoardKind::Maze => verdict_of_way(solved),
        BoardKind::Arc => verdict_of_votes(solved),
    }
}

fn verdict_of_cells(board: &Board, solved: &Solved, last: &Thinking) -> String {
    let blank = |it: &&u32| **it == board.blank;
    let open = solved.puzzle.iter().filter(blank).count();
    let filled = counted(open as u64, "cell");
    match (solved.solved_at, &solved.solution) {
        (Some(step), _) => format!("solved at step {step}: {filled} filled, no rule broken"),
        (None, Some(solution)) => {
            let both = last.guess.iter().zip(solution);
            let wrong = both.filter(|(one, other)| one != other).count();
            format!("not solved: {wrong} of {filled} wrong")
        }
        (None, None) => format!(
            "not solved: {} in conflict",
            counted(last.conflicts.len() as u64, "cell")
        ),
    }
}

fn verdict_of_way(solved: &Solved) -> String {
    let Some(way) = solved.way else {
        return "not solved".to_owned();
    };
    let steps = |count: usize| counted(count as u64, "step");
    match (solved.solved_at, way.length) {
        (Some(step), Some(length)) => format!(
            "solved at step {step}: a path of {}, as short as the shortest",
            steps(length)
        ),
        (_, Some(length)) => format!(
            "not solved: a path of {}, and the shortest has {}",
            steps(length),
            way.shortest
        ),
        (_, None) => format!(
            "not solved: no path from start to goal; the shortest has {}",
            steps(way.shortest)
        ),
    }
}

fn verdict_of_votes(solved: &Solved) -> String {
    let Some(first) = solved.answers.first() else {
        return "no answer".to_owned();
    };
    let said = match solved.answers.get(1) {
        Some(second) => format!(
            "{} and {} of {} looks",
            first.votes, second.votes, solved.looks
        ),
        None => format!("{} of {} looks", first.votes, solved.looks),
    };
    let right = solved
        .answers
        .iter()
        .position(|it| it.is_right == Some(true));
    match (right, solved.solved_at, first.is_right) {
        (Some(0), Some(step), _) => format!("solved at step {step} by {said}"),
        (Some(_), ..) => format!("the second answer is right: {said}"),
        (None, _, Some(_)) => format!("not solved: the answers of {said} are wrong"),
        (None, _, None) => format!("answered by {said}; whether that is right is not known"),
    }
}

#[cfg(test)]
mod tests {
    use models::tasks::puzzle::{grid::Shape, maze::PathLengths, solve::Voted};

    use super::*;

    #[test]
    fn a_puzzle_that_is_piped_in_and_too_long_is_refused_and_not_cut() {
        let most = limits::PUZZLE.most;
        let letters = |length| io::repeat(b'1').take(length);
        assert_eq!(read_input(letters(most)).unwrap().len() as u64, most);
        let refused = read_input(letters(most + 1)).unwrap_err().message;
        assert!(refused.contains(&count(most)), "{refused}");
    }

    const SOLVED: Solved = Solved {
        puzzle: Vec::new(),
        solution: None,
        solved_at: None,
        halts_at: None,
        looks: 1,
        way: None,
        answers: Vec::new(),
        warnings: Vec::new(),
    };

    fn say(shape: Shape, solved: &Solved, conflicts: Vec<usize>) -> String {
        let last = Thinking {
            guess: vec![3, 2, 5, 5],
            confidence: vec![1.0; 4],
            changed: Vec::new(),
            conflicts,
            halt: 0.5,
            votes: None,
        };
        verdict(&Board::of(shape).unwrap(), solved, &last)
    }

    #[test]
    fn the_verdict_on_a_sudoku_says_what_is_right_and_what_is_not() {
        let shape = Shape::of(16, 6);
        let mut solved = Solved {
            puzzle: vec![1, 2, 1, 1],
            solution: Some(vec![3, 2, 4, 5]),
            solved_at: Some(3),
            ..SOLVED
        };
        let say = |solved: &Solved| say(shape, solved, vec![2, 3]);
        assert_eq!(
            say(&solved),
            "solved at step 3: 3 cells filled, no rule broken"
        );
        solved.solved_at = None;
        assert_eq!(say(&solved), "not solved: 1 of 3 cells wrong");
        solved.solution = None;
        assert_eq!(say(&solved), "not solved: 2 cells in conflict");
    }

    #[test]
    fn the_verdict_on_a_maze_says_how_long_the_path_is_beside_the_shortest() {
        let of = |solved_at, length| {
            let shortest = 8;
            let way = Some(PathLengths { length, shortest });
            let solved = Solved {
                solved_at,
                way,
                ..SOLVED
            };
            say(Shape::Maze(5), &solved, Vec::new())
        };
        let right = "solved at step 2: a path of 8 steps, as short as the shortest";
        assert_eq!(of(Some(2), Some(8)), right);
        let long = "not solved: a path of 10 steps, and the shortest has 8";
        assert_eq!(of(None, Some(10)), long);
        let none = "not solved: no path from start to goal; the shortest has 8 steps";
        assert_eq!(of(None, None), none);
    }

    #[test]
    fn the_verdict_on_a_task_says_how_many_looks_gave_which_answer() {
        let answer = |votes, is_right| Voted {
            rows: vec![vec![1]],
            votes,
            sure: 0.5,
            is_right,
        };
        let of = |solved_at, answers| {
            let solved = Solved {
                solved_at,
                looks: 8,
                answers,
                ..SOLVED
            };
            say(Shape::Arc, &solved, Vec::new())
        };
        let (right, wrong) = (answer(5, Some(true)), answer(2, Some(false)));
        let found = of(Some(3), vec![right.clone(), wrong.clone()]);
        assert_eq!(found, "solved at step 3 by 5 and 2 of 8 looks");
        let found = of(None, vec![wrong.clone(), right]);
        assert_eq!(found, "the second answer is right: 2 and 5 of 8 looks");
        let found = of(None, vec![wrong]);
        assert_eq!(found, "not solved: the answers of 2 of 8 looks are wrong");
        let found = of(None, vec![answer(8, None)]);
        assert_eq!(
            found,
            "answered by 8 of 8 looks; whether that is right is not known"
        );
    }
}
