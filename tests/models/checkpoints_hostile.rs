//! The files of a checkpoint that a run of each kind continues from, changed by somebody (see `hostile.rs`): what an optimizer, an
//! average, a carry, a vote or a probe was. What is read is also used, by a step or by a puzzle that is solved.

use std::{
    cell::RefCell,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    rc::Rc,
};

use candle_core::{DType, Device};
use models::{
    checkpoint::keep::Checkpoints,
    limits::{self, Limit},
    tasks::{
        kinds::{Picture, Probe, Puzzle},
        puzzle::solve::{Effort, Solver},
    },
    train::{Kind, RunPlace, TrainPlan, TrainState, try_steps},
};
use serde_json::json;

use crate::{
    fuzz::Reader, hostile::reading, kind::run_from_newest, picture_run, probe_run, puzzles,
    puzzles_data,
};

/// A file of a checkpoint: the name of its reader, its limit, and its own.
type File = (&'static str, Option<Limit>, &'static str);

const OF_PUZZLES: [File; 5] = [
    ("saved_optimizer", None, "optimizer.safetensors"),
    ("saved_average", None, "ema.safetensors"),
    ("saved_weights", None, "learning.safetensors"),
    ("saved_carry", None, "carry.safetensors"),
    ("saved_votes", Some(limits::VOTES), "votes.json"),
];
const OF_PICTURES: [File; 2] = [
    ("saved_codes", None, "optimizer.safetensors"),
    ("saved_lookahead", None, "lookahead.safetensors"),
];
const OF_PROBES: [File; 1] = [("saved_probes", None, "learned.safetensors")];

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let work = &work.join("checkpoints");
    let tasks = puzzles_data::tasks(&work.join("tasks"));
    let puzzle = puzzles::plan_of(&tasks, puzzles_data::tiny_run());
    let stripes = picture_run::stripes(work, 16, 4);
    let changes = json!({"optimizer": {"kind": "adamw_8bit"}, "picture": {"lookahead_every": 1, "lookahead_decay": 0.9},
        "batch": {"rows": 4}, "steps": 2, "save": {"every": 1}, "evaluate": {"every": 0}});
    let picture = picture_run::plan_of(&stripes, changes);
    let made = probe_run::Made::new();
    let probe = made.plan(json!({"probe": {"sites": ["embed", "block.0"]}, "save": {"every": 1}}));

    let mut readers = of_run::<Puzzle>(work, &puzzle, &OF_PUZZLES);
    let checkpoint = readers[0].file.parent().unwrap().to_owned();
    readers.extend(of_solver(work, &checkpoint));
    readers.extend(of_run::<Picture>(work, &picture, &OF_PICTURES));
    readers.extend(of_run::<Probe>(work, &probe, &OF_PROBES));
    readers
}

/// Readers of some files in the newest checkpoint of a run, each in a copy of it.
fn of_run<K: Kind>(work: &Path, plan: &TrainPlan<K::Plan>, files: &[File]) -> Vec<Reader>
where
    K::Task: 'static,
    TrainPlan<K::Plan>: Clone + 'static,
{
    let run = work.join(files[0].0).join("run");
    fs::create_dir_all(&run).unwrap();
    run_from_newest::<K>(plan, &run, &mut Vec::new());
    let place = RunPlace {
        folder: &run,
        ..RunPlace::bare(&Device::Cpu)
    };
    let task = Rc::new(RefCell::new(K::open(plan, &place).unwrap()));
    let reader = |file: &File| {
        let (plan, task) = (plan.clone(), task.clone());
        let continues = move |file: &Path| {
            let task = &mut *task.borrow_mut();
            let mut state = TrainState::new(&plan, task)?;
            state.restore(task, file.parent().unwrap_or(file))?;
            try_steps(&plan.run, task, &mut state, 1, &|| false).map(drop)
        };
        in_copy(work, &newest_with(&run, file.2), *file, continues)
    };
    files.iter().map(reader).collect()
}

/// Readers of what solves puzzles: what the model is, the tasks that it learned from, and a puzzle to solve.
fn of_solver(work: &Path, checkpoint: &Path) -> Vec<Reader> {
    let task = puzzles_data::task(4).to_string();
    let ask = |solver: &Solver, puzzle: &str| {
        let question = solver.read(puzzle, 0)?;
        let effort = Effort { steps: 1, votes: 4 };
        let solved = solver.solve(&question, effort, &mut |_| ControlFlow::Continue(()));
        solved.map(drop)
    };
    let open = |folder: &Path| Solver::open(folder, DType::F32, &Device::Cpu);
    let json = (Some(limits::MODEL_JSON), Some(limits::PUZZLE_JSON));
    let files = [
        ("saved_puzzle", json.0, "puzzle.json"),
        ("saved_tasks", json.1, "tasks.json"),
    ];
    let asked = task.clone();
    let mut readers = Vec::from(files.map(|file| {
        let task = task.clone();
        let solves = move |file: &Path| ask(&open(file.parent().unwrap_or(file))?, &task);
        in_copy(work, checkpoint, file, solves)
    }));
    let solver = open(checkpoint).unwrap();
    let file = work.join("asked/puzzle.json");
    let read =
        reading(move |file| ask(&solver, &String::from_utf8_lossy(&fs::read(file).unwrap())));
    readers.push(Reader::small(
        "puzzle_asked",
        2,
        None,
        file,
        vec![asked.into_bytes()],
        read,
    ));
    readers
}

/// The newest checkpoint of a run that has this file: that of a study which is done has no half of one.
fn newest_with(run: &Path, file: &str) -> PathBuf {
    let checkpoints = Checkpoints::new(run, 1).whole().unwrap().into_iter().rev();
    let mut paths = checkpoints.map(|it| it.path);
    paths.find(|it| it.join(file).is_file()).unwrap()
}

/// A reader of one file in a copy of a folder.
fn in_copy(
    work: &Path,
    from: &Path,
    (name, most, file): File,
    read: impl Fn(&Path) -> models::Result<()> + 'static,
) -> Reader {
    let folder = work.join(name).join("changed");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let file = folder.join(file);
    let sample = fs::read(&file).unwrap();
    Reader::small(name, 1, most, file, vec![sample], reading(read))
}
