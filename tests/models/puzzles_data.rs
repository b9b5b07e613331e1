//! What runs of puzzles learn from: every layout of files, what is the same in all of them, and what is measured.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    Error,
    checkpoint::keep::Checkpoints,
    tasks::puzzle::{
        Puzzle,
        arc::{ArcExamples, Tasks},
        arc_files,
        examples::Examples,
        grid::Shape,
        halting::{NO_LABEL, Row},
        make, reference,
        request::PuzzleRequest,
        source::{Choice, PuzzleSet, places},
        sudoku::Sudoku,
    },
    train::{Kind, Measuring, RunPlace, Task, TrainRequest},
};
use serde_json::{Value as Json, json};

use crate::puzzles::{check_resume, plan_of};

const CHOICE: Choice = Choice {
    held_out: 0.2,
    subsample_size: 0,
    min_difficulty: 0,
    augmentations: 3,
    seed: 1,
};

fn read(path: &Path) -> PuzzleSet {
    PuzzleSet::read(&[path.to_owned()], &CHOICE).unwrap()
}

/// All examples as they are.
fn rows(set: &PuzzleSet, examples: &Examples) -> Vec<Row> {
    let row = |index| examples.row(examples.pick(index), set.shape, None);
    (0..examples.len()).map(row).collect()
}

/// The forms of all puzzles of a part.
fn forms_of(
    set: &PuzzleSet,
    examples: &Examples,
    form: &dyn Fn(&[u8]) -> Vec<u8>,
) -> BTreeSet<Vec<u8>> {
    let of = |row: Row| {
        let cells: Vec<u8> = row.cells.iter().map(|it| *it as u8).collect();
        form(&cells)
    };
    rows(set, examples).into_iter().map(of).collect()
}

fn sudoku(folder: &Path, size: usize, count: usize, held_out: usize) -> PathBuf {
    let order = make::Order {
        shape: Sudoku::of_cells(size * size).unwrap(),
        count,
        givens: 0..=size,
        min_rating: 0,
        seed: 7,
    };
    make::write(&make::make(&order).unwrap(), held_out, folder).unwrap();
    folder.to_owned()
}

/// A task of ARC whose inputs are half of one colour.
pub(crate) fn task(colour: u8) -> Json {
    let pair = |size: usize| {
        let line = vec![colour; size];
        json!({"input": [line, vec![0; size]], "output": [line]})
    };
    json!({"train": [pair(2), pair(3), pair(4)], "test": [pair(5), pair(6)]})
}

/// Four small tasks, one of which is measured with.
pub(crate) fn tasks(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, tasks: Json| fs::write(folder.join(name), tasks.to_string()).unwrap();
    write(
        arc_files::TRAIN,
        json!({"a": task(1), "b": task(2), "c": task(3)}),
    );
    write(arc_files::TEST, json!({"d": task(4)}));
    folder.to_owned()
}

/// What makes a run on [`tasks`] as small as it can be.
pub(crate) fn tiny_run() -> Json {
    json!({
        "data": {"augmentations": 3, "evaluate_puzzles": 5},
        "trm": {"mlp_t": false, "pos_encodings": "rope", "hidden_size": 8, "num_heads": 1, "L_layers": 1,
            "H_cycles": 1, "L_cycles": 1, "halt_max_steps": 2, "puzzle_emb_len": 1},
        "batch": {"rows": 2, "accumulate": 1},
    })
}

/// Arrays that NumPy wrote: see `tests/goldens/puzzle_arrays.py`.
#[test]
fn arrays_of_numpy_of_every_type_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/puzzle-arrays");
    let set = read(&folder);
    assert_eq!(set.shape, Shape::Sudoku(Sudoku::of_cells(16).unwrap()));
    assert_eq!(
        (set.ids, set.train.groups(), set.held_out.groups()),
        (3, 2, 2)
    );
    let (train, test) = (rows(&set, &set.train), rows(&set, &set.held_out));
    assert_eq!((train.len(), test.len()), (6, 2));
    let ids: Vec<u32> = train.iter().map(|it| it.puzzle).collect();
    assert_eq!(ids, [1, 2, 2, 0, 0, 0]);
    for (index, row) in train.iter().enumerate() {
        for cell in 0..16 {
            let solution = [1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1][cell];
            let symbol = (solution + index as u32) % 4 + 2;
            let given = cell < index || (cell - index) % 3 > 0;
            assert_eq!(
                row.cells[cell],
                if given { symbol } else { 1 },
                "{index} {cell}"
            );
            assert_eq!(row.labels[cell], if cell == 5 { NO_LABEL } else { symbol });
        }
    }
}

#[test]
fn what_is_written_for_the_reference_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = sudoku(&folder.path().join("table"), 4, 30, 6);
    let set = read(&table);
    let arrays = folder.path().join("arrays");
    reference::write(&set, 2, 5, &arrays).unwrap();
    let again = read(&arrays);
    assert_eq!(again.shape, set.shape);
    assert_eq!(rows(&again, &again.held_out), rows(&set, &set.held_out));
    assert_eq!(
        (
            again.train.groups(),
            again.train.puzzles(0),
            again.train.len()
        ),
        (24, 3, 72)
    );
    // Each puzzle is followed by looks of it.
    let (plain, written) = (rows(&set, &set.train), rows(&again, &again.train));
    let shape = Sudoku::of_cells(16).unwrap();
    let form = |row: &Row| {
        let digits: Vec<u8> = row.cells.iter().map(|it| *it as u8 - 1).collect();
        shape.canonical(&digits)
    };
    for (index, row) in plain.iter().enumerate() {
        assert_eq!(written[3 * index], *row);
        assert_ne!(written[3 * index + 1].cells, row.cells);
        assert_eq!(form(&written[3 * index + 2]), form(row));
    }
    assert_eq!(reference::files(&arrays).len(), 13);
    assert_eq!(places(std::slice::from_ref(&arrays)).len(), 13);
    assert_eq!(places(&[table]).len(), 2);
}

#[test]
fn tasks_of_arc_are_written_for_the_reference_with_all_their_looks() {
    let folder = tempfile::tempdir().unwrap();
    let set = read(&tasks(&folder.path().join("tasks")));
    assert_eq!(
        (set.train.groups(), set.held_out.groups(), set.ids),
        (4, 1, 17)
    );
    let arrays = folder.path().join("arrays");
    reference::write(&set, 0, 5, &arrays).unwrap();
    let again = read(&arrays);
    assert_eq!((again.shape, again.ids), (Shape::Arc, 17));
    assert_eq!(rows(&again, &again.held_out), rows(&set, &set.held_out));
    assert_eq!(again.train.len(), set.train.len());
    assert_eq!(set.train.len(), 4 * (3 * 5 + 3));
    // Another one takes its place, and nothing else does.
    reference::write(&set, 0, 5, &arrays).unwrap();
    let error = reference::write(&set, 0, 5, folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("is there, and is no folder of such puzzles"),
        "{error}"
    );
    let text = fs::read_to_string(arrays.join("identifiers.json")).unwrap();
    let names: Vec<String> = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (names.len(), names[0].as_str(), names[1].as_str()),
        (17, "<blank>", "d")
    );
    assert!(names[2].starts_with("d|||t") && names[2].len() == "d|||t0|||0123456789".len());
}

#[test]
fn what_is_wrong_with_a_folder_of_arrays_is_said_by_file_and_place() {
    let check = |file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let table = sudoku(&folder.path().join("table"), 4, 20, 4);
        let arrays = folder.path().join("arrays");
        reference::write(&read(&table), 0, 5, &arrays).unwrap();
        let path = arrays.join("train").join(file);
        fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        let error = PuzzleSet::read(&[arrays], &CHOICE).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains(file), "{error}");
    };
    let set = |at: usize, value: u8| {
        move |mut bytes: Vec<u8>| {
            let index = bytes.len() - at;
            bytes[index] = value;
            bytes
        }
    };
    check(
        "all__inputs.npy",
        &set(3, 9),
        "row 16, cell 14 is 9, and there are 6 symbols (vocab_size)",
    );
    check(
        "all__puzzle_identifiers.npy",
        &set(4, 2),
        "number 16 is 2, and has to be from 0 to 0",
    );
    check(
        "all__puzzle_indices.npy",
        &set(4, 99),
        "has to rise from 0 to 16, the number of examples",
    );
    check(
        "all__inputs.npy",
        &|bytes| bytes[..200].to_vec(),
        "declares [16, 16] numbers of |u1, and has 72 bytes for them",
    );
    let narrow = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .unwrap()
            .replace(r#""seq_len":16"#, r#""seq_len":8"#)
            .into_bytes()
    };
    let folder = "has the shape [16, 16], and rows of 8 cells are needed (seq_len)";
    let shown = tempfile::tempdir().unwrap();
    let table = sudoku(&shown.path().join("table"), 4, 20, 4);
    let arrays = shown.path().join("arrays");
    reference::write(&read(&table), 0, 5, &arrays).unwrap();
    let path = arrays.join("train/dataset.json");
    fs::write(&path, narrow(fs::read(&path).unwrap())).unwrap();
    let error = PuzzleSet::read(&[arrays], &CHOICE).unwrap_err().to_string();
    assert!(error.starts_with(folder), "{error}");
}

#[test]
fn held_out_puzzles_that_would_be_all_are_refused_with_the_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.csv");
    fs::write(
        &path,
        "question,answer\n1...............,1234341221434321\n",
    )
    .unwrap();
    let choice = |seed| Choice {
        held_out: 0.5,
        seed,
        ..CHOICE
    };
    let read = |seed| PuzzleSet::read(std::slice::from_ref(&path), &choice(seed));
    let refused = (0..20)
        .filter_map(|seed| read(seed).err())
        .collect::<Vec<Error>>();
    assert!((5..16).contains(&refused.len()), "{}", refused.len());
    let expected = "`data.held_out` is 0.5, and of 1 puzzle it keeps all aside, so that none is left to learn from; lower it or add puzzles";
    assert_eq!(refused[0].to_string(), expected);
}

#[test]
fn built_puzzles_to_measure_with_are_none_of_those_to_learn_from_seen_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let set = read(&sudoku(&folder.path().join("sudoku"), 6, 40, 20));
    let shape = Sudoku::of_cells(36).unwrap();
    let canonical = |cells: &[u8]| {
        let digits: Vec<u8> = cells.iter().map(|it| it - 1).collect();
        shape.canonical(&digits)
    };
    let forms = |examples: &Examples| forms_of(&set, examples, &canonical);
    let (train, held_out) = (forms(&set.train), forms(&set.held_out));
    assert_eq!((train.len(), held_out.len()), (20, 20));
    assert!(train.is_disjoint(&held_out));

    let mazes = make::make_mazes(10, 12, 60, 3, &|_| true).unwrap().unwrap();
    make::write_mazes(&mazes, 20, &folder.path().join("mazes")).unwrap();
    let set = read(&folder.path().join("mazes"));
    assert_eq!(set.shape, Shape::Maze(10));
    let forms =
        |examples: &Examples| forms_of(&set, examples, &|cells| make::first_turn(cells, 10));
    let (train, held_out) = (forms(&set.train), forms(&set.held_out));
    assert_eq!((train.len(), held_out.len()), (40, 20));
    assert!(train.is_disjoint(&held_out));
}

#[test]
fn a_run_on_mazes_resumes_and_measures_paths() {
    let folder = tempfile::tempdir().unwrap();
    let mazes = make::make_mazes(6, 5, 40, 3, &|_| true).unwrap().unwrap();
    make::write_mazes(&mazes, 10, &folder.path().join("data")).unwrap();
    let plan = plan_of(&folder.path().join("data"), json!({}));
    assert_eq!((plan.task.trm.vocab_size, plan.task.trm.seq_len), (6, 36));
    check_resume(&plan, folder.path());
    let mut task = Puzzle::open(&plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    let measured = task
        .evaluate(0, &mut Measuring::alone(&|| true))
        .unwrap()
        .unwrap();
    let names: Vec<&str> = measured
        .metrics
        .iter()
        .skip(4)
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["valid_path", "shortest_path"]);
}

#[test]
fn a_run_on_tasks_of_arc_resumes_votes_and_writes_what_is_handed_in() {
    let folder = tempfile::tempdir().unwrap();
    let data = tasks(&folder.path().join("data"));
    let plan = plan_of(&data, tiny_run());
    assert_eq!(
        (plan.task.trm.num_puzzle_identifiers, plan.task.trm.seq_len),
        (17, 900)
    );
    check_resume(&plan, folder.path());
    let newest = |name: &str| {
        Checkpoints::new(&folder.path().join(name), 2)
            .newest()
            .unwrap()
            .unwrap()
            .path
    };
    let file = |name: &str, file: &str| fs::read_to_string(newest(name).join(file)).unwrap();
    let submission: Json = serde_json::from_str(&file("straight", "submission.json")).unwrap();
    let attempts = submission["d"].as_array().unwrap();
    assert_eq!(
        (submission.as_object().unwrap().len(), attempts.len()),
        (1, 2)
    );
    for attempt in attempts {
        assert!(attempt["attempt_1"][0][0].is_u64() && attempt["attempt_2"][0][0].is_u64());
    }
    // What was voted before the kill counts after it.
    assert_eq!(file("straight", "votes.json"), file("killed", "votes.json"));

    let mut task = Puzzle::open(&plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    task.load(&newest("straight")).unwrap();
    assert_eq!(task.held_out_batches(), 3);
    let measured = task
        .evaluate(0, &mut Measuring::alone(&|| true))
        .unwrap()
        .unwrap();
    assert_eq!(measured.targets, 5);
    let names: Vec<&str> = measured
        .metrics
        .iter()
        .skip(4)
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["pass@1", "pass@2"]);
    let all = task.examine(&mut Measuring::alone(&|| true)).unwrap();
    assert_eq!(
        (all[0].name.as_str(), all[0].of),
        ("exact_accuracy_at_end", Some(8))
    );
    assert!(all.iter().any(|it| it.name == "pass@1000_at_end"));
}

#[test]
fn files_of_tasks_that_overlap_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = tasks(folder.path());
    fs::copy(path.join(arc_files::TRAIN), path.join("again.json")).unwrap();
    let error = PuzzleSet::read(&[path], &CHOICE).unwrap_err().to_string();
    assert!(
        error.starts_with("task a is in two files, the other of which is "),
        "{error}"
    );
}

#[test]
fn the_same_data_is_read_once_until_a_file_of_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let data = sudoku(folder.path(), 4, 30, 6);
    let request = TrainRequest::<PuzzleRequest>::read(&json!({"data": {"files": [data]}})).unwrap();
    let first = Puzzle::read(&request, None).unwrap().unwrap();
    let second = Puzzle::read(&request, Some(&first)).unwrap().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    sudoku(folder.path(), 4, 29, 6);
    let third = Puzzle::read(&request, Some(&second)).unwrap().unwrap();
    assert!(!std::sync::Arc::ptr_eq(&second, &third));
}

/// The two public sets of ARC-AGI-1, where they are.
#[test]
fn the_public_tasks_of_arc_have_their_published_counts() {
    let folder = match std::env::var_os("ANNEAL_SHARED_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
    };
    let folder = folder.join("arc");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    let mut all = Vec::new();
    for (name, expected) in [
        ("training", (400, 1302, 416)),
        ("evaluation", (400, 1363, 419)),
    ] {
        let tasks = arc_files::read(&folder.join(format!("{name}_challenges.json"))).unwrap();
        let pairs = |of: fn(&models::tasks::puzzle::arc::Task) -> usize| {
            tasks.iter().map(of).sum::<usize>()
        };
        let counts = (
            tasks.len(),
            pairs(|it| it.train.len()),
            pairs(|it| it.test.len()),
        );
        assert_eq!(counts, expected, "{name}");
        assert!(
            tasks
                .iter()
                .all(|it| it.test.iter().all(|pair| pair.output.is_some()))
        );
        assert!(
            tasks
                .iter()
                .all(|it| it.is_measured == (name == "evaluation"))
        );
        all.extend(tasks);
    }
    let tasks = Tasks::new(all, 20, 42);
    let full = tasks.looks.iter().filter(|it| it.len() == 21).count();
    assert!(full > 780, "{full}");
    let (learned, measured) = ArcExamples::split(tasks);
    assert_eq!((learned.groups(), measured.groups()), (800, 400));
    let pass: usize = (0..800).map(|group| learned.examples(group)).sum();
    assert_eq!(pass, 1302 + 416 + 1363);
    assert_eq!(read_counts(&folder), (3081, 400));
}

/// Examples of a pass, and tasks that are measured with, of a folder with both pairs of files.
fn read_counts(folder: &Path) -> (usize, usize) {
    let set = read(folder);
    (set.train.per_pass(), set.held_out.groups())
}
