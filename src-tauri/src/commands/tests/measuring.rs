//! Benchmarks as the window does them.

use std::thread;

use super::*;

/// What the page hears of a benchmark while it is running, and its result.
type Going = (
    Receiver<Value>,
    thread::JoinHandle<Result<crate::store::benchmarks::view::BenchView>>,
);

impl Window {
    fn measure(&self) -> Going {
        let (progress, news) = channel();
        let handle = self.app.handle().clone();
        let measure = move || {
            let app = handle.state::<App>();
            bench::run_benchmark(
                app,
                vec!["cpu".to_owned()],
                Some("small".to_owned()),
                progress,
            )
        };
        (news, thread::spawn(measure))
    }
}

#[test]
fn a_benchmark_has_the_machine_to_itself_and_is_kept_as_far_as_it_came() {
    let window = Window::open();
    let before = window.start();
    until(|| window.run(&before)["status"] == "running");
    let (news, going) = window.measure();
    heard(&news, |news| news["now"] == "Waiting for “small”");
    let after = window.start();
    window.call("stop_run", json!({ "id": before }));
    heard(&news, |news| {
        news["now"].as_str().unwrap().starts_with("Matrix product")
    });
    assert_eq!(window.run(&before)["status"], "stopped");
    assert_eq!(window.run(&after)["place"], json!(1));
    heard(&news, |news| {
        news["done"] == json!(1) && news["secondsLeft"].as_f64() > Some(0.0)
    });
    window.call("stop_benchmark", json!({}));
    let measured = serde_json::to_value(going.join().unwrap().unwrap()).unwrap();
    until(|| window.run(&after)["status"] == "running");
    window.call("stop_run", json!({ "id": after }));

    let row = &measured["devices"][0]["rows"][0];
    assert_eq!(
        (&row["title"], &row["unit"]),
        (&"Matrix product".into(), &"operations".into())
    );
    assert!(
        row["measured"]["perSecond"].as_f64().unwrap() > 0.0,
        "{row}"
    );
    assert!(
        measured["warnings"]
            .to_string()
            .contains("Stopped before the end")
    );
    let id = measured["id"].clone();
    assert_eq!(window.call("benchmarks", json!({}))[0]["id"], id);
    let path = window.home.path().join("exported.json");
    window.refuses(
        "export_benchmark",
        json!({"id": id, "path": path}),
        "nobody chose",
    );
    window.pick(&path);
    window.call("export_benchmark", json!({"id": id, "path": path}));
    let compared = window.call("compare_benchmarks", json!({"earlier": id, "later": id}));
    assert_eq!(compared[0]["rows"][0]["message"], "no clear change");
    let kept = window.call("benchmarks", json!({}));
    window.call("delete_benchmark", json!({ "id": id }));
    assert_eq!(window.call("benchmarks", json!({})), json!([]));
    assert_eq!(window.call("import_benchmark", json!({ "path": path })), id);
    let imported = window.call("benchmarks", json!({}));
    assert_eq!(imported[0]["imported"], json!(true));
    assert_eq!(imported[0]["devices"], kept[0]["devices"]);
}
