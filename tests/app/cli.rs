//! What the program says: help, plans, errors, and how it ends.

use crate::app::{App, check_expected, sentences};

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let output = App::new().run(&["--help"]);
    assert_eq!(output.code, 0);
    check_expected("help.txt", &output.stdout);
}

#[test]
fn help_of_training_explains_every_option() {
    check_expected(
        "help-train.txt",
        &App::new().run(&["train", "--help"]).stdout,
    );
}

/// Elsewhere there always is a screen, and the window opens.
#[cfg(target_os = "linux")]
#[test]
fn without_arguments_the_help_is_shown() {
    let output = App::new().run(&[]);
    assert!(output.stdout.contains("Usage: anneal"), "{output:?}");
}

#[test]
fn a_plan_is_shown_with_its_reasons_and_starts_nothing() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let output = app.run(&[
        "train",
        "--data",
        "animals.txt",
        "--device",
        "cpu",
        "--plan",
    ]);
    assert_eq!(output.code, 0);
    // How much is free is another number each time.
    assert!(output.stderr.starts_with("about "), "{output:?}");
    assert!(output.stderr.ends_with(" free, estimated\n"), "{output:?}");
    let plan = output.stdout.replace(&app.processor(), "PROCESSOR");
    check_expected("plan-scratch.txt", &plan);
    assert!(!app.home().join("runs").exists());
}

#[test]
fn a_run_that_does_not_fit_is_refused_with_words_to_add_that_make_it_fit() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let train = |more: &[&str]| {
        let asked = [
            "train",
            "--data",
            "animals.txt",
            "--device",
            "cpu",
            "--set",
            "batch.rows=100000000",
        ];
        app.run(&[&asked[..], more].concat())
    };
    let refused = train(&[]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("the run needs about"),
        "{refused:?}"
    );
    assert!(!app.home().join("runs").exists());

    let refused = train(&["--json"]);
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
    let fix = &error["error"]["fit"]["ways"][0];
    let changes: Vec<String> = fix["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            format!(
                "--set={}={}",
                it["field"].as_str().unwrap(),
                it["value"].as_str().unwrap()
            )
        })
        .collect();
    let mut more: Vec<&str> = changes.iter().map(String::as_str).collect();
    more.extend(["--plan", "--json"]);
    let planned: serde_json::Value = serde_json::from_str(&train(&more).stdout).unwrap();
    assert_eq!(planned["fit"]["fits"], true, "{fix}");

    // A plan can be looked at all the same.
    assert_eq!(train(&["--plan"]).code, 0);
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_opened_unless_it_is_forced() {
    let app = App::new();
    app.file(
        "large/config.json",
        r#"{"model_type": "llama", "vocab_size": 32000, "hidden_size": 65536, "intermediate_size": 262144,
        "num_hidden_layers": 1000, "num_attention_heads": 512}"#,
    );
    let refused = app.run(&["chat", "large", "--device", "cpu"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let said = &refused.stderr;
    assert!(
        said.contains("error: talking to the model needs about "),
        "{said}"
    );
    assert!(
        said.contains(" GB, and ") && said.contains(" are free on "),
        "{said}"
    );
    assert!(
        said.contains("or choose a smaller model, or add `--force`"),
        "{said}"
    );
    // It is opened only then, and there is nothing to open.
    let forced = app.run(&["chat", "large", "--device", "cpu", "--force"]);
    assert_eq!(forced.code, 1, "{forced:?}");
    assert!(forced.stderr.contains("could not read the "), "{forced:?}");
}

#[test]
fn a_measured_plan_says_what_the_run_will_take_and_is_a_run_file_still() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let more = [
        "--set",
        "scratch.preset=nano",
        "--set",
        "scratch.config.num_hidden_layers=1",
        "--steps",
        "3",
    ];
    let train = |output: &[&str]| {
        let asked = ["train", "--data", "animals.txt", "--device", "cpu"];
        app.run(&[&asked[..], &more, output].concat())
    };
    let measured = train(&["--plan", "--measure"]);
    assert_eq!(measured.code, 0, "{measured:?}");
    assert!(measured.stdout.contains("# measured, "), "{measured:?}");
    app.file("again.yaml", &measured.stdout.replace("FOLDER/", ""));
    let again = app.run(&["train", "again.yaml", "--plan"]);
    assert_eq!(again.code, 0, "{again:?}");

    let measured: serde_json::Value =
        serde_json::from_str(&train(&["--plan", "--measure", "--json"]).stdout).unwrap();
    let forecast = &measured["forecast"];
    assert_eq!(forecast["whole"], true);
    let (step, all) = (
        forecast["step_millis"].as_f64(),
        forecast["seconds"].as_f64(),
    );
    assert!(all.unwrap() * 1e3 > 3.0 * step.unwrap());
    // Nothing of the trial is kept.
    let runs = std::fs::read_dir(app.home().join("runs"));
    assert_eq!(runs.map_or(0, Iterator::count), 0);
}

#[test]
fn a_plan_for_machines_is_one_line_of_json() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let output = app.run(&[
        "train",
        "--data",
        "animals.txt",
        "--set",
        "seed=7",
        "--plan",
        "--json",
    ]);
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(answer["plan"]["seed"], 7);
    let seed = answer["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["field"] == "seed");
    assert_eq!(seed.unwrap()["automatic"], false);
}

#[test]
fn what_is_wrong_with_a_request_is_said_by_field_and_line() {
    let cases = [
        ("lora:\n  rnak: 8\n", &[][..]),
        ("steps: many\n", &[]),
        (
            "steps: 0\nlearning_rate: 0\ndata:\n  files: [animals.txt]\n",
            &[],
        ),
        ("data:\n  files: [animals.txt]\n", &["--set", "lora.rnak=8"]),
        ("data:\n  files: [animals.txt]\n", &["--set", "steps"]),
        ("data:\n  files: [nothing.txt]\n", &[]),
        ("model: nothing\ndata:\n  files: [animals.txt]\n", &[]),
        ("{}", &[]),
        (
            "steps: 300\nschedule:\n  warmup_steps: 500\ndata:\n  files: [animals.txt]\n",
            &[],
        ),
    ];
    let mut all = String::new();
    for (run_file, arguments) in cases {
        let app = App::new();
        app.file("animals.txt", &sentences(400));
        app.file("run.yaml", run_file);
        let output = app.run(&[&["train", "run.yaml", "--device", "cpu"], arguments].concat());
        all += &format!(
            "{run_file}{}\n{}exit code {}\n\n",
            arguments.join(" "),
            output.stderr,
            output.code
        );
        assert_eq!(output.stdout, "");
    }
    check_expected("wrong-requests.txt", &all);
}

#[test]
fn errors_for_machines_are_json() {
    let output = App::new().run(&["runs", "show", "nothing", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!(answer["error"]["code"], "invalid_request");
    assert_eq!(answer["error"]["message"], "there is no run `nothing`");
    assert_eq!(output.code, 2);
}

#[test]
fn arguments_that_are_refused_are_json_for_machines_too() {
    let cases = [
        (
            &["train", "--stpes", "3", "--json"][..],
            "unexpected argument '--stpes' found",
            "a similar argument exists: '--steps'",
        ),
        (
            &["--json", "chat"],
            "the following required arguments were not provided: <MODEL_OR_RUN>",
            "--help explains the arguments",
        ),
        (
            &["train", "--steps", "many", "--json"],
            "invalid value 'many' for '--steps <STEPS>': invalid digit found in string",
            "--help explains the arguments",
        ),
        (
            &["--json", "data"],
            "it is not said what to do",
            "--help lists the commands",
        ),
    ];
    for (arguments, message, hint) in cases {
        let output = App::new().run(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{output:?}");
        let answer: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!(answer["error"]["code"], "invalid_request");
        assert_eq!(answer["error"]["message"], message);
        assert_eq!(answer["error"]["hint"], hint);
    }
    // Words after `--` are none of ours, and help is no error.
    let words = App::new().run(&["device", "--", "--json"]);
    assert!(words.stderr.starts_with("error: "), "{words:?}");
    let help = App::new().run(&["chat", "--help", "--json"]);
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Usage: anneal chat"), "{help:?}");
}

#[test]
fn data_is_shown_with_its_problems_its_lengths_and_an_example() {
    let app = App::new();
    let mut rows: String = (1..=30)
        .map(|number| {
            format!(
                "{{\"question\": \"What is {number} + 1?\", \"answer\": \"{}\"}}\n",
                number + 1
            )
        })
        .collect();
    rows += "{\"question\": \"And then?\"}\n{\"question\": 7, \"answer\": \"8\"}\nnot json\n";
    app.file("sums.jsonl", &rows);
    let columns = [
        "--column",
        "prompt=question",
        "--column",
        "completion=answer",
    ];
    let output = app.run(&[&["data", "inspect", "sums.jsonl"], &columns[..]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    check_expected("inspect-chat.txt", &output.stdout);

    // Names that say which is the question and which the answer are taken at their word; others have to be mapped.
    let found = app.run(&["data", "inspect", "sums.jsonl"]);
    let said = "`question` as the prompt and `answer` as the completion";
    assert!(found.stdout.contains(said), "{found:?}");
    app.file(
        "riddles.jsonl",
        &rows
            .replace("question", "problem")
            .replace("answer", "solution"),
    );
    let unmapped = app.run(&["data", "inspect", "riddles.jsonl"]);
    check_expected("inspect-unmapped.txt", &unmapped.stderr);
}

#[test]
fn plain_text_is_shown_as_one_stream() {
    let app = App::new();
    app.file("animals.txt", &sentences(40));
    check_expected(
        "inspect-text.txt",
        &app.run(&["data", "inspect", "animals.txt"]).stdout,
    );
}

#[test]
fn text_in_another_encoding_is_an_error_until_it_is_named() {
    let app = App::new();
    std::fs::write(
        app.folder().join("latin.txt"),
        b"caf\xe9 na\xefve\n".repeat(50),
    )
    .unwrap();
    let refused = app.run(&["data", "inspect", "latin.txt"]);
    assert_eq!(refused.code, 1);
    check_expected("inspect-latin.txt", &refused.stderr);
    let read = app.run(&["data", "inspect", "latin.txt", "--encoding", "latin-1"]);
    assert!(read.stdout.contains("café naïve"), "{read:?}");
}

/// A program with a broken engine for CUDA beside it.
#[cfg(all(unix, not(feature = "cuda")))]
#[test]
fn an_engine_for_cuda_that_does_not_start_is_a_sentence_and_the_rest_works() {
    use std::{fs, os::unix::fs::PermissionsExt};

    let app = App::new();
    let program = app.folder().join("anneal");
    fs::copy(env!("CARGO_BIN_EXE_anneal"), &program).unwrap();
    let beside = app.file("anneal-cuda", "#!/bin/sh\nexit 3\n");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    let output = app.run_command(app.command_of(program, &["device"]), "");
    assert_eq!(output.code, 0, "{output:?}");
    let expected =
        "the engine for CUDA that stands beside Anneal can't be used: the engine ended with code 3";
    assert!(output.stderr.contains(expected), "{output:?}");
    // Which it is depends on the machine.
    assert!(output.stdout.contains("\nUsed: "), "{output:?}");
}
