//! Files with tasks of ARC: a pair of challenges and solutions as on Kaggle, one file for each task as in the original repository,
//! or all tasks of a file by name.
//!
//! Those in a file or folder whose name has “evaluation” in it, and in our `test.json`, are measured with: what they ask is not
//! learned from.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::arc::{COLOURS, Grid, Pair, SIDE, Task};
use crate::{Error, Result, figures::counted, limits};

/// The end of the name of a file with what is asked, and of the one with the answers.
pub const CHALLENGES: &str = "_challenges.json";
const SOLUTIONS: &str = "_solutions.json";
/// Our own files of a folder: tasks to learn from, and tasks to measure with.
pub const TRAIN: &str = "train.json";
/// See [`TRAIN`].
pub const TEST: &str = "test.json";
/// In the name of what is measured with.
const MEASURED: &str = "evaluation";

type JsonGrid = Vec<Vec<Json>>;

#[derive(Deserialize)]
struct JsonTask {
    train: Vec<JsonPair>,
    test: Vec<JsonPair>,
}

#[derive(Deserialize)]
struct JsonPair {
    input: JsonGrid,
    #[serde(default)]
    output: Option<JsonGrid>,
}

/// The files with tasks that a path names. Of a pair on Kaggle, what is asked.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let failed = || Error::file("read the folder", path);
    let mut inside: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed())?
        .map(|it| it.map(|it| it.path()).map_err(failed()))
        .collect::<Result<_>>()?;
    inside.sort();
    let is_json = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
    for path in inside {
        if matches!(name(&path), "training" | "evaluation") && path.is_dir() {
            found.extend(files(&path)?);
        } else if path.is_file() && is_json(&path) && !name(&path).ends_with(SOLUTIONS) {
            found.push(path);
        }
    }
    // Beside challenges, other files are about something else.
    let asks = |path: &PathBuf| name(path).ends_with(CHALLENGES);
    if found.iter().any(asks) {
        found.retain(asks);
    }
    Ok(found)
}

/// The file with the answers to a file of challenges.
pub fn solutions(path: &Path) -> Option<PathBuf> {
    let start = name(path).strip_suffix(CHALLENGES)?;
    Some(path.with_file_name(format!("{start}{SOLUTIONS}")))
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|it| it.to_str())
        .unwrap_or_default()
}

/// Reads the tasks of a file.
pub fn read(path: &Path) -> Result<Vec<Task>> {
    let text = |path: &Path| limits::PUZZLE_JSON.read(path, "read the tasks");
    let wrong =
        |error: serde_json::Error| Error::format(path, format!("has no tasks of ARC: {error}"));
    let bytes = text(path)?;
    let is_one = serde_json::from_slice::<Map<String, Json>>(&bytes)
        .map_err(wrong)?
        .get("train")
        .is_some_and(Json::is_array);
    let tasks: BTreeMap<String, JsonTask> = match is_one {
        true => {
            let name = name(path).trim_end_matches(".json").to_owned();
            BTreeMap::from([(name, serde_json::from_slice(&bytes).map_err(wrong)?)])
        }
        false => serde_json::from_slice(&bytes).map_err(wrong)?,
    };
    let solutions = solutions(path).filter(|it| it.is_file());
    let mut answers: BTreeMap<String, Vec<JsonGrid>> = match &solutions {
        None => BTreeMap::new(),
        Some(path) => serde_json::from_slice(&text(path)?)
            .map_err(|error| Error::format(path, format!("has no solutions of ARC: {error}")))?,
    };
    let folder = path.parent().map_or("", name);
    let is_measured = name(path) == TEST || name(path).contains(MEASURED) || folder == MEASURED;
    let task = |(name, mut task): (String, JsonTask)| {
        let answers = answers.remove(&name).unwrap_or_default();
        if !answers.is_empty() && answers.len() != task.test.len() {
            let (asked, answered) = (task.test.len(), answers.len());
            let problem = format!("task {name} has {asked} test pairs, and {answered} solutions");
            return Err(Error::format(solutions.as_deref().unwrap_or(path), problem));
        }
        for (pair, answer) in task.test.iter_mut().zip(answers) {
            pair.output = Some(answer);
        }
        checked(name, task, is_measured).map_err(|problem| Error::format(path, problem))
    };
    tasks.into_iter().map(task).collect()
}

/// The one task of a text: as a file for each task has it, with its name or without.
pub(super) fn one(text: &str) -> std::result::Result<Task, String> {
    let unread = |error: serde_json::Error| format!("this is no task of ARC: {error}");
    let mut json: Map<String, Json> = serde_json::from_str(text).map_err(unread)?;
    let is_task = json.contains_key("train") || json.contains_key("test");
    let (name, task) = match json.keys().next().cloned() {
        _ if is_task => (String::new(), Json::Object(json)),
        Some(name) if json.len() == 1 => {
            let task = json.remove(&name).unwrap_or_default();
            (name, task)
        }
        _ => {
            let count = counted(json.len() as u64, "task");
            return Err(format!("the file has {count}, and one can be solved"));
        }
    };
    if task["test"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("{} has no test input", called(&name)));
    }
    checked(name, serde_json::from_value(task).map_err(unread)?, false)
}

/// Tasks by name, as [`written`] has them.
pub(super) fn all(tasks: Json) -> std::result::Result<Vec<Task>, String> {
    let tasks: BTreeMap<String, JsonTask> =
        serde_json::from_value(tasks).map_err(|error| error.to_string())?;
    let task = |(name, task)| checked(name, task, false);
    tasks.into_iter().map(task).collect()
}

/// A task, as the beginning of a sentence about it.
fn called(name: &str) -> String {
    match name {
        "" => "the task".to_owned(),
        name => format!("task {name}"),
    }
}

fn checked(name: String, task: JsonTask, is_measured: bool) -> std::result::Result<Task, String> {
    let pairs = |kind: &str, pairs: Vec<JsonPair>| {
        let pair = |(index, pair): (usize, JsonPair)| {
            let task = called(&name);
            let place = |what: &str| format!("{task}, {kind} pair {}, {what}: ", index + 1);
            let output = pair
                .output
                .map(|output| grid(output).map_err(|it| place("output") + &it));
            Ok(Pair {
                input: grid(pair.input).map_err(|it| place("input") + &it)?,
                output: output.transpose()?,
            })
        };
        pairs
            .into_iter()
            .enumerate()
            .map(pair)
            .collect::<std::result::Result<Vec<Pair>, String>>()
    };
    let (train, test) = (pairs("train", task.train)?, pairs("test", task.test)?);
    match train.iter().position(|it| it.output.is_none()) {
        Some(index) => Err(format!(
            "{}, train pair {}: has no output",
            called(&name),
            index + 1
        )),
        None if train.is_empty() => Err(format!("{} has no train pair", called(&name))),
        None => Ok(Task {
            name,
            train,
            test,
            is_measured,
        }),
    }
}

fn grid(lines: JsonGrid) -> std::result::Result<Grid, String> {
    let (rows, columns) = (lines.len(), lines.first().map_or(0, Vec::len));
    if !(1..=SIDE).contains(&rows) || !(1..=SIDE).contains(&columns) {
        return Err(format!(
            "has {rows} rows of {columns} cells, and 1 to {SIDE} of both are allowed"
        ));
    }
    let mut cells = Vec::with_capacity(rows * columns);
    for (row, line) in lines.iter().enumerate() {
        if line.len() != columns {
            let (row, cells) = (row + 1, counted(line.len() as u64, "cell"));
            return Err(format!(
                "row {row} has {cells}, and the first has {columns}"
            ));
        }
        for (column, colour) in line.iter().enumerate() {
            let known = colour
                .as_u64()
                .and_then(|it| u8::try_from(it).ok())
                .filter(|it| usize::from(*it) < COLOURS);
            let (row, column) = (row + 1, column + 1);
            cells.push(known.ok_or_else(|| {
                format!("row {row}, column {column} is {colour}, and a colour is 0 to 9")
            })?);
        }
    }
    Ok(Grid {
        rows,
        columns,
        cells,
    })
}

/// Tasks by name, as a file has them.
pub fn written<'a>(tasks: impl Iterator<Item = &'a Task>) -> Json {
    let pairs = |pairs: &[Pair]| -> Vec<Json> {
        let pair = |pair: &Pair| match &pair.output {
            Some(output) => json!({"input": pair.input.lines(), "output": output.lines()}),
            None => json!({"input": pair.input.lines()}),
        };
        pairs.iter().map(pair).collect()
    };
    let task = |task: &Task| {
        let pairs = json!({"train": pairs(&task.train), "test": pairs(&task.test)});
        (task.name.clone(), pairs)
    };
    Json::Object(tasks.map(task).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"train": [{"input": [[1, 2]], "output": [[2], [1]]}], "test": [{"input": [[3]], "output": [[4]]}]}"#;

    fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn tasks_are_read_from_all_layouts() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let one = read(&file(folder, "original/evaluation/ab12.json", ONE)).unwrap();
        assert_eq!((one[0].name.as_str(), one[0].is_measured), ("ab12", true));
        file(folder, "original/training/cd34.json", ONE);
        assert_eq!(files(&folder.join("original")).unwrap().len(), 2);

        let asked = r#"{"x": {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]]}, {"input": [[4]]}]}}"#;
        let path = file(folder, "kaggle/a_training_challenges.json", asked);
        assert_eq!(read(&path).unwrap()[0].test[0].output, None);
        let answers = file(
            folder,
            "kaggle/a_training_solutions.json",
            r#"{"x": [[[5]], [[6, 7]]]}"#,
        );
        file(folder, "kaggle/sample_submission.json", "{}");
        assert_eq!(
            files(&folder.join("kaggle")).unwrap(),
            std::slice::from_ref(&path)
        );
        assert_eq!(solutions(&path), Some(answers));
        let tasks = read(&path).unwrap();
        assert_eq!(tasks[0].test[1].output.as_ref().unwrap().cells, [6, 7]);
        assert!(!tasks[0].is_measured);

        let path = file(folder, "ours/test.json", &written(tasks.iter()).to_string());
        let again = read(&path).unwrap();
        assert_eq!(
            (&again[0].train, &again[0].test),
            (&tasks[0].train, &tasks[0].test)
        );
        assert!(again[0].is_measured);
    }

    #[test]
    fn what_is_wrong_with_a_task_is_said_by_its_place() {
        let cases = [
            (
                "[[1, 2], [3]]",
                "task t, test pair 1, input: row 2 has 1 cell, and the first has 2",
            ),
            (
                "[[1, 10]]",
                "task t, test pair 1, input: row 1, column 2 is 10, and a colour is 0 to 9",
            ),
            (
                "[[1, -1]]",
                "task t, test pair 1, input: row 1, column 2 is -1, and a colour is 0 to 9",
            ),
            (
                "[]",
                "task t, test pair 1, input: has 0 rows of 0 cells, and 1 to 30 of both are allowed",
            ),
            (
                "[[0.5]]",
                "task t, test pair 1, input: row 1, column 1 is 0.5, and a colour is 0 to 9",
            ),
            (
                "[[1, \"x\"]]",
                "task t, test pair 1, input: row 1, column 2 is \"x\", and a colour is 0 to 9",
            ),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (input, expected) in cases {
            let path = file(folder.path(), "t.json", &ONE.replace("[[3]]", input));
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let path = file(
            folder.path(),
            "t.json",
            &ONE.replace(r#", "output": [[2], [1]]"#, ""),
        );
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("task t, train pair 1: has no output"),
            "{error}"
        );
    }
}
