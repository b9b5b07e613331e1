//! Probes that are applied to texts: the same scores as of captured states, and files with how often they are right.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use models::tasks::{
    language::model::LanguageModel,
    probe::{
        apply::{Applied, Apply, ApplyRequest, Threshold, of_states},
        capture_prompt::PromptRequest,
        examples::Examples,
        folder::{self, Probes},
        label_figures::{self, Scored},
        labelled::LabelledRequest,
        ranking::Ranking,
        states::{Position, States},
        states_identity::identities,
        study::{Settings, Source, study},
    },
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::capture::{captured, data, model, open, request};

/// Probes of these states, saved and opened again.
pub(crate) fn learned(states: &States, to: &Path) -> Probes {
    let examples = Examples::of(states, &[], 0).unwrap();
    let sites = states.sites();
    let mut read = |site: usize, rows: &[usize]| states.read_rows(sites[site], rows);
    let mut source = Source::of(states, sites, &mut read);
    let settings = Settings {
        draws: 20,
        shuffles: 1,
        penalties: vec![1e-2],
        ..Settings::default()
    };
    let found = study(&examples, &mut source, &settings, &mut |_| true);
    let found = found.unwrap().unwrap();
    folder::save(to, &found, (&examples, states.about())).unwrap();
    Probes::open(to).unwrap()
}

/// A model with probes of some of its states.
struct Ready {
    folder: TempDir,
    work: TempDir,
    model: LanguageModel,
    data: PathBuf,
    states: States,
    probes: Probes,
}

fn ready(position: Position, chat: bool) -> Ready {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 90);
    let mut request = request(&data, position);
    if chat {
        request.prompt = PromptRequest {
            suffix: None,
            chat: true,
        };
    }
    let states = captured(&model, folder.path(), &request, &work.path().join("states"));
    let probes = learned(&states, &work.path().join("probes"));
    Ready {
        folder,
        work,
        model,
        data,
        states,
        probes,
    }
}

impl Ready {
    fn apply(&self, request: &ApplyRequest) -> Vec<Applied> {
        let apply = Apply::plan(&self.model, &self.probes, request).unwrap();
        let mut all = Vec::new();
        apply
            .run(&mut |some| {
                all.extend(some);
                ControlFlow::Continue(())
            })
            .unwrap();
        all
    }

    fn of_file(&self, all_sites: bool) -> Vec<Applied> {
        self.apply(&ApplyRequest {
            data: LabelledRequest {
                paths: vec![self.data.clone()],
                ..LabelledRequest::default()
            },
            all_sites,
            ..ApplyRequest::default()
        })
    }

    fn of_states(&self, all_sites: bool) -> Vec<Applied> {
        let mut all = Vec::new();
        of_states(&self.probes, &self.states, all_sites, &mut |some| {
            all.extend(some)
        })
        .unwrap();
        all
    }
}

#[test]
fn scores_of_a_file_are_those_of_its_captured_states_to_the_bit() {
    for (position, chat) in [
        (Position::Last, false),
        (Position::Last, true),
        (Position::Mean, false),
        (Position::MeanAndMax, false),
        (Position::Answer, true),
        (Position::Marked, false),
    ] {
        let ready = ready(position, chat);
        for all_sites in [false, true] {
            let found = ready.of_file(all_sites);
            assert_eq!(found, ready.of_states(all_sites), "{position:?} {chat}");
            let sites = if all_sites { 5 } else { 1 };
            assert!(found.iter().all(|it| it.scores.len() == 2 * sites));
        }
    }
}

#[test]
fn a_text_by_itself_scores_as_in_a_file() {
    let ready = ready(Position::Last, false);
    let expected = ready.of_file(true);
    let found = ready.apply(&ApplyRequest {
        texts: expected.iter().take(7).map(|it| it.text.clone()).collect(),
        all_sites: true,
        ..ApplyRequest::default()
    });
    assert_eq!(found.len(), 7);
    assert_eq!(found[6].id, "text 7");
    for (found, expected) in found.iter().zip(&expected) {
        for (found, expected) in found.scores.iter().zip(&expected.scores) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0));
        }
    }
}

#[test]
fn a_text_that_is_empty_is_named_and_can_be_skipped() {
    let ready = ready(Position::Last, false);
    let mut request = ApplyRequest {
        texts: ["what", " "].map(str::to_owned).to_vec(),
        ..ApplyRequest::default()
    };
    let error = Apply::plan(&ready.model, &ready.probes, &request)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("line 2: `text` is empty"),
        "{error}"
    );
    request.skip_bad_rows = true;
    assert_eq!(ready.apply(&request).len(), 1);
}

#[test]
fn a_text_unlike_all_that_was_learned_from_is_marked_as_far() {
    let ready = ready(Position::Mean, false);
    let learned = ready.of_file(false);
    let far = learned.iter().filter(|it| !it.far.is_empty()).count();
    assert!(far <= learned.len() / 10, "{far}");
    let strange = ready.apply(&ApplyRequest {
        texts: vec!["\u{1f980}".repeat(9), learned[3].text.clone()],
        ..ApplyRequest::default()
    });
    let is_far = strange.iter().map(|it| !it.far.is_empty());
    assert!(is_far.eq([true, false]), "{strange:?}");
}

#[test]
fn probes_know_their_model_by_its_weights_and_not_by_its_folder() {
    let ready = ready(Position::Last, false);
    let check = |folder: &Path| {
        let (model, adapter) = identities(folder).unwrap();
        ready.probes.check_model(&model, adapter.as_ref())
    };
    check(ready.folder.path()).unwrap();
    let copy = ready.work.path().join("another-name");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(ready.folder.path()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    check(&copy).unwrap();
    let weights = copy.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let refused = check(&copy).unwrap_err().to_string();
    assert!(refused.contains("what differs: the model ("), "{refused}");
}

fn read(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn figures_of_labelled_texts_stand_in_the_files_that_scripts_read() {
    let ready = ready(Position::Last, false);
    let applied = ready.of_file(true);
    let scored = |it: &Applied| (it.labels.clone(), it.scores.clone());
    let rows: Vec<Scored> = applied.iter().map(scored).collect();
    let which = ready.probes.which(true);
    let out = ready.work.path().join("figures");
    let half = Threshold::Probability(0.5);
    label_figures::write(&out, &ready.probes, &which, &rows, half).unwrap();

    let odd: Vec<bool> = applied.iter().map(|it| it.labels == ["odd"]).collect();
    let kept = &ready.probes.about.probes;
    let at = which
        .iter()
        .position(|it| kept[*it].label == "odd" && kept[*it].is_chosen);
    let scores: Vec<f32> = applied.iter().map(|it| it.scores[at.unwrap()]).collect();
    let metrics = read(&out.join("metrics_odd.json"));
    assert_eq!(metrics["auc_roc"].as_f64(), Ranking::new(&scores).auc(&odd));
    let counts = metrics["confusion_matrix"].as_object().unwrap().values();
    assert_eq!(counts.map(|it| it.as_u64().unwrap()).sum::<u64>(), 90);
    assert_eq!(metrics["history"]["train_loss"], json!([]));

    let aggregate = read(&out.join("aggregate_metrics.json"));
    let labels = aggregate["per_action_metrics"].as_array().unwrap();
    assert_eq!(labels.len(), 2);
    let mean = labels
        .iter()
        .map(|it| it["f1"].as_f64().unwrap())
        .sum::<f64>()
        / 2.0;
    assert_eq!(aggregate["average_f1"].as_f64(), Some(mean));

    let analysis = read(&out.join("per_action_layer_analysis.json"));
    for label in analysis["per_action_best_layers"].as_array().unwrap() {
        let name = label["action"].as_str().unwrap();
        let layers = (0..3).map(|layer| {
            let file = format!("layer_{layer}/metrics_{name}.json");
            read(&out.join(file))["auc_roc"].as_f64().unwrap()
        });
        let layers: Vec<f64> = layers.collect();
        let best = label["best_layer"].as_u64().unwrap() as usize;
        assert_eq!(label["best_auc"].as_f64(), Some(layers[best]));
        let spread = layers.iter().fold(f64::MIN, |a, b| a.max(*b))
            - layers.iter().fold(f64::MAX, |a, b| a.min(*b));
        assert_eq!(label["layer_sensitivity"].as_f64(), Some(spread));
    }

    let without: Vec<Scored> = rows
        .into_iter()
        .map(|(_, scores)| (Vec::new(), scores))
        .collect();
    let refused = label_figures::write(&out, &ready.probes, &which, &without, half).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("no text has a label of the probes"),
        "{refused}"
    );
}
