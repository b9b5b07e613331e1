//! Exports that are stopped on their way, and those that nobody compares.

use std::fs;

use models::{
    Error,
    checkpoint::{folder::read_json, gguf::Mix},
    gguf::Gguf,
    tasks::language::export::{Exporter, Format, MODELFILE, Sample, Stage},
};
use serde_json::json;

use crate::language_exports::model;

#[test]
fn an_export_that_is_stopped_leaves_nothing_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let mut exporter = Exporter::open(&base, "a model").unwrap();
    let sample = Sample::texts(exporter.tokenizer()).unwrap();
    for (format, name) in [
        (Format::Gguf(Mix::F32), "a.gguf"),
        (Format::Merged, "a-merged"),
        (Format::MlxFourBits, "a-mlx"),
    ] {
        let mut stopped_at = |moment: usize, out: &str| {
            let out = folder.path().join(out).join(name);
            fs::create_dir_all(out.parent().unwrap()).unwrap();
            let mut heard = Vec::new();
            let ended = exporter.export(format, &out, Some(&sample), &mut |stage| {
                heard.push(stage);
                match heard.len() > moment {
                    true => Err(Error::Interrupted),
                    false => Ok(()),
                }
            });
            (heard, ended)
        };
        let (whole, ended) = stopped_at(usize::MAX, "whole");
        ended.unwrap();
        let modelfile = folder
            .path()
            .join("whole")
            .join(format!("{name}.{MODELFILE}"));
        match fs::read_to_string(modelfile) {
            Ok(text) => {
                assert!(
                    text.contains("\nFROM ./a.gguf\nPARAMETER stop \""),
                    "{text}"
                );
            }
            Err(_) => assert!(!name.ends_with(".gguf"), "a GGUF file has none"),
        }
        let first = |is_it: fn(&Stage) -> bool| whole.iter().position(is_it).unwrap();
        let writing = first(|it| matches!(it, Stage::Writing { .. }));
        let comparing = first(|it| *it == Stage::Comparing);
        for moment in [0, writing, comparing, comparing + 1] {
            let (heard, ended) = stopped_at(moment, "stopped");
            let error = ended.unwrap_err();
            assert!(matches!(error, Error::Interrupted), "{error}");
            assert_eq!(heard, whole[..=moment]);
            let left = fs::read_dir(folder.path().join("stopped")).unwrap();
            assert_eq!(left.count(), 0, "{moment} of {name}");
        }
    }
}

#[test]
fn what_nobody_compared_says_so_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let mut exporter = Exporter::open(&base, "a model").unwrap();
    let to = folder.path().join("a.gguf");
    let mut heard = Vec::new();
    let format = Format::Gguf(Mix::F16);
    let exported = exporter.export(format, &to, None, &mut |stage| {
        heard.push(stage);
        Ok(())
    });
    assert_eq!(exported.unwrap().compared, None);
    let is_writing = |it: &Stage| matches!(it, Stage::Writing { .. });
    assert!(
        !heard.is_empty() && heard.iter().all(is_writing),
        "{heard:?}"
    );
    let beside = read_json(&folder.path().join("a.gguf.compared.json"), "read").unwrap();
    assert_eq!(beside["compared"], json!(null));
    assert_eq!(
        beside["why"],
        json!("it was asked not to be compared with the model")
    );
    assert!(Gguf::open(&to).is_ok());
}
