//! Tasks of ARC that a trained model answers: those that it learned from, and new ones.

use std::{fs, ops::ControlFlow};

use candle_core::Device;
use models::{
    tasks::puzzle::{
        Puzzle, PuzzleTask,
        learned::TASKS,
        solve::{Effort, Thinking},
    },
    train::{Kind, RunPlace, Task},
};

use crate::solve::{Trained, USUAL, open};

#[test]
fn a_task_that_was_learned_from_is_answered_by_the_votes_of_its_looks() {
    let trained = Trained::tasks();
    let (solver, held) = (&trained.solver, trained.held_out());
    // Of the one held-out task, both questions.
    assert_eq!(held.iter().map(|it| it.part).collect::<Vec<_>>(), [0, 1]);
    let question = solver.read(&held[1].puzzle, 1).unwrap();
    assert_eq!(question.parts(), 2);
    let asked = question.asked.as_ref().unwrap();
    assert!(asked.is_known && question.warnings.is_empty());
    assert_eq!(asked.looks.len(), 4);
    let mut steps = Vec::new();
    let mut watch = |step: &Thinking| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    };
    let solved = solver.solve(&question, USUAL, &mut watch).unwrap();
    assert_eq!((solved.looks, steps.len()), (1, 2));
    assert_eq!(solved.answers[0].votes, 1);
    let usual = Effort { steps: 0, votes: 0 };
    let all = solver.solve(&question, usual, &mut |_| ControlFlow::Continue(()));
    let all = all.unwrap();
    assert_eq!(all.looks, 4);
    assert!(all.answers.len() <= 2);
    assert!(all.answers.iter().all(|it| it.is_right.is_some()));
    // By its name it is the same task; another name for its pairs too.
    let named = solver.read("d", 1).unwrap();
    assert_eq!(named, question);
    let other = solver
        .read(&held[1].puzzle.replacen("\"d\"", "\"e\"", 1), 1)
        .unwrap();
    assert_eq!(other.asked.unwrap().looks, asked.looks);
    assert!(solver.read("d", 2).is_err());
}

#[test]
fn a_task_is_answered_with_the_vectors_that_it_learned_with() {
    let trained = Trained::tasks();
    let mut task: PuzzleTask = Puzzle::open(&trained.plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    task.load(&trained.newest()).unwrap();
    let measured = task
        .evaluate(0, &mut models::train::Measuring::alone(&|| true))
        .unwrap()
        .unwrap();
    let value = |name: &str| {
        let mut all = measured.metrics.iter();
        all.find(|it| it.name == name).unwrap().value
    };
    // All looks of both questions vote, as in the run’s own measure.
    let right = |part: usize| {
        let question = trained.solver.read("d", part).unwrap();
        let effort = Effort { steps: 0, votes: 4 };
        let mut go_on = |_: &Thinking| ControlFlow::Continue(());
        let solved = trained.solver.solve(&question, effort, &mut go_on).unwrap();
        solved.answers[0].is_right == Some(true)
    };
    let share = [0, 1].map(|part| f64::from(u8::from(right(part))));
    assert_eq!(value("pass@1"), share.iter().sum::<f64>() / 2.0);
    let mut go_on = |_| ControlFlow::Continue(());
    let counted = trained
        .solver
        .measure(&trained.held_out(), &[1, 2], &mut go_on);
    assert_eq!(counted.unwrap().unwrap().len(), 2);
}

const NEW: &str =
    r#"{"train": [{"input": [[1, 2]], "output": [[2], [1]]}], "test": [{"input": [[3, 4]]}]}"#;

#[test]
fn a_task_that_is_new_starts_from_the_mean_of_all_vectors_and_says_so() {
    let trained = Trained::tasks();
    let question = trained.solver.read(NEW, 0).unwrap();
    assert!(question.warnings[0].starts_with("The model did not learn from this task."));
    let asked = question.asked.as_ref().unwrap();
    assert!(!asked.is_known && asked.looks.iter().all(|it| it.1 == 0));
    let mut go_on = |_: &Thinking| ControlFlow::Continue(());
    let solved = trained.solver.solve(&question, USUAL, &mut go_on).unwrap();
    assert_eq!(solved.answers[0].is_right, None);
    assert_eq!(solved.solved_at, None);
    // The vector of no task is the mean of the others: with it in the file, another model answers with the same numbers.
    let folder = tempfile::tempdir().unwrap();
    for name in ["puzzle.json", "model.safetensors", TASKS] {
        fs::copy(trained.newest().join(name), folder.path().join(name)).unwrap();
    }
    let weights = folder.path().join("model.safetensors");
    let mut all = candle_core::safetensors::load(&weights, &Device::Cpu).unwrap();
    let table = all.remove("puzzle_emb.weights").unwrap();
    let count = table.dim(0).unwrap();
    let others = table.narrow(0, 1, count - 1).unwrap();
    let mean = others.mean_keepdim(0).unwrap();
    let same = mean
        .broadcast_as(table.shape())
        .unwrap()
        .contiguous()
        .unwrap();
    all.insert("puzzle_emb.weights".to_owned(), same);
    candle_core::safetensors::save(&all, &weights).unwrap();
    let other = open(folder.path()).unwrap();
    let again = other.solve(&other.read(NEW, 0).unwrap(), USUAL, &mut go_on);
    let close = |one: f32, other: f32| (one - other).abs() < 1e-5;
    let (one, other) = (&solved.answers[0], &again.unwrap().answers[0]);
    assert!(one.rows == other.rows && close(one.sure, other.sure));
}

#[test]
fn what_is_wrong_with_a_task_is_a_sentence_with_its_place() {
    let solver = Trained::tasks().solver;
    let long = serde_json::to_string(&vec![[1]; 31]).unwrap();
    let cases = [
        (
            "[[3, 4]]",
            "[[3], [4, 5]]",
            "the task, test pair 1, input: row 2 has 2 cells, and the first has 1",
        ),
        (
            "[[3, 4]]",
            &long,
            "the task, test pair 1, input: has 31 rows of 1 cells, and 1 to 30 of both are allowed",
        ),
        (
            "[[3, 4]]",
            "[[3, 10]]",
            "the task, test pair 1, input: row 1, column 2 is 10, and a colour is 0 to 9",
        ),
        (
            "[{\"input\": [[3, 4]]}]",
            "[]",
            "the task has no test input",
        ),
        ("\"test\"", "\"tests\"", "the task has no test input"),
        (
            ", \"output\": [[2], [1]]",
            "",
            "the task, train pair 1: has no output",
        ),
    ];
    for (from, to, expected) in cases {
        let written = NEW.replacen(from, to, 1);
        assert_ne!(written, NEW);
        let problem = solver.read(&written, 0).unwrap_err().to_string();
        assert_eq!(problem, expected, "{written}");
    }
    let problem = |written: &str| solver.read(written, 0).unwrap_err().to_string();
    assert!(problem("{\"train\": ").starts_with("this is no task of ARC: EOF"));
    assert_eq!(
        problem("zz"),
        "there is no task “zz” among those that the model learned from: 4 tasks, such as a, b, c"
    );
    assert_eq!(
        problem(&format!("{{\"a\": {NEW}, \"b\": {NEW}}}")),
        "the file has 2 tasks, and one can be solved"
    );
}

#[test]
fn a_damaged_list_of_tasks_is_refused_by_what_is_wrong_with_it() {
    let trained = Trained::tasks();
    let newest = trained.newest();
    let written = fs::read_to_string(newest.join(TASKS)).unwrap();
    for (from, to, expected) in [
        ("\"d\":", "\"d\":99,\"e\":", "task d has the vector 99"),
        ("{", "", "tasks.json is damaged"),
        (
            "\"input\":[[1,1]",
            "\"input\":[[1,11]",
            "a colour is 0 to 9",
        ),
    ] {
        fs::write(newest.join(TASKS), written.replacen(from, to, 1)).unwrap();
        let problem = open(&newest).map(drop).unwrap_err();
        let said = format!("{problem} {problem:?}");
        assert!(said.contains(expected), "{said}");
    }
    // Without it, a model of arrays is open all the same, and says of every task that it is new.
    fs::remove_file(newest.join(TASKS)).unwrap();
    let question = open(&newest).unwrap().read(NEW, 0).unwrap();
    assert!(question.warnings[0].starts_with("Which tasks the model learned from is not in"));
}
