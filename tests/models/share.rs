//! Several ranks that train one run: what each computes of a step.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use models::{
    Error, Result,
    checkpoint::keep::Checkpoints,
    train::{
        Outcome, TrainEvent, TrainState,
        group::{Group, OnHost, Reduction, Together},
        share::Share,
        train,
    },
};
use serde_json::json;

use crate::train::{BATCHES_MEASURED, Line, Watch, after_going_back, never, plan, steps_taken};

/// The weights after one step of plain gradient descent from zero, which are the gradient but for a factor, and the
/// position in the data.
fn step_of(share: Share) -> (Vec<f32>, u64) {
    let changes = json!({
        "batch": { "rows": 8, "length": 1, "accumulate": 4 },
        "optimizer": {
            "kind": "sgd", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0, "momentum": 0.0,
        },
        "evaluate": { "every": 0, "batches": 0 },
    });
    let (plan, folder) = (plan(1, changes), tempfile::tempdir().unwrap());
    let mut line = Line::new();
    let mut state = TrainState::new(&plan, &line).unwrap();
    state.share = share;
    let checkpoints = Checkpoints::new(folder.path(), 1);
    let mut watch = Watch::until(never);
    train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch).unwrap();
    (line.weight(), line.position)
}

#[test]
fn what_all_ranks_compute_of_a_step_adds_up_to_the_whole() {
    let (whole, position) = step_of(Share::ALL);
    assert!(whole.iter().all(|it| it.abs() > 0.01), "{whole:?}");
    for world in [2, 4] {
        let ranks: Vec<_> = (0..world)
            .map(|rank| step_of(Share { rank, world }))
            .collect();
        for (index, expected) in whole.iter().enumerate() {
            let sum: f32 = ranks.iter().map(|(weight, _)| weight[index]).sum();
            assert!(
                (sum - expected).abs() < 1e-6,
                "{world}: {sum} for {expected}"
            );
            assert!(ranks.iter().all(|(weight, _)| weight[index] != *expected));
        }
        assert!(ranks.iter().all(|(_, it)| *it == position), "{ranks:?}");
    }
}

/// What a rank says to the first of its group, which answers with that of all.
type Said = (Reduction, Vec<f64>);

/// A rank of a group of threads: all others speak with the first.
struct Threads {
    share: Share,
    /// To and from the first, or of the first to and from each other.
    others: Vec<(Sender<Said>, Receiver<Said>)>,
}

impl Threads {
    fn all(world: usize) -> Vec<Self> {
        let (mut first, mut ranks) = (Vec::new(), Vec::new());
        for rank in 1..world {
            let (to, from_first) = channel();
            let (to_first, from) = channel();
            first.push((to, from));
            ranks.push(Self {
                share: Share { rank, world },
                others: vec![(to_first, from_first)],
            });
        }
        ranks.insert(
            0,
            Self {
                share: Share { rank: 0, world },
                others: first,
            },
        );
        ranks
    }

    fn reduce(&self, how: Reduction, own: Vec<f64>) -> Result<Vec<f64>> {
        let gone = || Error::Peer("a rank is gone".to_owned());
        if self.share.rank > 0 {
            let (to, from) = &self.others[0];
            to.send((how, own)).map_err(|_| gone())?;
            return Ok(from.recv().map_err(|_| gone())?.1);
        }
        let mut all = own;
        for (_, from) in &self.others {
            let (theirs, numbers) = from.recv().map_err(|_| gone())?;
            assert_eq!(
                (how, all.len()),
                (theirs, numbers.len()),
                "not the same calls"
            );
            for (all, number) in all.iter_mut().zip(numbers) {
                *all = match how {
                    Reduction::Sum => *all + number,
                    Reduction::Max => all.max(number),
                };
            }
        }
        for (to, _) in &self.others {
            to.send((how, all.clone())).map_err(|_| gone())?;
        }
        Ok(all)
    }

    fn group(self) -> Box<dyn Group> {
        let share = self.share;
        let reduce = Box::new(move |how, own| self.reduce(how, own));
        Box::new(OnHost { share, reduce })
    }
}

/// How a rank ended: the run, its weights, its position in the data, what it told.
type Ended = (Result<Outcome>, Vec<f32>, u64, Vec<TrainEvent>);

/// Trains a line with so many ranks from the newest checkpoint of a folder, each as `make` makes it.
fn train_with(
    world: usize,
    steps: usize,
    folder: &Path,
    make: impl Fn(usize) -> (Line, Watch) + Sync,
) -> Vec<Ended> {
    let changes = json!({"batch": { "rows": 8, "length": 1, "accumulate": 4 }, "evaluate": { "every": 2, "batches": 0 }});
    let plan = plan(steps, changes);
    let newest = Checkpoints::new(folder, 2).newest().unwrap();
    let rank = |group: Threads| {
        let (mut line, mut watch) = make(group.share.rank);
        let mut state = TrainState::new(&plan, &line).unwrap();
        if let Some(newest) = &newest {
            state.restore(&mut line, &newest.path).unwrap();
        }
        if world > 1 {
            let devices = (0..world).map(|rank| format!("card {rank}"));
            state.join(Together::new(group.group(), devices.collect()));
        }
        let checkpoints = Checkpoints::new(folder, 2);
        let trained = train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch);
        (trained, line.weight(), line.position, watch.events)
    };
    thread::scope(|scope| {
        let ranks = Threads::all(world).into_iter();
        let ranks: Vec<_> = ranks.map(|group| scope.spawn(|| rank(group))).collect();
        ranks.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn quiet(_: usize) -> (Line, Watch) {
    (Line::new(), Watch::until(never))
}

fn close(one: &[f32], other: &[f32]) -> bool {
    one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn two_and_four_ranks_learn_what_one_learns() {
    let train = |world| {
        let folder = tempfile::tempdir().unwrap();
        train_with(world, 6, folder.path(), quiet)
    };
    let alone = &train(1)[0];
    assert_eq!(steps_taken(&alone.3), 6);
    for world in [2, 4] {
        let ranks = train(world);
        for (ended, weight, position, events) in &ranks {
            assert_eq!(*ended.as_ref().unwrap(), Outcome::Finished);
            assert!(close(weight, &alone.1), "{world}: {weight:?} {:?}", alone.1);
            assert_eq!((weight, position), (&ranks[0].1, &alone.2));
            assert_eq!(steps_taken(events), 6);
        }
        // One saves for all.
        let is_save = |it: &&TrainEvent| matches!(it, TrainEvent::Saved { .. });
        let saved = |events: &[TrainEvent]| events.iter().filter(is_save).count();
        assert!(saved(&ranks[0].3) > 0);
        assert!(ranks[1..].iter().all(|rank| saved(&rank.3) == 0));
    }
}

#[test]
fn each_rank_hears_how_all_stand() {
    let folder = tempfile::tempdir().unwrap();
    for (_, _, _, events) in train_with(2, 11, folder.path(), quiet) {
        let told = events.iter().filter_map(|it| match it {
            TrainEvent::Ranks { step, ranks } => Some((*step, ranks)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        let steps: Vec<_> = told.iter().map(|it| it.0).collect();
        assert_eq!(steps, [1, 10]);
        for (_, ranks) in told {
            let devices: Vec<_> = ranks.iter().map(|it| &it.device[..]).collect();
            assert_eq!(devices, ["card 0", "card 1"]);
            assert!(ranks.iter().all(|it| it.memory_bytes > 0), "{ranks:?}");
        }
    }
}

#[test]
fn each_rank_measures_its_share_of_the_held_out_data_and_tells_what_all_found() {
    let measured: [Arc<AtomicUsize>; 2] = Default::default();
    let folder = tempfile::tempdir().unwrap();
    let ranks = train_with(2, 6, folder.path(), |rank| {
        let mut line = Line::new();
        line.measured = measured[rank].clone();
        (line, Watch::until(never))
    });
    let losses = |rank: &Ended| {
        let losses = rank.3.iter().filter_map(|it| match it {
            TrainEvent::Evaluated { loss, .. } => Some(*loss),
            _ => None,
        });
        losses.collect::<Vec<f64>>()
    };
    let told = losses(&ranks[0]);
    assert!(told.len() > 2, "{told:?}");
    assert_eq!(told, losses(&ranks[1]));
    for measured in measured {
        let expected = told.len() * BATCHES_MEASURED / 2;
        assert_eq!(measured.load(Ordering::Relaxed), expected);
    }
    let alone = tempfile::tempdir().unwrap();
    let alone = losses(&train_with(1, 6, alone.path(), quiet)[0]);
    assert_eq!(told.len(), alone.len());
    for (together, alone) in told.iter().zip(&alone) {
        assert!((together - alone).abs() < 1e-5, "{together} {alone}");
    }
}

#[test]
fn a_run_resumes_with_another_number_of_ranks() {
    let alone = tempfile::tempdir().unwrap();
    let alone = &train_with(1, 9, alone.path(), quiet)[0];
    let folder = tempfile::tempdir().unwrap();
    for (world, steps) in [(2, 3), (1, 6), (4, 9)] {
        let ranks = train_with(world, steps, folder.path(), quiet);
        assert!(ranks.iter().all(|it| it.0.is_ok()));
        if steps == 9 {
            assert!(
                close(&ranks[3].1, &alone.1),
                "{:?} {:?}",
                ranks[3].1,
                alone.1
            );
            assert_eq!(ranks[3].2, alone.2);
        }
    }
}

#[test]
fn a_wish_of_one_rank_stops_all_at_the_same_step() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = train_with(2, 9, folder.path(), |rank| {
        let stops = move |events: &[TrainEvent]| rank == 1 && steps_taken(events) >= 3;
        (Line::new(), Watch::until(stops))
    });
    for (ended, _, _, events) in &ranks {
        assert_eq!(*ended.as_ref().unwrap(), Outcome::Stopped);
        // The others hear of it in the next.
        assert_eq!(steps_taken(events), 4);
    }
    let newest = Checkpoints::new(folder.path(), 2)
        .newest()
        .unwrap()
        .unwrap();
    assert_eq!(newest.step, 4);
}

#[test]
fn a_number_that_is_none_on_one_rank_takes_all_back() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = train_with(2, 6, folder.path(), |_| {
        let mut line = Line::new();
        // The second micro-batch of the fourth step, which is of rank 1.
        (line.broken, line.times) = (Some(13), 1);
        (line, Watch::until(never))
    });
    for (ended, weight, _, events) in &ranks {
        assert_eq!(*ended.as_ref().unwrap(), Outcome::Finished);
        assert!(after_going_back(events));
        assert_eq!(weight, &ranks[0].1);
    }
}
