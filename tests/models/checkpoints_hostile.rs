//! Parts of a checkpoint that somebody changed (see `hostile.rs`): what a run goes on from, and what is asked of it afterwards.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    checkpoint::keep::Checkpoints,
    limits::{self, Limit},
    tasks::{language::Language, picture::Picture, puzzle::Puzzle},
    train::{Kind, Place, TrainPlan, TrainState, tree::Part},
};
use serde_json::{Value as Json, json};

use crate::{
    fuzz::Reader, hostile::reading, kind::run_from_newest, language, picture_run, puzzles,
    puzzles_data::tasks, solve,
};

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_tasks(work);
    readers.extend(of_pictures(work));
    readers.extend(of_words(work));
    readers.extend(of_puzzles_to_solve(work));
    readers
}

/// A short run of puzzles on few weights.
fn small_plan(
    data: &Path,
    changes: &Json,
) -> TrainPlan<models::tasks::puzzle::request::PuzzlePlan> {
    let mut tree = json!({
        "trm": {"mlp_t": false, "pos_encodings": "rope", "hidden_size": 8, "num_heads": 1, "L_layers": 1, "H_cycles": 1,
            "L_cycles": 1, "halt_max_steps": 2, "puzzle_emb_len": 1},
        "batch": {"rows": 2, "accumulate": 1}, "steps": 2, "schedule": {"warmup_steps": 1}, "save": {"every": 2},
        "evaluate": {"every": 2},
    });
    crate::kind::change(&mut tree, changes);
    puzzles::plan_of(data, tree)
}

/// A run of tasks of ARC: what each row carries, how the looks voted, and the tasks themselves.
fn of_tasks(work: &Path) -> Vec<Reader> {
    let data = tasks(&work.join("checkpoint_tasks"));
    let changes = json!({"data": {"augmentations": 3, "evaluate_puzzles": 2}});
    let plan = small_plan(&data, &changes);
    let saved = Saved::of::<Puzzle>(work, "tasks", &plan);
    vec![
        saved.resumed::<Puzzle>("checkpoint_carry", 3, None, "carry.safetensors", &plan),
        saved.resumed::<Puzzle>(
            "checkpoint_votes",
            3,
            Some(limits::VOTES),
            "votes.json",
            &plan,
        ),
        saved.resumed::<Puzzle>(
            "checkpoint_optimizer",
            3,
            None,
            "optimizer.safetensors",
            &plan,
        ),
        saved.opened(
            "checkpoint_learned",
            3,
            Some(limits::PUZZLE_JSON),
            "tasks.json",
        ),
        saved.opened(
            "checkpoint_puzzle",
            3,
            Some(limits::MODEL_JSON),
            "puzzle.json",
        ),
    ]
}

/// A run of pictures: the slower copy of its weights.
fn of_pictures(work: &Path) -> Vec<Reader> {
    let data = picture_run::stripes(&work.join("checkpoint_pictures"), 8, 4);
    let changes = json!({"picture": {"lookahead_every": 1, "lookahead_decay": 0.9}, "batch": {"rows": 4}, "steps": 2,
        "schedule": {"warmup_steps": 1}, "save": {"every": 2}, "evaluate": {"every": 0}});
    let plan = picture_run::plan_of(&data, changes);
    let saved = Saved::of::<Picture>(work, "pictures", &plan);
    let file = "lookahead.safetensors";
    vec![saved.resumed::<Picture>("checkpoint_lookahead", 2, None, file, &plan)]
}

/// A run of words: all that its state says, and how the model is to be used.
fn of_words(work: &Path) -> Vec<Reader> {
    let folder = work.join("checkpoint_words");
    fs::create_dir_all(&folder).unwrap();
    let mut plan = language::plan("scratch", &language::chat_file(&folder), None);
    (plan.run.steps, plan.run.save.every) = (2, 2);
    let saved = Saved::of::<Language>(work, "words", &plan);
    let most = Some(limits::MODEL_JSON);
    let used = saved.folder(work, "checkpoint_use").join("anneal.json");
    let sample = fs::read(&used).unwrap();
    let open = |file: &Path| {
        let folder = file.parent().unwrap_or(file);
        models::tasks::language::model::LanguageModel::open(
            folder,
            models::checkpoint::load::LoadDtypes::F32,
            &Device::Cpu,
        )
        .map(drop)
    };
    vec![
        saved.resumed::<Language>("checkpoint_state", 4, most, "state.json", &plan),
        reader("checkpoint_use", 2, most, used, vec![sample], open),
    ]
}

/// Puzzles that a model is asked to solve.
fn of_puzzles_to_solve(work: &Path) -> Vec<Reader> {
    let task = r#"{"train": [{"input": [[1, 2], [0, 5]], "output": [[2]]}], "test": [{"input": [[3]]}, {"input": [[3, 4]]}]}"#;
    let sudoku = "1...\n..2.\n.3..\n...4\n";
    let (of_sudoku, of_tasks) = (work.join("solve_sudoku"), work.join("solve_tasks"));
    let samples = [
        (
            "puzzle_to_solve",
            puzzles::plan(&of_sudoku, json!({"steps": 1, "save": {"every": 1}})),
            sudoku,
        ),
        (
            "task_to_solve",
            small_plan(&tasks(&of_tasks), &json!({"data": {"augmentations": 3}})),
            task,
        ),
    ];
    let readers = samples.map(|(name, plan, sample)| {
        let saved = Saved::of::<Puzzle>(work, name, &plan);
        let solver = solve::open(&saved.newest).unwrap();
        let file = work.join(name).join("puzzle.txt");
        let most = Some(limits::PUZZLE);
        reader(name, 3, most, file, vec![sample.into()], move |file| {
            let bytes = limits::PUZZLE.read(file, "read the puzzle")?;
            let text = String::from_utf8_lossy(&bytes);
            let parts = solver.read(&text, 0)?.parts();
            (0..parts.min(4)).try_for_each(|part| solver.read(&text, part).map(drop))
        })
    });
    readers.into()
}

/// A checkpoint of a short run.
struct Saved {
    work: PathBuf,
    newest: PathBuf,
}

impl Saved {
    fn of<K: Kind>(work: &Path, name: &str, plan: &TrainPlan<K::Plan>) -> Self {
        let folder = work.join(name).join("run");
        run_from_newest::<K>(plan, &folder, &mut Vec::new());
        Self {
            work: work.to_owned(),
            newest: Checkpoints::new(&folder, 1).newest().unwrap().unwrap().path,
        }
    }

    /// A copy, of which a file is to be changed.
    fn folder(&self, work: &Path, name: &str) -> PathBuf {
        let folder = work.join(name);
        fs::create_dir_all(&folder).unwrap();
        for file in fs::read_dir(&self.newest).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
        folder
    }

    /// A run goes on from it. What says the sums of the files is not asked: it would refuse all of them.
    fn resumed<K: Kind>(
        &self,
        name: &'static str,
        share: usize,
        most: Option<Limit>,
        file: &str,
        plan: &TrainPlan<K::Plan>,
    ) -> Reader
    where
        K::Plan: Part,
        K::Task: 'static,
    {
        let file = self.folder(&self.work, name).join(file);
        let place = Place {
            folder: &self.work,
            ..Place::bare(&Device::Cpu)
        };
        let task = K::open(plan, &place).unwrap();
        let state = TrainState::new(plan, &task).unwrap();
        let both = RefCell::new((task, state));
        let sample = fs::read(&file).unwrap();
        reader(name, share, most, file, vec![sample], move |file| {
            let (task, state) = &mut *both.borrow_mut();
            state.restore(task, file.parent().unwrap_or(file))
        })
    }

    /// It is opened to solve puzzles.
    fn opened(&self, name: &'static str, share: usize, most: Option<Limit>, file: &str) -> Reader {
        let file = self.folder(&self.work, name).join(file);
        let sample = fs::read(&file).unwrap();
        reader(name, share, most, file, vec![sample], |file| {
            let solver = solve::open(file.parent().unwrap_or(file))?;
            drop((solver.board().clone(), solver.steps(), solver.weights()));
            Ok(())
        })
    }
}

fn reader(
    name: &'static str,
    share: usize,
    most: Option<Limit>,
    file: PathBuf,
    samples: Vec<Vec<u8>>,
    read: impl Fn(&Path) -> models::Result<()> + 'static,
) -> Reader {
    fs::create_dir_all(file.parent().unwrap_or(&file)).unwrap();
    Reader {
        name,
        share,
        most,
        megabytes: 64,
        seconds: 5.0,
        file,
        samples,
        read: reading(read),
    }
}
