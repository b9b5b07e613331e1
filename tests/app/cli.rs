//! What the program says: help, plans, errors, and how it ends.

use serde_json::Value;

use crate::app::{App, check_expected, sentences};

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let output = App::new().anneal("--help");
    output.ended(0);
    check_expected("help.txt", &output.stdout);
}

#[test]
fn help_of_training_explains_every_option() {
    check_expected("help-train.txt", &App::new().anneal("train --help").stdout);
}

/// Elsewhere there always is a screen, and the window opens.
#[cfg(target_os = "linux")]
#[test]
fn without_arguments_the_help_is_shown() {
    App::new().run(&[]).shows("Usage: anneal");
}

#[test]
fn a_plan_is_shown_with_its_reasons_and_starts_nothing() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let output = app.anneal("train --data animals.txt --device cpu --plan");
    output.ended(0);
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
    let train = |more: &str| {
        let asked = "train --data animals.txt --device cpu --set batch.rows=1000000";
        app.anneal(&format!("{asked}{more}"))
    };
    train("").ended(2).notes("the run needs about");
    assert!(!app.home().join("runs").exists());

    let error: Value = serde_json::from_str(&train(" --json").stderr).unwrap();
    let fix = &error["error"]["fit"]["fixes"][0];
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = fix["changes"].as_array().unwrap().iter();
    let changes = changes.map(|it| format!(" --set {}={}", word(&it["field"]), word(&it["value"])));
    let planned = train(&(changes.collect::<String>() + " --plan --json")).json();
    assert_eq!(planned["fit"]["fits"], true, "{fix}");

    // A plan can be looked at all the same.
    train(" --plan").ended(0);
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_opened_unless_it_is_forced() {
    let app = App::new();
    app.file(
        "large/config.json",
        r#"{"model_type": "llama", "vocab_size": 32000, "hidden_size": 65536, "intermediate_size": 262144,
        "num_hidden_layers": 1000, "num_attention_heads": 512}"#,
    );
    app.anneal("chat large --device cpu")
        .ended(2)
        .notes("error: chatting needs about ")
        .notes(" TB, and ")
        .notes(" are free on ")
        .notes("or choose a smaller model, or add `--force`");
    // It is opened only then, and there is nothing to open.
    app.anneal("chat large --device cpu --force")
        .ended(1)
        .notes("could not read the ");
}

#[test]
fn a_measured_plan_says_what_the_run_will_take_and_is_a_run_file_still() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let train = |output: &str| {
        let small = "--set scratch.preset=nano --set scratch.config.num_hidden_layers=1 --steps 3";
        app.anneal(&format!(
            "train --data animals.txt --device cpu {small} {output}"
        ))
    };
    let measured = train("--plan --measure");
    measured.ended(0).shows("# measured, ");
    app.file("again.yaml", &measured.stdout.replace("FOLDER/", ""));
    app.anneal("train again.yaml --plan").ended(0);

    let measured = train("--plan --measure --json").json();
    let forecast = &measured["forecast"];
    assert_eq!(forecast["whole"], true);
    let figure = |name: &str| forecast[name].as_f64().unwrap();
    assert!(figure("seconds") * 1e3 > 3.0 * figure("step_millis"));
    // Nothing of the trial is kept.
    let runs = std::fs::read_dir(app.home().join("runs"));
    assert_eq!(runs.map_or(0, Iterator::count), 0);
}

#[test]
fn a_plan_for_machines_is_one_line_of_json() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let output = app.anneal("train --data animals.txt --set seed=7 --plan --json");
    let answer = output.json();
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
    let output = App::new().anneal("runs show nothing --json");
    let answer: Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!(answer["error"]["code"], "invalid_request");
    assert_eq!(answer["error"]["message"], "there is no run `nothing`");
    output.ended(2);
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
        let answer: Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!(answer["error"]["code"], "invalid_request");
        assert_eq!(answer["error"]["message"], message);
        assert_eq!(answer["error"]["hint"], hint);
    }
    // Words after `--` are none of ours, and help is no error.
    let words = App::new().anneal("device -- --json");
    assert!(words.stderr.starts_with("error: "), "{words:?}");
    App::new()
        .anneal("chat --help --json")
        .ended(0)
        .shows("Usage: anneal chat");
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
    let found = app.anneal("data inspect sums.jsonl");
    let said = "`question` as the prompt and `answer` as the completion";
    found.shows(said);
    app.file(
        "riddles.jsonl",
        &rows
            .replace("question", "problem")
            .replace("answer", "solution"),
    );
    let unmapped = app.anneal("data inspect riddles.jsonl");
    check_expected("inspect-unmapped.txt", &unmapped.stderr);
}

#[test]
fn plain_text_is_shown_as_one_stream() {
    let app = App::new();
    app.file("animals.txt", &sentences(40));
    check_expected(
        "inspect-text.txt",
        &app.anneal("data inspect animals.txt").stdout,
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
    let refused = app.anneal("data inspect latin.txt");
    refused.ended(1);
    check_expected("inspect-latin.txt", &refused.stderr);
    app.anneal("data inspect latin.txt --encoding latin-1")
        .shows("café naïve");
}

#[test]
fn data_of_which_no_row_can_be_used_is_an_error() {
    let app = App::new();
    app.file(
        "long.jsonl",
        "{\"prompt\": \"a long question\", \"completion\": \"b\"}\n",
    );
    let output = app.anneal("data inspect long.jsonl --max-length 2");
    output.ended(1);
    output.notes("error: no row can be used");
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
    output.ended(0);
    let expected =
        "the engine for CUDA that stands beside Anneal can’t be used: the engine ended with code 3";
    output.notes(expected);
    // Which it is depends on the machine.
    output.shows("\nUsed: ");
}
