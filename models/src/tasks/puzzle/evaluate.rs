//! How well puzzles are solved, counted over those kept aside.
//!
//! - exact accuracy: the share with every cell right, which papers call puzzle accuracy
//! - token accuracy: the mean share of right cells
//! - halting accuracy: the share of which the model knows whether it solved them
//! - steps to halt: after how many it would stop; it is measured after all of them
//!
//! Of mazes also the share of answers that are a path, and a shortest one; of tasks of ARC what the votes of all looks say (see
//! [`super::vote`]), and what those of all evaluations of the run say together.

use std::{path::Path, sync::Arc};

use super::{
    PuzzleTask,
    arc::{ArcExamples, Task as ArcTask},
    examples::Examples,
    grid::Shape,
    halting::{Carry, NO_LABEL, Row},
    maze,
    vote::{PASSES, Votes},
};
use crate::{
    Error, Result,
    checkpoint::save::write_file,
    limits,
    train::{
        Measuring,
        task::{Evaluation, Metric},
    },
};

/// The metric by which one checkpoint is better than another.
pub const EXACT: &str = "exact_accuracy";
/// In a checkpoint: the votes of all evaluations, and what would be handed in by them.
const VOTES: &str = "votes.json";
/// See [`VOTES`].
const SUBMISSION: &str = "submission.json";
/// During a run only the first ones are told: too few look at a task for more.
const EARLY_PASSES: usize = 2;

/// What a model answered to a puzzle.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The symbol of each cell.
    pub cells: Vec<u32>,
    /// How much it wants to halt, after the last step: above 0 it does.
    pub halt: f32,
    /// After which step it would have halted.
    pub steps: u32,
}

/// Sums over puzzles.
#[derive(Debug, Default)]
struct Sums {
    puzzles: usize,
    loss: f64,
    exact: f64,
    tokens: f64,
    halting: f64,
    steps: f64,
    paths: f64,
    shortest: f64,
}

impl Sums {
    fn numbers(&self) -> Vec<f64> {
        vec![
            self.puzzles as f64,
            self.loss,
            self.exact,
            self.tokens,
            self.halting,
            self.steps,
            self.paths,
            self.shortest,
        ]
    }

    fn of(numbers: Vec<f64>) -> Self {
        let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
        Self {
            puzzles: at(0) as usize,
            loss: at(1),
            exact: at(2),
            tokens: at(3),
            halting: at(4),
            steps: at(5),
            paths: at(6),
            shortest: at(7),
        }
    }

    /// Adds a puzzle. One without a label can't be measured.
    fn add(&mut self, shape: Shape, row: &Row, answer: &Answer) {
        let labelled = row
            .labels
            .iter()
            .zip(&answer.cells)
            .filter(|it| *it.0 != NO_LABEL);
        let (mut right, mut count) = (0, 0);
        for (label, found) in labelled {
            count += 1;
            right += usize::from(label == found);
        }
        if count == 0 {
            return;
        }
        let yes = |it: bool| f64::from(u8::from(it));
        let is_right = right == count;
        self.puzzles += 1;
        self.exact += yes(is_right);
        self.tokens += right as f64 / count as f64;
        self.halting += yes(is_right == (answer.halt >= 0.0));
        self.steps += f64::from(answer.steps);
        if let Shape::Maze(_) = shape {
            let found = maze::judge(&row.cells, &answer.cells);
            self.paths += yes(found.is_path);
            self.shortest += yes(found.is_shortest);
        }
    }

    fn metrics(&self, shape: Shape, scope: &Scope) -> Vec<Metric> {
        let share = |name: &str, label: &str, sum: f64| {
            scope.share(name, label, sum / self.puzzles as f64, self.puzzles)
        };
        let mut metrics = vec![
            share(EXACT, "exact accuracy", self.exact),
            // A mean of shares, of which no interval is known from the count of puzzles.
            Metric {
                of: None,
                ..share("token_accuracy", "token accuracy", self.tokens)
            },
            share("halting_accuracy", "halting accuracy", self.halting),
            Metric {
                higher_is_better: false,
                of: None,
                ..share("steps_to_halt", "steps to halt", self.steps)
            },
        ];
        if let Shape::Maze(_) = shape {
            metrics.push(share("valid_path", "valid paths", self.paths));
            metrics.push(share(
                "shortest_path",
                "valid and shortest paths",
                self.shortest,
            ));
        }
        metrics
    }
}

/// When it was measured, and among how many of the first answers a solution may be.
struct Scope {
    is_at_end: bool,
    passes: usize,
}

impl Scope {
    fn share(&self, name: &str, label: &str, value: f64, of: usize) -> Metric {
        let (name, label) = match self.is_at_end {
            true => (format!("{name}_at_end"), format!("{label} at the end")),
            false => (name.to_owned(), label.to_owned()),
        };
        Metric {
            name,
            label,
            value,
            higher_is_better: true,
            of: Some(of),
        }
    }

    fn passes(&self, votes: &Votes, arc: &ArcExamples, end: &str, words: &str) -> Vec<Metric> {
        let (shares, tasks) = votes.pass(measured_tasks(arc));
        let metric = |(share, most): (f64, usize)| {
            self.share(
                &format!("pass@{most}{end}"),
                &format!("pass@{most}{words}"),
                share,
                tasks,
            )
        };
        shares
            .into_iter()
            .zip(PASSES)
            .take(self.passes)
            .map(metric)
            .collect()
    }
}

fn measured_tasks(arc: &ArcExamples) -> impl Iterator<Item = &ArcTask> {
    arc.pairs.iter().map(|(task, _)| &arc.tasks.tasks[*task])
}

impl PuzzleTask {
    /// Thinks about puzzles as long as a model may. Also the loss, a sum over them.
    pub(super) fn answer(&self, rows: &[Arc<Row>]) -> Result<(Vec<Answer>, f64)> {
        let mut carry = Carry::new(&self.model, rows)?;
        let most = self.model.config().halt_max_steps as u32;
        let mut steps = vec![most; rows.len()];
        let mut step = 0;
        let (said, halts) = loop {
            let said = carry.think(&self.model, 1.0, 0.0)?;
            let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
            step += 1;
            for (least, halt) in steps.iter_mut().zip(&halts) {
                if *halt > 0.0 {
                    *least = step.min(*least);
                }
            }
            if step >= most {
                break (said, halts);
            }
        };
        let loss = f64::from(said.loss.tensor().to_scalar::<f32>()?);
        let guesses: Vec<Vec<u32>> = said.guess.to_vec2()?;
        let all = guesses.into_iter().zip(halts).zip(steps);
        let answers = all.map(|((cells, halt), steps)| Answer { cells, halt, steps });
        Ok((answers.collect(), loss))
    }

    /// A puzzle that is measured with.
    pub(super) fn held_out(&self, index: usize) -> Row {
        let held_out = &self.puzzles.held_out;
        held_out.row(held_out.pick(index), self.puzzles.shape, None)
    }

    /// Measures puzzles, which several ranks share, and counts what is answered to tasks of ARC.
    fn measure(&self, indices: &[usize], measuring: &mut Measuring) -> Result<(Sums, Votes)> {
        let (shape, mut sums, mut votes) = (self.puzzles.shape, Sums::default(), Votes::default());
        for (index, some) in indices.chunks(self.rows).enumerate() {
            if !measuring.takes(index)? {
                continue;
            }
            let rows: Vec<Arc<Row>> = some.iter().map(|it| Arc::new(self.held_out(*it))).collect();
            let (answers, loss) = self.answer(&rows)?;
            sums.loss += loss;
            for ((row, answer), index) in rows.iter().zip(&answers).zip(some) {
                sums.add(shape, row, answer);
                if let Examples::Arc(arc) = &self.puzzles.held_out {
                    let (task, look, pair) = arc.find(arc.pick(*index));
                    votes.add(
                        task,
                        look,
                        pair - task.train.len(),
                        &answer.cells,
                        answer.halt,
                    );
                }
            }
        }
        if matches!(self.puzzles.held_out, Examples::Arc(_)) {
            let own = || votes.to_json().to_string().into_bytes();
            for counted in measuring.of_others(own)? {
                let counted = serde_json::from_slice(&counted).ok();
                let counted = counted.as_ref().and_then(Votes::from_json);
                let counted = counted.ok_or_else(|| {
                    Error::Peer("a rank sent something else than its votes".to_owned())
                })?;
                votes.merge(&counted);
            }
        }
        Ok((Sums::of(measuring.of_all(sums.numbers())?), votes))
    }

    /// Measures so many batches of the puzzles that are measured with during a run, all of them for 0.
    pub(super) fn evaluate_some(
        &mut self,
        batches: usize,
        measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        let most = match batches {
            0 => usize::MAX,
            batches => batches.saturating_mul(self.rows),
        };
        let count = self.measured.len().min(most);
        let is_all = count == self.puzzles.held_out.len();
        let scope = Scope {
            is_at_end: false,
            passes: if is_all { PASSES.len() } else { EARLY_PASSES },
        };
        let (sums, votes) = self.measure(&self.measured[..count], measuring)?;
        if sums.puzzles == 0 {
            return Ok(None);
        }
        let mut metrics = sums.metrics(self.puzzles.shape, &scope);
        metrics.extend(self.count_votes(votes, &scope));
        Ok(Some(Evaluation {
            loss: sums.loss / sums.puzzles as f64,
            metrics,
            targets: sums.puzzles,
        }))
    }

    /// Measures what is measured when all steps are done, where that is more than was measured during the run.
    pub(super) fn evaluate_at_end(&mut self, measuring: &mut Measuring) -> Result<Vec<Metric>> {
        let indices = self.puzzles.measured(self.measured_at_end, self.seed);
        if indices.len() <= self.measured.len() {
            return Ok(Vec::new());
        }
        let scope = Scope {
            is_at_end: true,
            passes: PASSES.len(),
        };
        let (sums, votes) = self.measure(&indices, measuring)?;
        let mut metrics = sums.metrics(self.puzzles.shape, &scope);
        metrics.extend(self.count_votes(votes, &scope));
        Ok(metrics)
    }

    /// What the votes of this evaluation say, and with those of all before. A model that learned nothing has no vote.
    fn count_votes(&mut self, votes: Votes, scope: &Scope) -> Vec<Metric> {
        let Examples::Arc(arc) = &self.puzzles.held_out else {
            return Vec::new();
        };
        let mut metrics = scope.passes(&votes, arc, "", "");
        if self.position.batches > 0 {
            self.votes.merge(&votes);
            metrics.extend(scope.passes(&self.votes, arc, "_pooled", ", all evaluations"));
        }
        metrics
    }

    /// Writes the votes into a checkpoint, and what would be handed in.
    pub(super) fn save_votes(&self, folder: &Path) -> Result<()> {
        let Examples::Arc(arc) = &self.puzzles.held_out else {
            return Ok(());
        };
        if self.votes.count() == 0 {
            return Ok(());
        }
        let submission = self.votes.submission(measured_tasks(arc));
        write_file(
            &folder.join(VOTES),
            self.votes.to_json().to_string().as_bytes(),
        )?;
        write_file(&folder.join(SUBMISSION), submission.to_string().as_bytes())
    }

    /// Reads the votes of a checkpoint.
    pub(super) fn load_votes(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(VOTES);
        let text = limits::VOTES.read_text_if_there(&path, "read the votes")?;
        let read = |text: String| {
            let json = serde_json::from_str(&text).ok();
            json.as_ref()
                .and_then(Votes::from_json)
                .ok_or_else(|| Error::format(&path, "has no votes"))
        };
        self.votes = text.map(read).transpose()?.unwrap_or_default();
        Ok(())
    }
}
