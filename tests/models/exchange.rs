//! Weights come from files of the reference, and go into files that it reads.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{
        WeightRequest, Weights,
        trm::{PUZZLES, Positions, Squash, Trm, TrmConfig},
    },
    checkpoint::{pytorch, save::write_safetensors},
    tasks::puzzle::exchange::{StartWeights, export, shape},
};

use crate::trm::Formula;

/// The shape of the model in `tests/goldens/trm/step_7`.
pub(crate) fn config() -> TrmConfig {
    TrmConfig {
        vocab_size: 6,
        seq_len: 4,
        num_puzzle_identifiers: 3,
        hidden_size: 8,
        num_heads: 2,
        expansion: 4.0,
        l_layers: 1,
        h_cycles: 2,
        l_cycles: 2,
        mlp_t: false,
        pos_encodings: Positions::Rope,
        puzzle_emb_ndim: 8,
        puzzle_emb_len: 2,
        halt_max_steps: 4,
        halt_exploration_prob: 0.0,
        rms_norm_eps: 1e-5,
        rope_theta: 1e4,
        loss: Squash::Stablemax,
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/trm/step_7")
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_dtype(DType::F32).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// A weight as the formula of the goldens has it, rounded as in the file.
fn by_formula(
    config: &TrmConfig,
    name: &str,
    shape: &[usize],
    initial: models::arch::Initial,
) -> Vec<f32> {
    let request = WeightRequest {
        name,
        shape,
        initial,
    };
    let tensor = Formula::of(config).tensor(&request).unwrap();
    match name.ends_with("_init") {
        true => numbers(&tensor.to_dtype(DType::BF16).unwrap()),
        false => numbers(&tensor),
    }
}

#[test]
fn a_file_of_the_reference_has_the_weights_that_it_was_made_from() {
    let mut weights = StartWeights::open(&golden(), &config(), None, &Device::Cpu).unwrap();
    let model = Trm::new(config(), &mut weights, DType::F32, &Device::Cpu).unwrap();
    assert!(weights.notes.is_empty());
    for (name, shape, initial) in config().weights() {
        let found = numbers(&model.parameters().get(&name).unwrap().tensor());
        assert_eq!(
            found,
            by_formula(&config(), &name, &shape, initial),
            "{name}"
        );
    }
}

#[test]
fn what_shapes_say_of_a_model_is_known() {
    let found = shape(&golden(), 4).unwrap();
    assert_eq!(found.hidden_size, Some(8));
    assert_eq!((found.l_layers, found.expansion), (Some(1), Some(4.0)));
    assert_eq!((found.mlp_t, found.puzzle_emb_ndim), (Some(false), Some(8)));
    assert_eq!((found.puzzle_emb_len, found.num_heads), (None, None));
}

#[test]
fn what_leaves_no_trace_in_weights_is_read_from_the_settings_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, beside) = (
        folder.path().join("step_7"),
        folder.path().join("all_config.yaml"),
    );
    fs::copy(golden(), &file).unwrap();
    // As the reference writes it, with what is no matter of the model around.
    let settings = "arch:
  H_cycles: 2
  L_cycles: 4
  halt_exploration_prob: 0.1
  halt_max_steps: 8
  hidden_size: 512
  loss: {loss_type: softmax_cross_entropy, name: losses@ACTLossHead}
  mlp_t: true
  name: recursive_reasoning.trm@TinyRecursiveReasoningModel_ACTV1
  num_heads: 2
  pos_encodings: rope
  puzzle_emb_len: 2
data_paths: [data/sudoku]
lr: 0.0001
";
    fs::write(&beside, settings).unwrap();
    let found = shape(&file, 4).unwrap();
    assert_eq!((found.num_heads, found.halt_max_steps), (Some(2), Some(8)));
    assert_eq!((found.h_cycles, found.l_cycles), (Some(2), Some(4)));
    assert_eq!(found.loss, Some(Squash::Softmax));
    assert_eq!(found.pos_encodings, Some(Positions::Rope));
    assert_eq!(found.puzzle_emb_len, Some(2));
    // Where the weights say something else, they are right.
    assert_eq!((found.hidden_size, found.mlp_t), (Some(8), Some(false)));
    for (wrong, says) in [
        ("lr: 1", "it has no `arch`"),
        ("arch: {num_heads: many}", "invalid type"),
        ("arch: [", "is no settings of the reference"),
    ] {
        fs::write(&beside, wrong).unwrap();
        let error = shape(&file, 4).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.contains("all_config.yaml"), "{error}");
    }
}

#[test]
fn a_file_of_another_model_is_refused_with_every_difference() {
    let other = TrmConfig {
        hidden_size: 16,
        puzzle_emb_ndim: 16,
        l_layers: 2,
        ..config()
    };
    let error = StartWeights::open(&golden(), &other, None, &Device::Cpu)
        .err()
        .unwrap();
    let error = error.to_string();
    assert!(
        error.starts_with("is of another model: it lacks L_level.layers.1."),
        "{error}"
    );
    assert!(
        error.contains("it has in another shape H_init [8] for [16], L_init [8] for [16]"),
        "{error}"
    );

    let folder = tempfile::tempdir().unwrap();
    let check = |names: &[&str], expected: &str| {
        let path = folder.path().join("step_1");
        let tensors = names.iter().map(|name| {
            (
                (*name).to_owned(),
                Tensor::zeros(2, DType::F32, &Device::Cpu).unwrap(),
            )
        });
        pytorch::write(&path, &tensors.collect::<Vec<_>>()).unwrap();
        let error = StartWeights::open(&path, &config(), None, &Device::Cpu)
            .err()
            .unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(
        &[
            "model.inner.H_level.layers.0.x",
            "model.inner.L_level.layers.0.x",
        ],
        "it is a Hierarchical Reasoning Model",
    );
    check(
        &["model.inner.H_init", "_orig_mod.model.inner.H_init"],
        "has `H_init` twice",
    );
}

#[test]
fn rows_of_the_table_are_found_by_the_names_of_their_puzzles() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("step_7"), folder.path().join("data"));
    fs::copy(golden(), &file).unwrap();
    fs::create_dir(&data).unwrap();
    let four = TrmConfig {
        num_puzzle_identifiers: 4,
        ..config()
    };
    let rows = |config: &TrmConfig| {
        let mut weights = StartWeights::open(&file, config, Some(&data), &Device::Cpu).unwrap();
        let shape = [config.num_puzzle_identifiers, 8];
        let initial = models::arch::Initial::Constant(0.0);
        let request = WeightRequest {
            name: PUZZLES,
            shape: &shape,
            initial,
        };
        let rows: Vec<Vec<f32>> = weights.tensor(&request).unwrap().to_vec2().unwrap();
        (rows, weights.notes.clone())
    };
    let (saved, notes) = rows(&config());
    assert!(notes.is_empty());
    let mean: Vec<f32> = (0..8)
        .map(|at| (saved[0][at] + saved[1][at] + saved[2][at]) / 3.0)
        .collect();
    let close =
        |left: &[f32], right: &[f32]| left.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-7);

    let (found, notes) = rows(&four);
    assert!(found.iter().all(|row| close(row, &mean)));
    assert_eq!(
        notes,
        ["the table of the file has 3 rows, and 4 are needed: each is the mean of all"]
    );

    fs::write(
        folder.path().join("identifiers.json"),
        r#"["<blank>", "a", "b"]"#,
    )
    .unwrap();
    fs::write(
        data.join("identifiers.json"),
        r#"["<blank>", "b", "new", "a"]"#,
    )
    .unwrap();
    let (found, notes) = rows(&four);
    let expected = [&saved[0], &saved[2], &mean, &saved[1]];
    assert!(
        found
            .iter()
            .zip(expected)
            .all(|(found, expected)| close(found, expected))
    );
    assert_eq!(
        notes,
        ["1 of 4 puzzles are new to the file: their rows are the mean of all"]
    );
}

#[test]
fn what_is_exported_is_read_again_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let to = env::var_os("ANNEAL_WRITE_EXPORTS").map_or(folder.path().to_owned(), PathBuf::from);
    let model = Trm::new(
        config(),
        &mut Formula::of(&config()),
        DType::F32,
        &Device::Cpu,
    )
    .unwrap();
    let weights = model
        .parameters()
        .iter()
        .map(|it| (it.name().to_owned(), it.tensor()))
        .collect();
    let saved = to.join("trm.safetensors");
    write_safetensors(&saved, &weights, Default::default()).unwrap();
    for (name, compiled) in [("trm_step_1", false), ("trm_step_2.pth", true)] {
        let file = to.join(name);
        export(&saved, &file, DType::BF16, compiled).unwrap();
        let mut start = StartWeights::open(&file, &config(), None, &Device::Cpu).unwrap();
        let read = Trm::new(config(), &mut start, DType::F32, &Device::Cpu).unwrap();
        for (name, shape, initial) in config().weights() {
            let found = numbers(&read.parameters().get(&name).unwrap().tensor());
            assert_eq!(
                found,
                by_formula(&config(), &name, &shape, initial),
                "{name}"
            );
        }
    }
}
