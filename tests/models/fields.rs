//! The table of fields, held against what a request has and what a plan refuses.

use std::collections::BTreeSet;

use models::{
    tasks::{
        AnyRequest, KINDS,
        fields::fields,
        language::{Language, LanguageRequest, preset::parameters_of, request::Preset},
        picture::{Picture, PictureFacts, request::PicturePlan},
        probe::{
            Probe, cross_validation::MOST as MOST_FOLDS, kind::ProbeFacts, request::ProbePlan,
        },
        puzzle::{Puzzle, PuzzleFacts, request::PuzzlePlan},
    },
    train::{
        Facts, Kind, Problems, TrainPlan, TrainRequest,
        fields::{Field, FieldKind},
        fit::most_rows,
        resolve,
    },
};
use serde_json::{Value, json};

use crate::plan::{leaves, lora_facts, put, scratch_facts};

/// Fields with numbers in brackets.
const LISTS_OF_NUMBERS: [&str; 4] = [
    "lora.layers",
    "probe.penalties",
    "picture.mean",
    "picture.std",
];

/// A value that the field may have.
fn example(field: &Field) -> Value {
    let bounds = field.bounds;
    let number = bounds.map_or(1.0, |it| {
        it.max.map_or(it.min + 1.0, |max| (it.min + max) / 2.0)
    });
    match field.kind {
        FieldKind::Choice => json!(field.choices[0].value),
        FieldKind::Flag => json!(true),
        FieldKind::Count => json!(number.ceil() as u64),
        FieldKind::Number => json!(number),
        FieldKind::List if LISTS_OF_NUMBERS.contains(&field.name) => json!([1]),
        FieldKind::List if field.name == "probe.sites" => json!(["embed"]),
        FieldKind::List => json!(["a"]),
        FieldKind::Map => json!({"a": "b"}),
        FieldKind::Text | FieldKind::Path => json!("a"),
    }
}

/// A request of the field's kind with it.
fn any_request(field: &Field, value: Value) -> AnyRequest {
    let mut tree = json!({"task": field.task.unwrap_or(KINDS[0])});
    put(&mut tree, field.name, value);
    serde_json::from_value(tree).unwrap_or_else(|error| panic!("{}: {error}", field.name))
}

/// A request with one field, beside what a plan of a language model needs.
fn request(field: &Field, value: Value) -> TrainRequest<LanguageRequest> {
    let mut tree = json!({"data": {"files": ["a.txt"]}});
    if field
        .needs
        .is_some_and(|needs| needs.values.contains(&"lora"))
    {
        tree["model"] = json!("smol");
    }
    put_needs(&mut tree, field);
    put(&mut tree, field.name, value);
    serde_json::from_value(tree).unwrap_or_else(|error| panic!("{}: {error}", field.name))
}

/// Sets the optimizer that a field is one of.
fn put_needs(tree: &mut Value, field: &Field) {
    if let Some(needs) = field.needs.filter(|it| it.field == "optimizer.kind") {
        put(tree, needs.field, json!(needs.values[0]));
    }
}

#[test]
fn the_table_has_the_fields_of_a_request_and_no_others() {
    for kind in KINDS {
        let empty: AnyRequest = serde_json::from_value(json!({"task": kind})).unwrap();
        let empty = leaves("", &serde_json::to_value(empty).unwrap());
        let known: BTreeSet<String> = empty.into_iter().map(|(name, _)| name).collect();
        let is_own = |field: &Field| field.task == Some(kind) || known.contains(field.name);
        let mut tree = json!({"task": kind});
        for field in fields().iter().filter(|it| is_own(it) || it.task.is_none()) {
            put(&mut tree, field.name, example(field));
        }
        // A field of the table that no request has is refused here.
        let request: AnyRequest = serde_json::from_value(tree).unwrap();
        let names: BTreeSet<&str> = fields().iter().map(|field| field.name).collect();
        for (name, value) in leaves("", &serde_json::to_value(request).unwrap()) {
            let is_known = name == "task" || names.contains(name.as_str());
            assert!(is_known, "{name} is not in the table");
            assert!(!value.is_null() && value != json!([]), "{name} is empty");
        }
    }
}

#[test]
fn every_choice_is_a_word_that_its_field_knows() {
    for field in fields() {
        assert_eq!(
            field.kind == FieldKind::Choice,
            !field.choices.is_empty(),
            "{}",
            field.name
        );
        for choice in field.choices {
            let request = any_request(&field, json!(choice.value));
            let written = serde_json::to_value(request).unwrap();
            let pointer = format!("/{}", field.name.replace('.', "/"));
            assert_eq!(written.pointer(&pointer), Some(&json!(choice.value)));
        }
    }
}

#[test]
fn what_a_field_needs_is_a_field_with_that_choice() {
    for field in fields() {
        let Some(needs) = field.needs else { continue };
        let needed = fields().into_iter().find(|it| it.name == needs.field);
        let choices = needed.unwrap().choices;
        for value in needs.values {
            assert!(choices.iter().any(|it| it.value == *value));
        }
    }
}

#[test]
fn the_fields_of_a_new_architecture_are_those_that_its_size_depends_on() {
    for field in fields() {
        let Some(name) = field.name.strip_prefix("scratch.config.") else {
            continue;
        };
        let config = Preset::Nano.config();
        let mut larger = config.clone();
        larger[name] = json!(config[name].as_u64().unwrap() * 2);
        assert_ne!(parameters_of(&larger), parameters_of(&config), "{name}");
    }
}

/// What follows from a request, and from what its kind looked up.
fn planned<K: Kind>(tree: Value, task: K::Facts) -> Result<TrainPlan<K::Plan>, Problems> {
    let request: TrainRequest<K::Request> = serde_json::from_value(tree).unwrap();
    let scratch = scratch_facts();
    let facts = Facts {
        task,
        device: scratch.device,
        checked: scratch.checked,
    };
    resolve::<K>(&request, &facts).map(|it| it.plan)
}

/// A plan for probes of some texts with one field.
fn probe_plan(field: &Field, value: Value) -> Result<TrainPlan<ProbePlan>, Problems> {
    let mut tree = json!({"model": "smol", "data": {"files": ["a.jsonl"]}});
    put(&mut tree, field.name, value);
    let facts = ProbeFacts {
        rows: 200,
        labels: vec!["yes".to_owned()],
        rarest: 50,
        ..ProbeFacts::default()
    };
    planned::<Probe>(tree, facts)
}

/// A plan for puzzles of 9 by 9 with one field.
fn puzzle_plan(field: &Field, value: Value) -> Result<TrainPlan<PuzzlePlan>, Problems> {
    let mut tree = json!({"data": {"files": ["a.csv"]}});
    put(&mut tree, field.name, value);
    let facts = PuzzleFacts {
        cells: 81,
        symbols: 11,
        rows: 1000,
        held_out_rows: 100,
        ids: 1,
        ..PuzzleFacts::default()
    };
    planned::<Puzzle>(tree, facts)
}

/// A plan for pictures of 64 by 64 with one field.
fn picture_plan(field: &Field, value: Value) -> Result<TrainPlan<PicturePlan>, Problems> {
    let mut tree = json!({"data": {"files": ["photos"]}, "picture": {"short_side": 2048}});
    put(&mut tree, field.name, value);
    if field.name == "picture.short_side" {
        tree["picture"]["side"] = json!(8);
        tree["picture"]["recipe"] = json!("small");
    }
    if field.name == "picture.side" {
        tree["picture"]["recipe"] = json!("small");
    }
    let facts = PictureFacts {
        side: 64,
        channels: 3,
        classes: ["one", "two"].map(str::to_owned).to_vec(),
        rows: 1000,
        held_out_rows: 100,
        mean: vec![0.5; 3],
        std: vec![0.25; 3],
        ..PictureFacts::default()
    };
    planned::<Picture>(tree, facts)
}

/// Whether a plan has something against this value of the field.
fn is_refused(field: &Field, value: f64) -> bool {
    let value = match field.kind {
        FieldKind::Count => json!(value as u64),
        _ => json!(value),
    };
    if field.task == Some(Puzzle::NAME) {
        let problems = puzzle_plan(field, value).map_or_else(|it| it.0, |_| Vec::new());
        return problems.iter().any(|it| it.field == field.name);
    }
    if field.task == Some(Picture::NAME) {
        let problems = picture_plan(field, value).map_or_else(|it| it.0, |_| Vec::new());
        return problems.iter().any(|it| it.field == field.name);
    }
    let facts = match field
        .needs
        .is_some_and(|needs| needs.values.contains(&"lora"))
    {
        true => lora_facts(),
        false => scratch_facts(),
    };
    let problems =
        resolve::<Language>(&request(field, value), &facts).map_or_else(|it| it.0, |_| Vec::new());
    problems.iter().any(|it| it.field == field.name)
}

#[test]
fn the_bounds_are_those_that_a_plan_checks() {
    for field in fields() {
        let Some(bounds) = field.bounds else { continue };
        let (name, whole) = (field.name, field.kind == FieldKind::Count);
        let (less, more) = if whole { (1.0, 1.0) } else { (1e-21, 1e-9) };
        assert_eq!(is_refused(&field, bounds.min), bounds.above, "{name}");
        assert!(!is_refused(&field, bounds.min + more), "{name}");
        assert!(
            is_refused(&field, bounds.min - less),
            "{name} below {}",
            bounds.min
        );
        let Some(max) = bounds.max else { continue };
        assert!(!is_refused(&field, max), "{name} at {max}");
        let above = (max * 1.01).max(max + less);
        assert!(is_refused(&field, above), "{name} above {max}");
    }
}

#[test]
fn no_count_is_so_large_that_a_plan_overflows_or_never_ends() {
    for field in fields().iter().filter(|it| it.kind == FieldKind::Count) {
        let is_lora = field
            .needs
            .is_some_and(|needs| needs.values.contains(&"lora"));
        let facts = if is_lora {
            lora_facts()
        } else {
            scratch_facts()
        };
        // The largest that is allowed, and sizes that no machine has.
        let max = field.bounds.and_then(|it| it.max).map(|max| max as u64);
        for size in [
            max.unwrap_or(1),
            1 << 24,
            1 << 32,
            1_000_000_000_000,
            u64::MAX,
        ] {
            if field.task == Some(Puzzle::NAME) {
                if let Ok(plan) = puzzle_plan(field, json!(size)) {
                    let estimate = Puzzle::estimate(&plan, &plan.task.trm);
                    assert!(
                        estimate.bytes() >= estimate.parameters,
                        "{} is {size}",
                        field.name
                    );
                }
                continue;
            }
            if field.task == Some(Probe::NAME) {
                let resolved = probe_plan(field, json!(size));
                let most = resolved.map_or(0, |plan| plan.task.probe.folds);
                assert!(most <= MOST_FOLDS, "{} is {size}", field.name);
                continue;
            }
            if field.task == Some(Picture::NAME) {
                if let Ok(plan) = picture_plan(field, json!(size)) {
                    let estimate = Picture::estimate(&plan, &plan.task.picture.net(None));
                    assert!(
                        estimate.bytes() >= estimate.parameters,
                        "{} is {size}",
                        field.name
                    );
                }
                continue;
            }
            let resolved = resolve::<Language>(&request(field, json!(size)), &facts);
            let Ok(plan) = resolved.map(|it| it.plan) else {
                continue;
            };
            let shape = match (&plan.task.scratch, &facts.task.model) {
                (Some(scratch), _) => scratch.shape().ok().map(Into::into),
                (None, model) => model.clone(),
            };
            let Some(shape) = shape else { continue };
            let estimate = Language::estimate(&plan, &shape);
            assert!(
                estimate.bytes() >= estimate.parameters,
                "{} is {size}",
                field.name
            );
            let most = most_rows::<Language>(&plan, &shape, 1 << 30);
            assert!(most.is_none_or(|rows| rows <= plan.run.batch.rows));
        }
    }
}
