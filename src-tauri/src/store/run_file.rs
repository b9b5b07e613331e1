//! Run files: requests that people write, and plans that are kept with a run.

mod unknown;

use std::{collections::BTreeMap, path::Path};

use models::{
    device::dtype::Role,
    tasks::{AnyPlan, AnyRequest, AnyResolved, TASK},
    train::{Kind, Problem, fields::FORMER_NAMES},
    with_kind,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{limits, yaml};
use crate::wire::error::{AppError, Code, Result};

/// What other trainers call the format that is computed in, at the top level of a run file.
const PRECISION: &str = "precision";

/// Reads a request. Paths in the file start at the file's folder; what is not there may be the name of a model.
pub(crate) fn read(path: &Path) -> Result<AnyRequest> {
    let text = limits::read_text(limits::YAML_FILE, path, "read the run file");
    let text = text.map_err(|error| AppError {
        code: Code::InvalidRequest,
        ..error
    })?;
    let tree = yaml::parse(&text, path)?;
    let tree = understood(tree).map_err(|problem| yaml::at_its_line(problem, &text, path))?;
    let mut request =
        AnyRequest::read(&tree).map_err(|problem| with_advice(problem, &tree, &text, path))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    with_kind!(TaskRequest, &mut request.task, K, task => K::seen_from(task, folder));
    Ok(request)
}

/// The fields of a file, with those that have other names elsewhere, or had before, where they belong.
fn understood(mut tree: Value) -> Result<Value, Problem> {
    let others = FORMER_NAMES.iter().map(|(former, _)| *former);
    for name in others.chain([PRECISION]) {
        let value = tree.as_object_mut().and_then(|it| it.shift_remove(name));
        let Some(value) = value.filter(|it| !it.is_null()) else {
            continue;
        };
        let field = current_name(name);
        let pointer = format!("/{}", field.replace('.', "/"));
        if tree.pointer(&pointer).is_some_and(|it| !it.is_null()) {
            return Err(Problem {
                field: name.to_owned(),
                problem: format!(
                    "means the same as `{field}`, which is given too; remove one of the two"
                ),
            });
        }
        put(&mut tree, &field, value);
    }
    if let Some(formats) = tree.get_mut("dtype").and_then(Value::as_object_mut) {
        for (_, format) in formats {
            *format = as_dtype(format.take());
        }
    }
    Ok(tree)
}

/// What a field is called here and now.
fn current_name(field: &str) -> String {
    let names = FORMER_NAMES.into_iter();
    let renamed = names
        .chain([(PRECISION, Role::Compute.field())])
        .find_map(|(former, name)| {
            let rest = field.strip_prefix(former)?;
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{name}{rest}"))
        });
    renamed.unwrap_or_else(|| field.to_owned())
}

/// A dtype that is written as a number: 16 is `16`.
fn as_dtype(value: Value) -> Value {
    match value {
        Value::Number(bits) => Value::String(bits.to_string()),
        other => other,
    }
}

/// What is wrong with a file, with our names for those that are no fields.
fn with_advice(problem: Problem, tree: &Value, text: &str, path: &Path) -> AppError {
    if !unknown::is_said(&problem) {
        return yaml::at_its_line(problem, text, path);
    }
    let mut problems = unknown::names_in(tree).into_iter().map(|field| {
        let advice = unknown::advice(&field);
        let problem = advice.message.clone();
        (Problem { field, problem }, advice)
    });
    let Some((first, advice)) = problems.next() else {
        return yaml::at_its_line(problem, text, path);
    };
    let others: Vec<Problem> = problems.map(|(problem, _)| problem).collect();
    let hint = match others.is_empty() {
        true => advice.hint_in_a_file(),
        false => unknown::ALL_FIELDS.to_owned(),
    };
    AppError {
        others: others.into(),
        ..yaml::at_its_line(first, text, path).with_hint(hint)
    }
}

/// Changes fields of a request, each given as `lora.rank=16`. The value is read as in a run file.
pub(crate) fn set(request: AnyRequest, changes: &[String]) -> Result<AnyRequest> {
    if changes.is_empty() {
        return Ok(request);
    }
    // What is asked of one kind is no setting of another.
    let mut tree = match request == AnyRequest::default() {
        true => Value::Object(Map::new()),
        false => tree_of(&request)?,
    };
    // The kind decides what else can be set, so it comes first, wherever it stands.
    let names_kind = |change: &&String| change.split_once('=').is_some_and(|it| it.0 == TASK);
    let (kind, others): (Vec<&String>, Vec<&String>) = changes.iter().partition(names_kind);
    for change in kind.into_iter().chain(others) {
        let (name, text) = change.split_once('=').ok_or_else(|| {
            AppError::invalid(format!("`--set {change}` has no `=`"))
                .with_hint("write it like `--set lora.rank=16`")
        })?;
        let wrong = |message: String| {
            AppError::invalid(format!("`--set {change}`: {message}")).with_field(name)
        };
        let value = yaml::parse_scalar(text).map_err(wrong)?;
        let field = current_name(name);
        let field = field.as_str();
        let value = match field.starts_with("dtype.") {
            true => as_dtype(value),
            false => value,
        };
        // Read alone first, so that an error is about this change and nothing else.
        let mut alone = Value::Object(Map::new());
        if let Some(kind) = tree.get(TASK) {
            put(&mut alone, TASK, kind.clone());
        }
        put(&mut alone, field, value.clone());
        AnyRequest::read(&alone).map_err(|problem| {
            let names = unknown::names_in(&alone);
            if let Some(name) = names.first().filter(|_| unknown::is_said(&problem)) {
                let advice = unknown::advice(name);
                return wrong(format!("`{name}` {}", advice.message)).with_hint(advice.hint());
            }
            let message = yaml::expected_in_words(&problem.problem);
            // What was expected is what to do about it.
            let Some((_, expected)) = message.split_once(", expected ") else {
                return wrong(message);
            };
            AppError::invalid(format!("`--set {change}` can’t be read"))
                .with_field(field)
                .with_hint(format!("it takes {expected}"))
        })?;
        put(&mut tree, field, value);
    }
    AnyRequest::read(&tree).map_err(|it| AppError::invalid(it.to_string()).with_field(it.field))
}

/// Gives fields of a request other values.
pub(crate) fn put_fields(
    request: AnyRequest,
    fields: impl IntoIterator<Item = (String, Value)>,
) -> Result<AnyRequest> {
    let mut tree = tree_of(&request)?;
    for (field, value) in fields {
        put(&mut tree, &field, value);
    }
    AnyRequest::read(&tree).map_err(wrong)
}

/// A request of these fields alone, of whatever kind they name.
pub(crate) fn of_fields(fields: impl IntoIterator<Item = (String, Value)>) -> Result<AnyRequest> {
    let mut tree = Value::Object(Map::new());
    for (field, value) in fields {
        put(&mut tree, &field, value);
    }
    AnyRequest::read(&tree).map_err(wrong)
}

/// What is wrong with a field, as an error that names it.
fn wrong(Problem { field, problem }: Problem) -> AppError {
    let message = yaml::expected_in_words(&problem);
    AppError::invalid(format!("`{field}`: {message}")).with_field(field)
}

fn tree_of(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| AppError::failed(error.to_string()))
}

/// The text of a plan, with the reasons as comments. It can be read as a request.
pub(crate) fn write(resolved: &AnyResolved) -> Result<String> {
    yaml::write_with_comments(&resolved.plan, |field| {
        let reason = resolved
            .reasons
            .iter()
            .find(|reason| reason.field == field)?;
        Some(reason.why.clone())
    })
}

/// The text of a plan with another value in one of the fields that stand in a line.
pub(crate) fn with_field(text: &str, field: &str, value: Value) -> Result<String> {
    let value = Value::Object(Map::from_iter([(field.to_owned(), value)]));
    let line = yaml::write_with_comments(&value, |_| None)?;
    let begin = format!("{field}:");
    let lines = text.lines().map(|it| match it.starts_with(&begin) {
        true => line.trim_end(),
        false => it,
    });
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// The text of another plan than that in `text`, with `why` beside each value that is new.
pub(crate) fn with_plan(text: &str, plan: &AnyPlan, why: &str) -> Result<String> {
    let values = |text: &str| -> BTreeMap<String, (String, String)> {
        let lines = yaml::plan_lines(text).into_iter();
        lines.map(|it| (it.field, (it.value, it.why))).collect()
    };
    let old = values(text);
    let new = values(&yaml::write_with_comments(plan, |_| None)?);
    yaml::write_with_comments(plan, |field| {
        // A field that has fields of its own has no value.
        let (value, _) = new.get(field)?;
        match old.get(field) {
            Some((before, comment)) if before == value => Some(comment.clone()),
            _ => Some(why.to_owned()),
        }
        .filter(|comment| !comment.is_empty())
    })
}

/// A request as changes to an empty one: each field with its value, written as in a file.
#[cfg(feature = "gui")]
pub(crate) fn fields(request: &AnyRequest) -> Result<BTreeMap<String, String>> {
    fn collect(prefix: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
        match value {
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {}
            Value::Object(sections) if prefix != "data.columns" => {
                for (name, value) in sections {
                    let field = match prefix {
                        "" => name.clone(),
                        prefix => format!("{prefix}.{name}"),
                    };
                    collect(&field, value, fields);
                }
            }
            Value::Object(columns) if columns.is_empty() => {}
            Value::String(message) if yaml::parse_scalar(message) == Ok(value.clone()) => {
                fields.insert(prefix.to_owned(), message.clone());
            }
            // JSON is YAML too.
            value => {
                fields.insert(prefix.to_owned(), value.to_string());
            }
        }
    }
    let mut fields = BTreeMap::new();
    collect("", &tree_of(request)?, &mut fields);
    Ok(fields)
}

/// A plan as a request for another run like it.
#[cfg(feature = "gui")]
pub(crate) fn request_of(plan: &AnyPlan) -> Result<AnyRequest> {
    AnyRequest::read(&tree_of(plan)?).map_err(wrong)
}

/// Reads the plan of a run.
pub(crate) fn read_plan(path: &Path) -> Result<AnyPlan> {
    let text = limits::read_text(limits::YAML_FILE, path, "read the plan")?;
    yaml::parse(&text, path)
}

/// Puts a value where a path like `lora.rank` says, making sections on the way.
fn put(tree: &mut Value, field: &str, value: Value) {
    let (section, rest) = match field.split_once('.') {
        Some((section, rest)) => (section, Some(rest)),
        None => (field, None),
    };
    if !tree.is_object() {
        *tree = Value::Object(Map::new());
    }
    if let Value::Object(fields) = tree {
        let slot = fields.entry(section).or_insert(Value::Null);
        match rest {
            Some(rest) => put(slot, rest, value),
            None => *slot = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_word_of_a_field_is_read() {
        for field in models::tasks::fields::fields() {
            for choice in field.choices {
                let change = format!("{}={}", field.name, choice.value);
                let task = field.task.unwrap_or(models::tasks::KINDS[0]);
                let request = request_from(serde_json::json!({"task": task}));
                set(request, &[change]).unwrap();
            }
        }
    }

    #[test]
    fn a_change_replaces_one_field_and_keeps_the_others() {
        let request = set(
            request_from(serde_json::json!({"steps": 10})),
            &[
                "lora.rank=16",
                "learning_rate=1e-3",
                "lora.targets=[q_proj]",
            ]
            .map(str::to_owned),
        )
        .unwrap();
        let expected = serde_json::json!({
            "steps": 10, "learning_rate": 1e-3, "lora": {"rank": 16, "targets": ["q_proj"]},
        });
        assert_eq!(request, request_from(expected));
    }

    #[cfg(feature = "gui")]
    #[test]
    fn a_request_is_its_fields_and_the_fields_are_the_request() {
        let request: AnyRequest = serde_json::from_value(serde_json::json!({
            "name": "a: b", "method": "lora", "model": "m", "steps": 5, "learning_rate": 1e-3,
            "data": {"files": ["a, b.txt"], "columns": {"prompt": "question"}, "packing": true},
            "lora": {"targets": ["q_proj"]}, "sample": {"prompts": ["8", "\"x\"\n"]},
        }))
        .unwrap();
        let fields = fields(&request).unwrap();
        assert_eq!(fields["method"], "lora");
        let changes: Vec<String> = fields.iter().map(|(f, v)| format!("{f}={v}")).collect();
        assert_eq!(set(AnyRequest::default(), &changes).unwrap(), request);
    }

    #[test]
    fn a_change_reaches_fields_of_a_config() {
        let change = ["scratch.config.num_hidden_layers=2".to_owned()];
        let request = set(AnyRequest::default(), &change).unwrap();
        let config = serde_json::json!({"scratch": {"config": {"num_hidden_layers": 2}}});
        assert_eq!(request, request_from(config));
    }

    fn request_from(tree: Value) -> AnyRequest {
        AnyRequest::read(&tree).unwrap()
    }

    #[test]
    fn a_wrong_change_is_named() {
        for (change, message, hint) in [
            (
                "steps",
                "`--set steps` has no `=`",
                Some("write it like `--set lora.rank=16`"),
            ),
            (
                "steps=many",
                "`--set steps=many` can’t be read",
                Some("it takes a whole number"),
            ),
            (
                "lora.rnak=8",
                "`--set lora.rnak=8`: `lora.rnak` is not a setting; the nearest is `lora.rank`",
                None,
            ),
            (
                "lora_r=8",
                "`--set lora_r=8`: `lora_r` is called `lora.rank` here",
                None,
            ),
            (
                "lora={r: 8}",
                "`--set lora={r: 8}`: `lora.r` is called `lora.rank` here",
                None,
            ),
            (
                "precision=int4",
                "`--set precision=int4`: `dtype` is `int4`; it can be f32, bf16 or f16",
                None,
            ),
            (
                "steps.more=8",
                "`--set steps.more=8` can’t be read",
                Some("it takes a whole number"),
            ),
        ] {
            let error = set(AnyRequest::default(), &[change.to_owned()]).unwrap_err();
            assert_eq!(error.message, message);
            if hint.is_some() {
                assert_eq!(error.hint.as_deref(), hint);
            }
        }
    }

    #[test]
    fn the_advice_says_what_to_write() {
        let error = set(AnyRequest::default(), &["lora_r=8".to_owned()]).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("lora_r"));
        assert_eq!(error.hint.as_deref(), Some("write `lora.rank`"));
        let error = set(AnyRequest::default(), &["nonsense=8".to_owned()]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some(unknown::ALL_FIELDS));
    }

    fn read_text(text: &str) -> Result<AnyRequest> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.yaml");
        fs::write(&path, text).unwrap();
        read(&path).map_err(|mut error| {
            let folder = format!("{}/", folder.path().display());
            error.message = error.message.replace(&folder, "");
            error
        })
    }

    #[test]
    fn a_file_of_another_trainer_is_answered_name_by_name() {
        let text = "base_model: smol\n# Comment.\nlora_r: 16\nlora:\n  rnak: 8\nload_in_4bit: true\nsteps: 3\n";
        let error = read_text(text).unwrap_err();
        assert_eq!(
            error.message,
            "`base_model` in line 1 is called `model` here: `run.yaml`"
        );
        assert_eq!(error.field.as_deref(), Some("base_model"));
        assert_eq!(error.hint.as_deref(), Some(unknown::ALL_FIELDS));
        let others: Vec<String> = error.others.iter().map(ToString::to_string).collect();
        assert_eq!(
            others,
            [
                "`lora_r` is called `lora.rank` here",
                "`lora.rnak` is not a setting; the nearest is `lora.rank`",
                "`load_in_4bit` is called `quantize` here and names what frozen weights are put into: `nf4` is 4 bits",
            ]
        );
        let error = read_text("task: language\nsteps: 3\nlora_r: 16\n").unwrap_err();
        assert_eq!(
            error.message,
            "`lora_r` in line 3 is called `lora.rank` here: `run.yaml`"
        );
        assert_eq!(
            error.hint.as_deref(),
            Some("write `rank` in a line of its own below `lora:`")
        );
    }

    #[test]
    fn precision_is_the_format_that_is_computed_in() {
        let expected = |dtype| {
            let tree = serde_json::json!({"seed": 1, "dtype": {"compute": dtype}});
            request_from(tree)
        };
        for (precision, dtype) in [
            ("bf16", "bf16"),
            ("16-mixed  # as in Lightning", "f16"),
            ("32", "f32"),
        ] {
            let request = read_text(&format!("seed: 1\nprecision: {precision}\n")).unwrap();
            assert_eq!(request, expected(dtype), "{precision}");
        }
        let changes = ["seed=1", "precision=16"].map(str::to_owned);
        assert_eq!(
            set(AnyRequest::default(), &changes).unwrap(),
            expected("f16")
        );
        let both = read_text("precision: fp16\ndtype:\n  compute: float16\n").unwrap_err();
        assert_eq!(
            both.message,
            "`precision` in line 1 means the same as `dtype.compute`, which is given too; remove one of the two: \
             `run.yaml`"
        );
        let wrong = read_text("seed: 1\nprecision: int4\n").unwrap_err();
        assert!(
            wrong.message.contains("`int4`; it can be f32, bf16 or f16"),
            "{}",
            wrong.message
        );
    }

    #[test]
    fn former_names_of_fields_mean_what_they_meant() {
        let now =
            serde_json::json!({"gradient_checkpointing": true, "memory_fallback": {"cpu": true}});
        let former = read_text("checkpointing: true\nrelief:\n  cpu: true\n").unwrap();
        assert_eq!(former, request_from(now.clone()));
        let changes = ["checkpointing=true", "relief.cpu=true"].map(str::to_owned);
        assert_eq!(
            set(AnyRequest::default(), &changes).unwrap(),
            request_from(now)
        );
        let both = read_text("checkpointing: true\ngradient_checkpointing: false\n").unwrap_err();
        assert_eq!(both.field.as_deref(), Some("checkpointing"));
    }
}
