//! The answers of many looks of a task, undone and counted: what most of them say is the answer.
//!
//! As in the reference. An answer is cut out, turned back, and gets its colours back. Those that are the same are votes for one
//! grid; of grids with as many votes, that comes first for which the model was surer. A pair is right within k when its solution is
//! among the first k; a task counts by the share of its pairs. What differs: a pair without any answer has a place in the submission.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::arc::{Grid, Look, Task, crop};

/// Among how many of the first the solution may be.
pub const PASSES: [usize; 6] = [1, 2, 5, 10, 100, 1000];

/// Votes for the answers to pairs: by the task's name, and by which of its test pairs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Votes {
    pairs: BTreeMap<(String, usize), BTreeMap<Grid, Vote>>,
}

/// What speaks for a grid.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Vote {
    count: usize,
    /// The sum of how sure the model was, each from 0 to 1.
    sure: f64,
}

impl Votes {
    /// Counts what was answered to one look of a test pair of a task.
    pub fn add(&mut self, task: &Task, look: &Look, test: usize, cells: &[u32], halt: f32) {
        let answer = look.undo(&crop(cells));
        let key = (task.name.clone(), first_alike(task, test));
        let vote = self
            .pairs
            .entry(key)
            .or_default()
            .entry(answer)
            .or_default();
        vote.count += 1;
        vote.sure += 1.0 / (1.0 + f64::from(-halt).exp());
    }

    /// Adds other votes.
    pub fn merge(&mut self, other: &Self) {
        for (key, answers) in &other.pairs {
            let all = self.pairs.entry(key.clone()).or_default();
            for (grid, vote) in answers {
                let sum = all.entry(grid.clone()).or_default();
                sum.count += vote.count;
                sum.sure += vote.sure;
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let answers = self.pairs.values().flat_map(BTreeMap::values);
        answers.map(|vote| vote.count).sum()
    }

    /// The answers to a test pair, that with the most votes first.
    pub fn ranked(&self, task: &Task, test: usize) -> Vec<&Grid> {
        let answers = self.counted(task, test);
        answers.into_iter().map(|it| it.0).collect()
    }

    /// The same, each with its votes and how sure the model was of it on average, from 0 to 1.
    pub fn counted(&self, task: &Task, test: usize) -> Vec<(&Grid, usize, f64)> {
        let key = (task.name.clone(), first_alike(task, test));
        let answers = self.pairs.get(&key);
        let mut answers: Vec<(&Grid, &Vote)> = answers.into_iter().flatten().collect();
        let mean = |vote: &Vote| vote.sure / vote.count.max(1) as f64;
        answers.sort_by(|(_, one), (_, other)| {
            let by_count = other.count.cmp(&one.count);
            by_count.then(mean(other).total_cmp(&mean(one)))
        });
        let counted = |(grid, vote): (_, &Vote)| (grid, vote.count, mean(vote));
        answers.into_iter().map(counted).collect()
    }

    /// For each of [`PASSES`], the share of tasks that are right, a task by the share of its pairs. Tasks without a known solution
    /// don't count; a pair without an answer is wrong.
    pub fn pass<'a>(&self, tasks: impl Iterator<Item = &'a Task>) -> ([f64; PASSES.len()], usize) {
        let (mut sums, mut count) = ([0.0; PASSES.len()], 0);
        for task in tasks {
            let known: Vec<(usize, &Grid)> = task
                .test
                .iter()
                .enumerate()
                .filter_map(|(test, pair)| Some((test, pair.output.as_ref()?)))
                .collect();
            if known.is_empty() {
                continue;
            }
            count += 1;
            for (test, solution) in &known {
                let ranked = self.ranked(task, *test);
                let place = ranked.iter().position(|grid| grid == solution);
                for (sum, most) in sums.iter_mut().zip(PASSES) {
                    *sum +=
                        f64::from(u8::from(place.is_some_and(|it| it < most))) / known.len() as f64;
                }
            }
        }
        (sums.map(|sum| sum / count.max(1) as f64), count)
    }

    /// What is handed in: two attempts for each test pair of each task.
    pub fn submission<'a>(&self, tasks: impl Iterator<Item = &'a Task>) -> Json {
        let attempts = |task: &Task, test: usize| {
            let ranked = self.ranked(task, test);
            let attempt = |place: usize| {
                let grid = ranked.get(place).or(ranked.first());
                let grid = grid.filter(|it| !it.cells.is_empty());
                grid.map_or_else(|| vec![vec![0]], |it| it.lines())
            };
            json!({"attempt_1": attempt(0), "attempt_2": attempt(1)})
        };
        let all = tasks.map(|task| {
            let pairs: Vec<Json> = (0..task.test.len())
                .map(|test| attempts(task, test))
                .collect();
            (task.name.clone(), Json::from(pairs))
        });
        Json::Object(all.collect::<Map<_, _>>())
    }

    /// All of it, to be continued with later.
    pub fn to_json(&self) -> Json {
        let answers = self.pairs.iter().flat_map(|((task, test), answers)| {
            answers.iter().map(move |(grid, vote)| {
                let cells: String = grid.cells.iter().map(u8::to_string).collect();
                json!([task, test, grid.columns, cells, vote.count, vote.sure])
            })
        });
        Json::from(answers.collect::<Vec<_>>())
    }

    /// What [`Self::to_json`] wrote. Nothing where it is something else.
    pub fn from_json(written: &Json) -> Option<Self> {
        let mut votes = Self::default();
        for answer in written.as_array()? {
            let [task, test, columns, cells, count, sure] = answer.as_array()?.as_slice() else {
                return None;
            };
            let digit = |it: char| it.to_digit(10).map(|it| it as u8);
            let cells: Vec<u8> = cells.as_str()?.chars().map(digit).collect::<Option<_>>()?;
            let columns = columns.as_u64()? as usize;
            let grid = Grid {
                rows: cells.len().checked_div(columns).unwrap_or(0),
                columns,
                cells,
            };
            let vote = Vote {
                count: count.as_u64()? as usize,
                sure: sure.as_f64()?,
            };
            let key = (task.as_str()?.to_owned(), test.as_u64()? as usize);
            votes.pairs.entry(key).or_default().insert(grid, vote);
        }
        Some(votes)
    }
}

/// The first test pair with the same input: what is the same question has one answer.
fn first_alike(task: &Task, test: usize) -> usize {
    let input = &task.test[test].input;
    let same = task.test.iter().position(|it| it.input == *input);
    same.unwrap_or(test)
}

#[cfg(test)]
mod tests {
    use super::{
        super::arc::{Pair, encode},
        *,
    };

    fn grid(columns: usize, cells: &[u8]) -> Grid {
        Grid {
            rows: cells.len() / columns,
            columns,
            cells: cells.to_vec(),
        }
    }

    fn task(name: &str, tests: &[(Grid, Grid)]) -> Task {
        let pair = |(input, output): &(Grid, Grid)| Pair {
            input: input.clone(),
            output: Some(output.clone()),
        };
        Task {
            name: name.to_owned(),
            train: Vec::new(),
            test: tests.iter().map(pair).collect(),
            is_measured: true,
        }
    }

    fn symbols(grid: &Grid) -> Vec<u32> {
        encode(grid, (0, 0)).map(u32::from).into()
    }

    #[test]
    fn votes_are_counted_by_what_was_meant_and_then_by_how_sure_the_model_was() {
        let (right, wrong, other) = (grid(2, &[1, 2, 3, 4]), grid(1, &[5]), grid(1, &[6]));
        let tasks = [
            task(
                "a",
                &[
                    (grid(1, &[1]), right.clone()),
                    (grid(1, &[2]), wrong.clone()),
                ],
            ),
            task("b", &[(grid(1, &[3]), right.clone())]),
        ];
        let look = Look {
            turn: 3,
            colours: [0, 9, 1, 2, 3, 4, 5, 6, 7, 8],
        };
        let mut votes = Votes::default();
        let plain = Look::PLAIN;
        // One vote for each of two, of which the model is surer of the second.
        votes.add(&tasks[0], &plain, 0, &symbols(&wrong), -1.0);
        votes.add(&tasks[0], &look, 0, &symbols(&look.of(&right)), 1.0);
        // Two votes of little conviction are more than one.
        votes.add(&tasks[0], &plain, 1, &symbols(&wrong), 5.0);
        votes.add(&tasks[0], &plain, 1, &symbols(&other), -5.0);
        votes.add(&tasks[0], &look, 1, &symbols(&look.of(&other)), -5.0);
        assert_eq!(votes.ranked(&tasks[0], 0), [&right, &wrong]);
        assert_eq!(votes.ranked(&tasks[0], 1), [&other, &wrong]);
        // Task a is half right at once, and whole within two. Nothing was answered to b.
        assert_eq!(
            votes.pass(tasks.iter()),
            ([0.25, 0.5, 0.5, 0.5, 0.5, 0.5], 2)
        );
        assert_eq!(votes.count(), 5);
        let submission = votes.submission(tasks.iter());
        assert_eq!(
            submission,
            json!({
                "a": [
                    {"attempt_1": [[1, 2], [3, 4]], "attempt_2": [[5]]},
                    {"attempt_1": [[6]], "attempt_2": [[5]]},
                ],
                "b": [{"attempt_1": [[0]], "attempt_2": [[0]]}],
            })
        );
        assert_eq!(Votes::from_json(&votes.to_json()), Some(votes.clone()));
        let mut both = votes.clone();
        both.merge(&votes);
        assert_eq!(
            (both.count(), both.ranked(&tasks[0], 0)),
            (10, vec![&right, &wrong])
        );
    }

    #[test]
    fn one_answer_is_handed_in_twice_and_one_question_has_one_answer() {
        let answer = grid(1, &[7]);
        let same = grid(1, &[1]);
        let twice = task(
            "a",
            &[(same.clone(), answer.clone()), (same, answer.clone())],
        );
        let mut votes = Votes::default();
        votes.add(&twice, &Look::PLAIN, 1, &symbols(&answer), 0.0);
        let attempt = json!({"attempt_1": [[7]], "attempt_2": [[7]]});
        assert_eq!(
            votes.submission([&twice].into_iter()),
            json!({"a": [attempt, attempt]})
        );
        assert_eq!(votes.pass([&twice].into_iter()).0[0], 1.0);
    }

    #[test]
    fn an_answer_without_a_cell_is_a_vote_and_is_handed_in_as_one_cell() {
        let one = task("a", &[(grid(1, &[1]), grid(1, &[7]))]);
        let mut votes = Votes::default();
        votes.add(&one, &Look::PLAIN, 0, &[0; 900], 0.0);
        assert_eq!(votes.count(), 1);
        assert_eq!(
            votes.submission([&one].into_iter())["a"][0]["attempt_1"],
            json!([[0]])
        );
        assert_eq!(Votes::from_json(&votes.to_json()), Some(votes));
    }
}
