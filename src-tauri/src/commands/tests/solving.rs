//! Puzzles as the window makes, shows, learns and solves them.

use super::*;

impl Window {
    /// Makes a small set of 4 by 4, and adds it as data.
    fn puzzles(&self) -> Value {
        let (channel, progress) = channel();
        let app = self.webview.state::<App>();
        let made = solve::build_sudoku(app, 4, 30, 10, 1, channel).unwrap();
        assert!(progress.try_iter().count() > 0);
        serde_json::to_value(made).unwrap()
    }

    /// A run of it that takes a moment.
    fn puzzle_run(&self) -> Value {
        json!({
            "task": "puzzle", "name": "puzzles", "data.files": json!([self.puzzles()["path"]]).to_string(), "steps": "4",
            "recipe": "lesson", "trm.hidden_size": "32", "trm.num_heads": "2", "trm.halt_max_steps": "3", "batch.rows": "4", "batch.accumulate": "1",
            "device": "cpu",
        })
    }
}

/// Has a run learn puzzles to its end, and looks at what it measured and showed. Returns its id.
fn learned(window: &Window) -> Value {
    let filled = window.puzzle_run();
    let plan = window.call("plan_run", json!({ "filled": filled }));
    assert_eq!(plan["problems"], json!([]), "{plan}");
    let id = window.call("start_run", json!({"filled": filled, "force": false}));
    let status = || window.run(id.as_str().unwrap())["status"].clone();
    until(|| status() == "finished" && window.call("status", json!({}))["going"].is_null());
    let run = window.run(id.as_str().unwrap());
    assert_eq!(
        (&run["task"], &run["uses"]),
        (&json!("puzzle"), &json!(["solve"]))
    );
    let measured = run["metrics"].as_array().unwrap().iter();
    let measured: Vec<&str> = measured.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        measured,
        [
            "exact_accuracy",
            "token_accuracy",
            "halting_accuracy",
            "steps_to_halt"
        ]
    );
    let events = window.call("run_events", json!({ "id": id }));
    let shown = events["exhibits"].as_array().unwrap().last().unwrap();
    assert_eq!(shown["exhibit"]["kind"], "puzzle");

    id
}

#[test]
fn puzzles_are_made_learned_and_solved_step_by_step() {
    let window = Window::open();
    let id = learned(&window);
    let solver = window.call("open_solver", json!({ "name": id }));
    assert_eq!(
        (&solver["steps"], &solver["heldOut"]),
        (&json!(3), &json!(10))
    );
    let last = window.call("held_out_puzzle", json!({"number": 10}));
    let next = window.call("held_out_puzzle", json!({"number": 11}));
    assert_eq!(
        (&last["number"], &next["number"]),
        (&json!(10), &json!(1)),
        "it begins anew"
    );
    let text = next["text"].as_str().unwrap().to_owned();
    let read = window.call("read_puzzle", json!({ "text": text }));
    assert_eq!(read["cells"], next["cells"]);

    let solve = |puzzle: &str, steps: usize| {
        let (channel, thoughts) = channel();
        let app = window.webview.state::<App>();
        let solved = solve::solve(app, puzzle.to_owned(), 0, steps, 1, channel);
        (solved, thoughts.try_iter().count())
    };
    let (solved, thoughts) = solve(&text, 0);
    let solved = serde_json::to_value(solved.unwrap()).unwrap();
    assert_eq!((thoughts, &solved["puzzle"]), (3, &next["cells"]));
    assert_eq!(solve(&text, 6).1, 6);
    let refused = solve("11..............", 0).0.unwrap_err().message;
    assert!(
        refused.starts_with("the puzzle has no solution: it gives 1 in row 1"),
        "{refused}"
    );

    let (channel, _progress) = channel();
    let app = window.webview.state::<App>();
    let counted = solve::count_solved(app, vec![3, 6], channel).unwrap();
    let counted = serde_json::to_value(counted).unwrap();
    assert_eq!(
        (&counted["of"], &counted["marks"][1]["steps"]),
        (&json!(10), &json!(6))
    );
    window.call("close_solver", json!({}));
    assert_eq!(
        solve(&text, 0).0.unwrap_err().message,
        "no puzzle model is open"
    );
}

#[test]
fn puzzles_are_shown_as_grids_and_other_data_is_none() {
    let window = Window::open();
    let path = window.puzzles()["path"].clone();
    let ask = |files: Value, held_out: bool, from: usize| {
        let asked =
            json!({"files": files, "heldOut": held_out, "from": from, "count": 4, "looks": 2});
        window.call("puzzles", asked)
    };
    let found = ask(json!([path]), false, 28);
    assert_eq!(
        (&found["train"], &found["heldOut"]),
        (&json!(30), &json!(10))
    );
    let numbers = found["puzzles"].as_array().unwrap().iter();
    assert!(
        numbers
            .map(|it| &it["number"])
            .eq([29, 30].map(|it| json!(it)).iter())
    );
    assert_eq!(found["looks"].as_array().unwrap().len(), 2);
    assert_eq!(
        ask(json!([path]), true, 0)["puzzles"]
            .as_array()
            .unwrap()
            .len(),
        4
    );

    let table = window.home.path().join("questions.csv");
    fs::write(&table, "question,answer\nWhere?,Here.\n").unwrap();
    assert_eq!(ask(json!([table]), false, 0), json!(null));
    assert_eq!(ask(json!([]), false, 0), json!(null));
    // What begins as a puzzle and is none is said to be wrong, by its line.
    fs::write(
        &table,
        format!(
            "question,answer\n{},{}\n",
            "1...".repeat(4),
            "1234".repeat(4)
        ),
    )
    .unwrap();
    let asked = json!({"files": [table], "heldOut": false, "from": 0, "count": 4, "looks": 0});
    window.refuses("puzzles", asked, "line 2: the solution has 1 twice");

    let odd = solve::build_sudoku(window.webview.state::<App>(), 5, 1, 1, 1, channel().0);
    assert!(
        odd.unwrap_err()
            .message
            .starts_with("there is no Sudoku of 5 digits")
    );
}
