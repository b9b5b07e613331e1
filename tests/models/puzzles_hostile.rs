//! Files of puzzles that somebody changed (see `hostile.rs`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    arch::trm::TrmConfig,
    limits::{self, Limit},
    tasks::puzzle::{
        exchange::{self, StartWeights},
        overrides,
        source::{Choice, PuzzleSet},
    },
};

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
};

const GOLDEN: &str = "tests/goldens/puzzle-arrays";
const TASK: &str = r#"{"train": [{"input": [[1, 2], [0, 5]], "output": [[2]]}, {"input": [[9]], "output": [[2, 0, 0]]}],
    "test": [{"input": [[3]], "output": [[4]]}, {"input": [[3, 4]]}]}"#;

const TABLE: &str = "source,question,answer,rating\nx,1...............,1234341221434321,3\nx,\"................\",1234341221434321,0\n";
const SETTINGS: &str = "arch:\n  H_cycles: 3\n  expansion: 4\n  loss:\n    loss_type: stablemax_cross_entropy\n  mlp_t: false\n  \
                        pos_encodings: rope\n  rms_norm_eps: 1.0e-05\ndata_paths:\n- data/sudoku\nlr: 0.0001\n";
const MAZES: &str =
    "question,answer,rating\nS #  # ## #    ###  G    ,So#  #o## #ooo ###o Gooo ,10\n";

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let golden = |file: &str| vec![fs::read(repository(GOLDEN).join(file)).unwrap()];
    let of_arrays = [
        ("puzzle_array", 4, None, "train/all__inputs.npy"),
        ("puzzle_indices", 3, None, "train/all__puzzle_indices.npy"),
        (
            "puzzle_dataset",
            2,
            Some(limits::PUZZLE_JSON),
            "train/dataset.json",
        ),
    ];
    let of_arrays = of_arrays.map(|(name, share, most, file)| {
        let folder = arrays(&work.join(name));
        // The whole folder is read, of which one file was changed.
        reader(name, share, most, folder.join(file), 2, golden(file))
    });
    let in_folder = |name: &str, file: &str| {
        fs::create_dir_all(work.join(name)).unwrap();
        work.join(name).join(file)
    };
    let set = format!("{{\"a\": {TASK}, \"b\": {TASK}}}");
    let samples = |texts: [&str; 2]| texts.map(|it| it.as_bytes().to_vec()).into();
    let (table, tasks) = (
        in_folder("puzzle_table", "a.csv"),
        in_folder("puzzle_tasks", "a.json"),
    );
    let mut readers = Vec::from(of_arrays);
    readers.push(reader(
        "puzzle_table",
        3,
        None,
        table,
        0,
        samples([TABLE, MAZES]),
    ));
    let json = Some(limits::PUZZLE_JSON);
    readers.push(reader(
        "puzzle_tasks",
        4,
        json,
        tasks,
        0,
        samples([TASK, &set]),
    ));
    let weights = in_folder("puzzle_settings", "step_7");
    fs::copy(repository("tests/goldens/trm/step_7"), &weights).unwrap();
    readers.push(Reader {
        read: reading(move |_| exchange::shape(&weights, 4).map(drop)),
        ..reader(
            "puzzle_settings",
            2,
            Some(limits::TORCH_CONFIG),
            work.join("puzzle_settings/all_config.yaml"),
            0,
            samples([SETTINGS, "arch: {num_heads: 8, H_cycles: 3}"]),
        )
    });
    readers.push(of_names(work));
    readers.push(of_offers(work));
    readers
}

/// The names of the puzzles of a data set, which weights are carried over by.
fn of_names(work: &Path) -> Reader {
    let folder = work.join("puzzle_names");
    fs::create_dir_all(&folder).unwrap();
    let (weights, data) = (repository("tests/goldens/trm/step_7"), folder.clone());
    let beside = folder.join("of_the_model");
    fs::create_dir_all(&beside).unwrap();
    let most = Some(limits::IDENTIFIERS);
    let names = br#"["<blank>", "a", "a|||t1|||0132", "b"]"#;
    fs::write(beside.join("identifiers.json"), names).unwrap();
    fs::copy(&weights, beside.join("step_7")).unwrap();
    let file = folder.join("identifiers.json");
    Reader {
        read: reading(move |_| {
            let config = TrmConfig {
                num_puzzle_identifiers: 3,
                ..crate::exchange::config()
            };
            StartWeights::open(&beside.join("step_7"), &config, Some(&data), &Device::Cpu).map(drop)
        }),
        ..reader("puzzle_names", 1, most, file, 0, vec![names.to_vec()])
    }
}

/// What a data set of the reference says of an epoch, where words on the command line name it.
fn of_offers(work: &Path) -> Reader {
    let folder = work.join("puzzle_offers");
    fs::create_dir_all(folder.join("train")).unwrap();
    let file = folder.join("train/dataset.json");
    let sample = fs::read(repository(GOLDEN).join("train/dataset.json")).unwrap();
    let words = [
        format!("data_paths=[{}]", folder.display()),
        "arch=trm".to_owned(),
    ];
    Reader {
        read: reading(move |_| overrides::read(&words).map(drop)),
        ..reader(
            "puzzle_offers",
            1,
            Some(limits::MODEL_JSON),
            file,
            0,
            vec![sample],
        )
    }
}

/// A folder with the arrays of the golden one.
fn arrays(folder: &Path) -> PathBuf {
    for part in ["train", "test"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        for entry in fs::read_dir(repository(GOLDEN).join(part)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.join(part).join(path.file_name().unwrap())).unwrap();
        }
    }
    folder.to_owned()
}

/// A reader of what is so many folders above a file.
fn reader(
    name: &'static str,
    share: usize,
    most: Option<Limit>,
    file: PathBuf,
    above: usize,
    samples: Vec<Vec<u8>>,
) -> Reader {
    let read = reading(move |file| read(file.ancestors().nth(above).unwrap_or(file)));
    Reader::small(name, share, most, file, samples, read)
}

/// Reads puzzles, and makes rows of all of them.
fn read(path: &Path) -> models::Result<()> {
    let choice = Choice {
        held_out: 0.5,
        subsample_size: 0,
        min_difficulty: 0,
        augmentations: 5,
        seed: 1,
    };
    let set = PuzzleSet::read(&[path.to_owned()], &choice)?;
    for examples in [&set.train, &set.held_out] {
        let mut random = models::random::Random::new(1);
        for pick in examples.pass(1, 0) {
            drop(examples.row(pick, set.shape, Some(&mut random)));
        }
        for index in 0..examples.len().min(100) {
            drop(examples.row(examples.pick(index), set.shape, None));
        }
    }
    Ok(())
}
