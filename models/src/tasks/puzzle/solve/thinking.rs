//! What all looks of a puzzle say together after a step.

use std::sync::Arc;

use super::{
    super::{
        arc::{Grid, Look, SIDE, crop},
        board::Board,
        grid::{Shape, TURNED_BACK, TURNS, UNLABELLED, View, turned},
        halting::Row,
        maze,
        question::{Asked, LOOKS_SEED, Question},
        vote::Votes,
    },
    Thinking, USUAL_VOTES, Voted, probability,
};
use crate::{figures::counted, random::Random};

/// A puzzle, and how it is looked at.
pub(super) struct Sight<'a> {
    shape: Shape,
    board: &'a Board,
    question: &'a Question,
    looks: Looks<'a>,
}

/// The looks that vote.
enum Looks<'a> {
    /// Of one size: what they say is averaged, cell by cell.
    Views(Vec<View>),
    /// Of a task of ARC, each with its vector: their answers are counted.
    Task(&'a Asked, &'a [(Look, u32)]),
}

impl<'a> Sight<'a> {
    /// Looks at a puzzle in so many ways, as far as there are.
    pub(super) fn new(
        shape: Shape,
        board: &'a Board,
        question: &'a Question,
        votes: usize,
    ) -> Self {
        let looks = match &question.asked {
            None => Looks::Views(shape.views(votes.max(1), &mut Random::new(LOOKS_SEED))),
            Some(asked) => {
                let votes = if votes == 0 { USUAL_VOTES } else { votes };
                Looks::Task(asked, &asked.looks[..votes.min(asked.looks.len())])
            }
        };
        Self {
            shape,
            board,
            question,
            looks,
        }
    }

    /// How many looks there are.
    pub(super) fn count(&self) -> usize {
        match &self.looks {
            Looks::Views(views) => views.len(),
            Looks::Task(_, looks) => looks.len(),
        }
    }

    /// What is said where there are fewer looks than votes were asked for.
    pub(super) fn shortage(&self, votes: usize) -> Option<String> {
        let count = self.count();
        if count >= votes {
            return None;
        }
        Some(match &self.looks {
            Looks::Views(_) => {
                format!(
                    "A maze can be seen in {TURNS} ways, so {count} looks vote and not {votes}."
                )
            }
            Looks::Task(asked, _) if asked.is_known => format!(
                "The model learned {} of this task, so {count} of {votes} vote.",
                counted(count as u64, "look")
            ),
            Looks::Task(..) => format!(
                "This task has {} that differ, so {count} of {votes} vote.",
                counted(count as u64, "look")
            ),
        })
    }

    /// The puzzle in every look, without an answer.
    pub(super) fn rows(&self) -> Vec<Arc<Row>> {
        match &self.looks {
            Looks::Views(views) => {
                let cells = &self.question.cells;
                let cells: Vec<u8> = cells
                    .iter()
                    .map(|it| u8::try_from(*it).unwrap_or(UNLABELLED))
                    .collect();
                let row = |view: &View| {
                    let seen: Vec<u32> = view.of(&cells).into_iter().map(u32::from).collect();
                    Arc::new(Row {
                        labels: seen.clone(),
                        cells: seen,
                        puzzle: 0,
                    })
                };
                views.iter().map(row).collect()
            }
            Looks::Task(asked, looks) => {
                let row = |(look, id): &(Look, u32)| Arc::new(asked.row(look, *id));
                looks.iter().map(row).collect()
            }
        }
    }

    /// What the grid was before the first step.
    pub(super) fn before(&self) -> Vec<u32> {
        match &self.looks {
            Looks::Views(_) => self.question.cells.clone(),
            Looks::Task(..) => vec![0; self.question.cells.len()],
        }
    }

    /// What was thought after a step, from the probabilities of each look’s symbols [looks, cells, symbols] and how much each wants to
    /// halt; and the answers, where they are counted.
    pub(super) fn thinking(
        &self,
        scores: &[Vec<Vec<f32>>],
        halts: &[f32],
        before: &[u32],
    ) -> (Thinking, Vec<Voted>) {
        let (guess, confidence, votes, answers) = match &self.looks {
            Looks::Views(views) => {
                let (guess, confidence) = self.averaged(views, scores);
                (guess, confidence, None, Vec::new())
            }
            Looks::Task(asked, looks) => {
                let (guess, confidence, answers) = counted_answers(asked, looks, scores, halts);
                let votes = answers.first().map_or(0, |it| it.votes);
                (guess, confidence, Some(votes), answers)
            }
        };
        let halt = halts.iter().map(|it| probability(*it)).sum::<f32>() / halts.len().max(1) as f32;
        let thinking = Thinking {
            changed: (0..guess.len())
                .filter(|cell| guess[*cell] != before[*cell])
                .collect(),
            conflicts: self.conflicts(&guess),
            guess,
            confidence,
            halt,
            votes,
        };
        (thinking, answers)
    }

    /// The likeliest symbol of each open cell by the mean of all looks, and how likely it is.
    fn averaged(&self, views: &[View], scores: &[Vec<Vec<f32>>]) -> (Vec<u32>, Vec<f32>) {
        let given = &self.question.cells;
        let count = views.len() as f32;
        let mut sums = vec![vec![0f32; self.board.symbols.len()]; given.len()];
        for (view, scores) in views.iter().zip(scores) {
            for (scores, from) in scores.iter().zip(&view.from) {
                for (sum, seen) in sums[*from].iter_mut().zip(&view.symbols) {
                    *sum += scores[usize::from(*seen)] / count;
                }
            }
        }
        let (mut guess, mut confidence) = (given.clone(), vec![1.0; sums.len()]);
        for (cell, sums) in sums.iter().enumerate() {
            if given[cell] == self.board.blank
                && let Some((symbol, sum)) = likeliest(sums)
            {
                (guess[cell], confidence[cell]) = (symbol, sum);
            }
        }
        (guess, confidence)
    }

    /// The cells that were filled in and break a rule.
    fn conflicts(&self, guess: &[u32]) -> Vec<usize> {
        let given = &self.question.cells;
        match self.shape {
            Shape::Sudoku(shape) => {
                let digits: Vec<u8> = guess.iter().map(|it| it.saturating_sub(1) as u8).collect();
                let mut cells = shape.clashes(&digits);
                cells.retain(|cell| given[*cell] == self.board.blank);
                cells
            }
            Shape::Maze(_) => maze::loose(given, guess),
            Shape::Arc | Shape::Other { .. } => Vec::new(),
        }
    }

    /// Whether a guess is right: by the rules, or by the solution where there are none.
    pub(super) fn is_right(&self, thinking: &Thinking) -> bool {
        let guess = &thinking.guess;
        match self.shape {
            Shape::Sudoku(_) => {
                thinking.conflicts.is_empty() && guess.iter().all(|it| *it > self.board.blank)
            }
            Shape::Maze(_) => maze::judge(&self.question.cells, guess).is_shortest,
            Shape::Arc | Shape::Other { .. } => self.question.solution.as_ref() == Some(guess),
        }
    }
}

/// The likeliest symbol, and how likely it is.
fn likeliest(scores: &[f32]) -> Option<(u32, f32)> {
    let all = scores.iter().enumerate();
    let most = all.max_by(|one, other| one.1.total_cmp(other.1));
    most.map(|(symbol, score)| (symbol as u32, *score))
}

/// The answer with the most votes on all cells, how sure those who gave it are of each cell, and all answers.
fn counted_answers(
    asked: &Asked,
    looks: &[(Look, u32)],
    scores: &[Vec<Vec<f32>>],
    halts: &[f32],
) -> (Vec<u32>, Vec<f32>, Vec<Voted>) {
    let mut votes = Votes::default();
    let mut said: Vec<(&Look, Grid, Vec<f32>)> = Vec::with_capacity(looks.len());
    for (((look, _), scores), halt) in looks.iter().zip(scores).zip(halts) {
        let cells = scores.iter().map(|it| likeliest(it).unwrap_or_default());
        let (cells, sure): (Vec<u32>, Vec<f32>) = cells.unzip();
        votes.add(&asked.task, look, asked.part, &cells, *halt);
        said.push((look, crop(&cells), sure));
    }
    let ranked = votes.counted(&asked.task, asked.part);
    let output = asked.task.test[asked.part].output.as_ref();
    let voted = |(grid, votes, sure): &(&Grid, usize, f64)| Voted {
        rows: grid.lines(),
        votes: *votes,
        sure: *sure as f32,
        is_right: output.map(|it| it == *grid),
    };
    let answers: Vec<Voted> = ranked.iter().map(voted).collect();
    let best = ranked.first().map_or_else(Grid::default, |it| it.0.clone());
    let (mut sums, mut count) = (vec![0f32; SIDE * SIDE], 0f32);
    for (look, seen, sure) in said {
        if look.undo(&seen) != best {
            continue;
        }
        count += 1.0;
        let back = TURNED_BACK[usize::from(look.turn)];
        for (to, from) in turned(seen.rows, seen.columns, back)
            .into_iter()
            .enumerate()
        {
            let from = from / seen.columns * SIDE + from % seen.columns;
            sums[to / best.columns * SIDE + to % best.columns] += sure[from];
        }
    }
    let confidence = sums.into_iter().map(|it| it / count.max(1.0)).collect();
    (best.on_all_cells(), confidence, answers)
}
