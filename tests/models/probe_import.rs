//! Probes of other programs: they score as PyTorch says (`tests/goldens/torch_probes.py`), and what doesn’t fit is refused by name.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use models::{
    arch::sites::Site,
    tasks::probe::{
        apply::{Apply, ApplyRequest},
        capture_prompt::PromptRequest,
        folder::{AboutProbes, Probes},
        states::Position,
        torch_probes::{ImportRequest, import, read},
    },
};
use serde_json::{Value as Json, json};

use crate::{
    capture::{SUFFIX, model, open},
    fuzz::Reader,
    hostile::{reading, repository},
    probe_live::{answers, check_scores, live},
};

fn golden(name: &str) -> PathBuf {
    repository("tests/goldens/torch_probes").join(name)
}

fn request(model: &Path, files: &[&str]) -> ImportRequest {
    ImportRequest {
        files: files.iter().map(|it| golden(it)).collect(),
        model: model.to_owned(),
        layer: 1,
        prompt: PromptRequest {
            suffix: Some(SUFFIX.to_owned()),
            chat: false,
        },
        ..ImportRequest::default()
    }
}

fn imported(model: &Path, files: &[&str]) -> (Probes, AboutProbes) {
    let work = tempfile::tempdir().unwrap();
    let out = work.path().join("probes");
    let about = import(&request(model, files), &out).unwrap();
    (Probes::open(&out).unwrap(), about)
}

/// Imports files, and compares the scores of the golden states with those of PyTorch.
fn check(files: &[&str], labels: &[&str], hidden: &[usize]) {
    let folder = model(json!({}));
    let (probes, about) = imported(folder.path(), files);
    assert_eq!(probes.about, about);
    assert_eq!(about.hidden, hidden);
    let expected: Json = serde_json::from_slice(&fs::read(golden("scores.json")).unwrap()).unwrap();
    let states: Vec<Vec<f32>> = serde_json::from_value(expected["states"].clone()).unwrap();
    for (place, (file, label)) in files.iter().zip(labels).enumerate() {
        let kept = &about.probes[place];
        assert_eq!((&kept.label[..], kept.site), (*label, Site::Block(1)));
        assert_eq!(
            (kept.c, kept.validation, kept.converged),
            (None, None, None)
        );
        let scores: Vec<f64> = serde_json::from_value(expected["scores"][file].clone()).unwrap();
        assert_eq!(scores.len(), states.len());
        for (state, expected) in states.iter().zip(scores) {
            let score = f64::from(probes.score(place, state));
            let far = (score - expected).abs();
            assert!(
                far <= 1e-6 * expected.abs().max(1.0),
                "{file}: {score} and {expected}"
            );
        }
    }
    // Nobody knows these.
    assert!(about.report.is_none() && about.solver.is_none() && about.reach.is_empty());
    assert_eq!(probes.is_far(Site::Block(1), &states[0]), None);
    assert_eq!(about.imported[0].name, files[0]);
}

#[test]
fn a_linear_probe_of_pytorch_scores_as_it_does_there() {
    // One names its label, in bf16 with numbers of numpy beside; the others are called as their files, one of which is as long as
    // misleads whoever looks for the beginning of the archive.
    check(
        &[
            "probe_joy.pth",
            "probe_calm.pth",
            "probe_self_confidence.pth",
        ],
        &["joy", "calm", "self_confidence"],
        &[],
    );
}

#[test]
fn a_multihead_probe_of_pytorch_scores_as_it_does_there() {
    let files = ["multihead_joy.pth", "multihead_calm.pth"];
    check(&files, &["joy", "calm"], &[8, 8]);
}

#[test]
fn imported_probes_are_applied_to_texts_and_to_what_a_model_writes_alike() {
    let folder = model(json!({}));
    let model = open(folder.path());
    for files in [
        ["probe_joy.pth", "probe_calm.pth"],
        ["multihead_joy.pth", "multihead_calm.pth"],
    ] {
        let (probes, _) = imported(folder.path(), &files);
        let text = "What is the capital of France ?".to_owned();
        let request = ApplyRequest {
            texts: vec![text],
            ..ApplyRequest::default()
        };
        let apply = Apply::plan(&model, &probes, &request).unwrap();
        let mut found = Vec::new();
        apply
            .run(&mut |texts| {
                found.extend(texts);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(found[0].scores.len(), 2);
        assert!(found[0].far.is_empty());
        let (live, heard) = live(&model, std::slice::from_ref(&probes));
        let labels: Vec<&str> = live.probes().iter().map(|it| it.label.as_str()).collect();
        assert_eq!(labels, ["joy", "calm"]);
        answers(&model, Some(live));
        let follows = model.tokenizer.encode(SUFFIX, false).unwrap();
        let scored = check_scores(&model, &[(&probes, &follows)], &heard.borrow());
        assert!(scored[0] > 20, "{scored:?}");
    }
}

#[test]
fn a_file_that_is_no_probe_of_one_label_is_refused_by_what_it_has() {
    for (file, expected) in [
        (
            "refused_classes.pth",
            "`linear.weight` has the shape [3, 16], and expected is [1, 16]; a folder has probes of one label each",
        ),
        (
            "refused_multihead_classes.pth",
            "`classifier.weight` has the shape [3, 8], and expected is [1, 8]; a folder has probes of one label each",
        ),
        (
            "refused_uneven.pth",
            "`encoder.0.weight` has the shape [7, 16], and expected is [8, 16]",
        ),
        (
            "refused_calibrated.pth",
            "a `BinaryModuleProbe`, has `base_probe.linear.bias`, which is no part of one that can be read",
        ),
        (
            "refused_bare.pth",
            "holds no dictionary of tensors `model_state_dict`",
        ),
        (
            "refused_nan.pth",
            "`linear.weight` has a number that is NaN",
        ),
        ("refused_without_bias.pth", "has no `linear.bias`"),
        ("scores.json", "is no file of PyTorch"),
    ] {
        let error = read(&golden(file)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(file), "{error}");
    }
}

#[test]
fn files_that_fit_neither_each_other_nor_the_model_are_refused_and_nothing_is_written() {
    let folder = model(json!({}));
    let wide = model(json!({"hidden_size": 32}));
    let work = tempfile::tempdir().unwrap();
    let out = work.path().join("probes");
    let refused = |request: ImportRequest, expected: &str| {
        let error = import(&request, &out).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!out.exists());
    };
    let of = |files: &[&str]| request(folder.path(), files);
    refused(of(&[]), "there are no files of probes");
    refused(
        of(&["probe_joy.pth", "multihead_calm.pth"]),
        "`probe_joy.pth` is linear and reads 16 numbers, and `multihead_calm.pth` is multihead with layers of 8 and 8 and reads 16 numbers",
    );
    refused(
        of(&["probe_joy.pth", "probe_joy.pth"]),
        "two files are probes of the label `joy`",
    );
    refused(
        ImportRequest {
            layer: 3,
            ..of(&["probe_joy.pth"])
        },
        "`layer` is 3, and the model",
    );
    refused(
        request(wide.path(), &["probe_joy.pth"]),
        "the probes read states of 16 numbers, and those of the model",
    );
    refused(
        ImportRequest {
            position: Position::MeanAndMax,
            ..of(&["probe_joy.pth"])
        },
        "have 32",
    );
    refused(
        ImportRequest {
            label_names: vec!["one".to_owned()],
            ..of(&["probe_joy.pth", "probe_calm.pth"])
        },
        "there are 1 names of labels and 2 files",
    );
}

/// What reads the files of strangers, for `hostile.rs`.
pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let folder = work.join("torch_probe");
    fs::create_dir_all(&folder).unwrap();
    let of = |name: &str| fs::read(golden(name)).unwrap();
    vec![Reader {
        name: "torch_probe",
        share: 6,
        most: None,
        megabytes: 128,
        seconds: 5.0,
        file: folder.join("probe_joy.pth"),
        samples: vec![of("probe_joy.pth"), of("multihead_calm.pth")],
        read: reading(|file| read(file).map(drop)),
    }]
}
