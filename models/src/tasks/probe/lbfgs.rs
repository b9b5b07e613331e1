//! Logistic regression with an L2 penalty, for many labels at once: L-BFGS on all rows, with the products shared.
//!
//! Each problem minimises C Σ cᵢ log(1 + e^(-yᵢ (w·xᵢ + b))) + |w|² / 2, or the same with a softmax; the bias is free. This is the
//! objective of scikit-learn's `LogisticRegression`, whose exact optimum it reaches. Every problem has its own history and its own
//! step; an iteration is two products with the rows, whatever the number of problems. Scores along a direction are kept, so that
//! the search along it needs no further product. What has converged leaves the products.
//!
//! Results are the same to the last bit for any number of threads. Sources: Nocedal and Wright, "Numerical Optimization", 7.2 for
//! the two loops and 3.5 for the search; Böhning and Lindsay (1988) for the bound that [`Preconditioner`] follows.
//!
//! Letters: n rows, d numbers in each, k columns: one a label, or one a class of a softmax.

use std::collections::VecDeque;

use rayon::prelude::*;

use super::{
    features::Features,
    loss::{self, Point},
    precondition::Preconditioner,
};

/// Steps that a problem remembers.
const HISTORY: usize = 10;
/// A step is good enough where the slope has fallen to this share.
const SLOPE: f64 = 0.5;
/// A step has to gain this share of what the first slope promises.
const GAIN: f64 = 1e-4;
/// Steps that are tried along a direction.
const TRIALS: usize = 30;
/// How much more of the gradient may be left by fresh scores: products are f32, and their rounding may leave as much.
const ROUNDING: f64 = 10.0;
/// How often problems that left are looked at again with fresh scores.
const ROUNDS: usize = 3;

/// When a problem is solved.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The largest number of the gradient, as a share of that at the start, or of 1 where that is less.
    pub gradient: f64,
    /// What an iteration may still gain, as a share of the objective.
    pub gain: f64,
    /// Iterations after which a problem is given up, and marked.
    pub iterations: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gradient: 1e-7,
            gain: 1e-12,
            iterations: 500,
        }
    }
}

/// A linear classifier of one label: its score of a row x is w·x + b.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearClassifier {
    /// w: [d].
    pub weights: Vec<f64>,
    /// b.
    pub bias: f64,
    /// The objective, of all classes together for a softmax.
    pub objective: f64,
    /// The largest number of the gradient.
    pub gradient: f64,
    /// Iterations that it took.
    pub iterations: usize,
    /// Whether it is at the optimum. One that isn't has to be marked wherever it is shown.
    pub converged: bool,
}

/// What one label asks: which rows are positive, and how much rows of both kinds count.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// Which of n rows have the label.
    pub positive: &'a [bool],
    /// C: how much the rows count beside the penalty.
    pub c: f64,
    /// How much a negative and a positive row count.
    pub weights: [f64; 2],
}

/// Weights with which both kinds of rows count as much in all, and n as before: scikit-learn's `balanced`. Equal ones where a kind
/// is absent.
pub fn balanced(positive: &[bool]) -> [f64; 2] {
    let yes = positive.iter().filter(|it| **it).count() as f64;
    let no = positive.len() as f64 - yes;
    match yes > 0.0 && no > 0.0 {
        true => [no, yes].map(|of| positive.len() as f64 / (2.0 * of)),
        false => [1.0; 2],
    }
}

/// Fits a classifier for each label, each by itself. `start` has a classifier a label to start from.
pub fn logistic(
    features: Features<'_>,
    labels: &[Label<'_>],
    start: Option<&[LinearClassifier]>,
    preconditioner: Option<&Preconditioner>,
    options: Options,
) -> Vec<LinearClassifier> {
    let problem = |(at, label): (usize, &Label<'_>)| {
        let sign = |&positive: &bool| if positive { 1.0 } else { -1.0 };
        let loss = Loss::Logistic {
            signs: label.positive.iter().map(sign).collect(),
            weights: label.weights,
        };
        let start = start.map(|it| &it[at..=at]);
        Problem::new(loss, label.c, features, 1, start)
    };
    let mut problems: Vec<Problem<'_>> = labels.iter().enumerate().map(problem).collect();
    minimize(features, &mut problems, preconditioner, options);
    problems.into_iter().flat_map(|it| it.fits()).collect()
}

/// Fits one answer among K classes, `weights` saying how much rows of each count. The weights of all classes sum to 0, as the
/// penalty wants, and so do the biases.
pub fn multinomial(
    features: Features<'_>,
    classes: &[u32],
    weights: &[f64],
    c: f64,
    start: Option<&[LinearClassifier]>,
    options: Options,
) -> Vec<LinearClassifier> {
    let loss = Loss::Softmax {
        classes,
        weights: weights.to_vec(),
    };
    let mut problems = [Problem::new(loss, c, features, weights.len(), start)];
    minimize(features, &mut problems, None, options);
    let [problem] = problems;
    problem.fits()
}

enum Loss<'a> {
    Logistic {
        signs: Vec<f32>,
        weights: [f64; 2],
    },
    Softmax {
        classes: &'a [u32],
        weights: Vec<f64>,
    },
}

/// A problem on its way. Vectors of unknowns are the weights of its columns, then their biases: [k d + k].
pub(super) struct Problem<'a> {
    loss: Loss<'a>,
    c: f64,
    columns: usize,
    width: usize,
    unknowns: Vec<f64>,
    /// Where it starts, unless at 0.
    start: Option<Vec<f64>>,
    gradient: Vec<f64>,
    pub(super) direction: Vec<f64>,
    taken: Option<Taken>,
    /// Newest step first.
    history: VecDeque<Step>,
    /// Factors of the first of the two loops.
    factors: Vec<f64>,
    /// Scores of the rows: [k, n].
    scores: Vec<f64>,
    value: f64,
    /// The largest number of the gradient where all unknowns are 0.
    first: f64,
    iterations: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Moves,
    Converged,
    /// No step gained anything.
    Stuck,
}

/// A step that was taken, before the gradient after it is known.
struct Taken {
    step: Vec<f64>,
    /// The gradient before it.
    before: Vec<f64>,
    /// What the objective fell by.
    gained: f64,
}

/// A step of the past, and how the gradient changed.
struct Step {
    step: Vec<f64>,
    change: Vec<f64>,
    /// 1 / (step · change).
    inverse: f64,
}

impl<'a> Problem<'a> {
    fn new(
        loss: Loss<'a>,
        c: f64,
        features: Features<'_>,
        columns: usize,
        start: Option<&[LinearClassifier]>,
    ) -> Self {
        let width = features.width();
        let size = columns * (width + 1);
        let start = start.map(|fits| {
            let weights = fits.iter().flat_map(|it| it.weights.iter().copied());
            weights.chain(fits.iter().map(|it| it.bias)).collect()
        });
        Self {
            loss,
            c,
            columns,
            width,
            unknowns: vec![0.0; size],
            start,
            gradient: vec![0.0; size],
            direction: vec![0.0; size],
            taken: None,
            history: VecDeque::new(),
            factors: Vec::new(),
            scores: vec![0.0; columns * features.rows()],
            value: f64::INFINITY,
            first: 0.0,
            iterations: 0,
            state: State::Moves,
        }
    }

    fn fits(self) -> Vec<LinearClassifier> {
        let gradient = largest(&self.gradient);
        let fit = |column: usize| LinearClassifier {
            weights: self.unknowns[column * self.width..][..self.width].to_vec(),
            bias: self.unknowns[self.columns * self.width + column],
            objective: self.value,
            gradient,
            iterations: self.iterations,
            converged: self.state == State::Converged,
        };
        (0..self.columns).map(fit).collect()
    }

    fn weights(&self) -> &[f64] {
        &self.unknowns[..self.columns * self.width]
    }

    /// The objective at a step along the direction, of which `along` are the scores.
    fn at(&self, along: &[f32], step: f64, residuals: &mut [f32]) -> Point {
        let lines = (&self.scores[..], along);
        let data = match &self.loss {
            Loss::Logistic { signs, weights } => {
                loss::logistic(lines, signs, *weights, step, residuals)
            }
            Loss::Softmax { classes, weights } => {
                loss::softmax(lines, classes, weights, step, residuals)
            }
        };
        let (x, p) = (self.weights(), &self.direction[..self.weights().len()]);
        let (xx, xp, pp) = (dot(x, x), dot(x, p), dot(p, p));
        Point {
            value: self.c * data.value + 0.5 * (xx + step * (2.0 * xp + step * pp)),
            slope: self.c * data.slope + xp + step * pp,
            curvature: self.c * data.curvature + pp,
        }
    }

    /// Takes a step along the direction on which the slope has mostly gone. Residuals are those after it. `false` if none gains.
    fn step(&mut self, along: &[f32], residuals: &mut [f32]) -> bool {
        let slope = dot(&self.gradient, &self.direction);
        if slope >= 0.0 || !slope.is_finite() {
            return false;
        }
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut step = 1.0;
        if self.history.is_empty() {
            let start = self.at(along, 0.0, residuals);
            step = (-slope / start.curvature).min(1e6);
        }
        for trial in 1..=TRIALS {
            let point = self.at(along, step, residuals);
            let gains = point.value <= self.value + GAIN * step * slope;
            // Near the optimum the objective no longer tells steps apart, and the slope does (Hager and Zhang, 2005).
            let is_near = point.value <= self.value + 1e-10 * self.value.abs()
                && point.slope <= (2.0 * GAIN - 1.0) * slope;
            let is_flat = point.slope.abs() <= SLOPE * slope.abs();
            if (gains || is_near) && (is_flat || trial == TRIALS) {
                self.take(along, step, point.value);
                return true;
            }
            match point.slope > 0.0 || !point.value.is_finite() {
                true => high = step,
                false => low = step,
            }
            let newton = step - point.slope / point.curvature;
            step = match newton > low && newton < high {
                true => newton,
                false if high.is_finite() => (low + high) / 2.0,
                false => step * 2.0,
            };
        }
        false
    }

    fn take(&mut self, along: &[f32], step: f64, value: f64) {
        for (x, p) in self.unknowns.iter_mut().zip(&self.direction) {
            *x += step * p;
        }
        for (score, along) in self.scores.iter_mut().zip(along) {
            *score += step * f64::from(*along);
        }
        self.taken = Some(Taken {
            step: self.direction.iter().map(|p| step * p).collect(),
            before: self.gradient.clone(),
            gained: self.value - value,
        });
        self.iterations += 1;
        self.value = value;
    }

    /// The gradient, from the products of the residuals with the rows: [k, d].
    fn set_gradient(&mut self, products: &[f64], residuals: &[f32]) {
        let rows = residuals.len() / self.columns;
        let weights = self.columns * self.width;
        for (at, product) in products.iter().enumerate() {
            self.gradient[at] = self.c * product + self.unknowns[at];
        }
        for (column, residuals) in residuals.chunks(rows.max(1)).enumerate() {
            let sum: f64 = residuals.iter().map(|&it| f64::from(it)).sum();
            self.gradient[weights + column] = self.c * sum;
        }
    }

    /// Remembers the step that was taken, now that the gradient after it is known, and says whether the problem is solved.
    fn remember(&mut self, options: Options) {
        let Some(Taken {
            step,
            before: mut change,
            gained,
        }) = self.taken.take()
        else {
            return;
        };
        for (change, gradient) in change.iter_mut().zip(&self.gradient) {
            *change = gradient - *change;
        }
        let product = dot(&step, &change);
        if product > 1e-14 * dot(&change, &change) {
            self.history.push_front(Step {
                step,
                change,
                inverse: 1.0 / product,
            });
            self.history.truncate(HISTORY);
        }
        if self.is_flat(options.gradient) && gained <= options.gain * self.value.abs() {
            self.state = State::Converged;
        } else if self.iterations >= options.iterations {
            self.state = State::Stuck;
        }
    }

    fn is_flat(&self, share: f64) -> bool {
        largest(&self.gradient) <= share * self.first.max(1.0)
    }

    /// The first of the two loops: what is left of the gradient, in `direction`.
    fn first_loop(&mut self) {
        self.direction.copy_from_slice(&self.gradient);
        self.factors.clear();
        for it in &self.history {
            let factor = it.inverse * dot(&it.step, &self.direction);
            add(&mut self.direction, -factor, &it.change);
            self.factors.push(factor);
        }
    }

    /// The scale of the Hessian along the last step, where nothing better is known.
    fn scale(&self) -> f64 {
        let last = self.history.front();
        last.map_or(1.0, |it| 1.0 / (it.inverse * dot(&it.change, &it.change)))
    }

    /// The second of the two loops: the direction. Its weights are rounded to f32, in which its scores are computed.
    fn second_loop(&mut self) {
        for (it, factor) in self.history.iter().zip(&self.factors).rev() {
            let other = it.inverse * dot(&it.change, &self.direction);
            add(&mut self.direction, factor - other, &it.step);
        }
        for p in &mut self.direction {
            *p = f64::from(-*p as f32);
        }
    }
}

/// Numbers that all problems share, allocated once.
struct Workspace {
    directions: Vec<f32>,
    along: Vec<f32>,
    residuals: Vec<f32>,
    products: Vec<f64>,
}

/// Solves problems that all have equally many columns.
fn minimize(
    features: Features<'_>,
    problems: &mut [Problem<'_>],
    preconditioner: Option<&Preconditioner>,
    options: Options,
) {
    let (n, d) = (features.rows(), features.width());
    let columns: usize = problems.iter().map(|it| it.columns).sum();
    if columns == 0 || n == 0 || d == 0 {
        return;
    }
    let mut room = Workspace {
        directions: vec![0.0; columns * d],
        along: vec![0.0; columns * n],
        residuals: vec![0.0; columns * n],
        products: vec![0.0; columns * d],
    };
    refresh(features, problems, &mut room);
    for problem in problems.iter_mut() {
        problem.first = largest(&problem.gradient);
        if let Some(start) = problem.start.take() {
            problem.unknowns = start;
        }
    }
    for round in 0..ROUNDS {
        // What has left by its running sums is looked at again by fresh ones.
        refresh(features, problems, &mut room);
        for problem in problems.iter_mut() {
            let can_move = problem.iterations < options.iterations && round + 1 < ROUNDS;
            let is_flat = problem.is_flat(options.gradient * ROUNDING);
            problem.state = match (is_flat, can_move) {
                // Where it starts may be flat and still gain.
                (true, true) if round == 0 => State::Moves,
                (true, _) => State::Converged,
                (false, true) => State::Moves,
                (false, false) => State::Stuck,
            };
        }
        loop {
            let moves = |it: &&mut Problem<'_>| it.state == State::Moves;
            let mut active: Vec<&mut Problem<'_>> = problems.iter_mut().filter(moves).collect();
            if active.is_empty() {
                break;
            }
            iterate(features, &mut active, preconditioner, options, &mut room);
        }
    }
}

/// Scores, objective and gradient from the unknowns alone.
fn refresh(features: Features<'_>, problems: &mut [Problem<'_>], room: &mut Workspace) {
    let (n, d) = (features.rows(), features.width());
    let k = problems[0].columns;
    let unknowns = problems.iter().flat_map(|it| it.weights());
    for (into, x) in room.directions.iter_mut().zip(unknowns) {
        *into = *x as f32;
    }
    features.scores(&room.directions, &mut room.along);
    let along = room.along.par_chunks(k * n);
    let residuals = room.residuals.par_chunks_mut(k * n);
    let each = problems.par_iter_mut().zip(along).zip(residuals);
    each.for_each(|((problem, fresh), residuals)| {
        let biases = problem.unknowns[k * d..].to_vec();
        let scores = problem.scores.chunks_mut(n).zip(fresh.chunks(n));
        for ((scores, fresh), bias) in scores.zip(biases) {
            for (score, fresh) in scores.iter_mut().zip(fresh) {
                *score = f64::from(*fresh) + bias;
            }
        }
        problem.value = problem.at(fresh, 0.0, residuals).value;
    });
    let room = (&room.residuals[..], &mut room.products[..]);
    let mut all: Vec<&mut Problem<'_>> = problems.iter_mut().collect();
    set_gradients(features, &mut all, room);
}

/// The gradients of problems from the residuals of their rows.
fn set_gradients(
    features: Features<'_>,
    problems: &mut [&mut Problem<'_>],
    (residuals, products): (&[f32], &mut [f64]),
) {
    let (n, d, k) = (features.rows(), features.width(), problems[0].columns);
    let columns = problems.len() * k;
    let (residuals, products) = (&residuals[..columns * n], &mut products[..columns * d]);
    features.gradient(residuals, products);
    let parts = products.par_chunks(k * d).zip(residuals.par_chunks(k * n));
    let each = problems.par_iter_mut().zip(parts);
    each.for_each(|(problem, (products, residuals))| problem.set_gradient(products, residuals));
}

/// One step of each of these problems.
fn iterate(
    features: Features<'_>,
    problems: &mut [&mut Problem<'_>],
    preconditioner: Option<&Preconditioner>,
    options: Options,
    room: &mut Workspace,
) {
    let (n, d, k) = (features.rows(), features.width(), problems[0].columns);
    let columns = problems.len() * k;
    let directions = &mut room.directions[..columns * d];
    problems.par_iter_mut().for_each(|it| it.first_loop());
    match preconditioner {
        Some(preconditioner) => preconditioner.apply(problems, directions),
        None => problems.par_iter_mut().for_each(|it| {
            let scale = it.scale();
            it.direction.iter_mut().for_each(|p| *p *= scale);
        }),
    }
    problems.par_iter_mut().for_each(|it| it.second_loop());
    let flat = problems.iter().flat_map(|it| &it.direction[..k * d]);
    for (into, p) in directions.iter_mut().zip(flat) {
        *into = *p as f32;
    }
    let along = &mut room.along[..columns * n];
    features.scores(directions, along);
    let residuals = room.residuals[..columns * n].par_chunks_mut(k * n);
    let each = problems.par_iter_mut().zip(along.par_chunks_mut(k * n));
    each.zip(residuals)
        .for_each(|((problem, along), residuals)| {
            let biases = &problem.direction[k * d..];
            for (along, &bias) in along.chunks_mut(n).zip(biases) {
                along.iter_mut().for_each(|it| *it += bias as f32);
            }
            if !problem.step(along, residuals) {
                // What is remembered may mislead; without it, no gain is the end.
                match problem.history.is_empty() {
                    true => problem.state = State::Stuck,
                    false => problem.history.clear(),
                }
                // Residuals stay those of where it is.
                problem.at(along, 0.0, residuals);
            }
        });
    set_gradients(features, problems, (&room.residuals, &mut room.products));
    problems.par_iter_mut().for_each(|it| it.remember(options));
}

fn largest(numbers: &[f64]) -> f64 {
    numbers
        .iter()
        .fold(0.0, |largest, it| it.abs().max(largest))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, numbers: &[f64]) {
    for (to, it) in to.iter_mut().zip(numbers) {
        *to += factor * it;
    }
}
