//! What was trained, written for other programs from the terminal.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::PathBuf,
};

use candle_core::{DType, Device};
use models::{
    arch::{
        initial::InitialWeights,
        picture::{Architecture, NetConfig, Network, Stem},
    },
    checkpoint::save::write_safetensors,
    tasks::picture::{
        classifier::{About, Looks, View},
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
    },
};

use crate::{app::App, solve};

/// The folder `checkpoint` with a network that learned nothing.
fn checkpoint(app: &App) {
    let net = NetConfig {
        architecture: Architecture::Small,
        stem: Stem::Small,
        sides: [16; 2],
        channels: 1,
        classes: 2,
        transformer: None,
    };
    let mut weights = InitialWeights::new(1, &Device::Cpu);
    let network = Network::new(net.clone(), &mut weights, DType::F32).unwrap();
    let about = About {
        net,
        classes: ["cat", "dog, brown"].map(str::to_owned).to_vec(),
        view: View {
            shape: Shape::square(16, 1),
            short_side: None,
            crop_mode: CropMode::Center,
            filter: Filter::Bilinear,
            alpha: Alpha::default(),
            mean: vec![0.5],
            std: vec![0.25],
            looks: Looks::Mirrored,
        },
        temperature: 1.0,
    };
    let folder = app.folder().join("checkpoint");
    fs::create_dir_all(&folder).unwrap();
    about.save(&folder).unwrap();
    let tensors = network.parameters().iter();
    let tensors: BTreeMap<_, _> = tensors
        .map(|it| (it.name().to_owned(), it.tensor()))
        .collect();
    write_safetensors(&folder.join("model.safetensors"), &tensors, HashMap::new()).unwrap();
}

#[test]
fn a_network_is_written_in_each_format_beside_what_it_was_compared_by() {
    let app = App::new();
    checkpoint(&app);
    app.anneal("export checkpoint --to onnx")
        .ended(0)
        .shows("checkpoint.onnx: ")
        .shows("for ONNX Runtime")
        .shows("compared by 8 drawn pictures: scores are less than ")
        .notes("Here the network looks at each picture twice, once mirrored");
    assert!(app.folder().join("checkpoint.onnx").is_file());
    let told = app
        .anneal("export checkpoint --to coreml --out signs.mlmodel --json")
        .json();
    let size = fs::metadata(app.folder().join("signs.mlmodel")).unwrap();
    assert_eq!(told["format"], "coreml");
    assert_eq!(told["bytes"], size.len());
    assert!(told["compared"]["apart"].as_f64().unwrap() <= 1e-5);
    app.anneal("export checkpoint --to safetensors").ended(0);
    let config = app.folder().join("checkpoint-safetensors/config.json");
    let config = fs::read_to_string(config).unwrap();
    assert!(config.contains("dog, brown"), "{config}");
}

/// A run on a few words, of a model that no other knows.
const WORDS: &str = "\
name: Words
data: {files: [words.txt]}
scratch:
  preset: nano
  vocab_size: 300
  config: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 16}
batch: {rows: 2, length: 32, accumulate: 1}
steps: 3
device: cpu
";

#[test]
fn a_language_model_is_exported_compared_and_talked_to() {
    let app = App::new();
    app.file(
        "words.txt",
        &"The cat sat on the mat.\n\nA dog ran there.\n".repeat(40),
    );
    app.file("run.yaml", WORDS);
    app.anneal("train run.yaml --quiet").ended(0);
    let offers = app.anneal("export words --json").json();
    let offers = offers.as_array().unwrap();
    let size = |name: &str| {
        let offer = offers.iter().find(|it| it["format"] == name);
        offer.unwrap()["bytes"].as_u64().unwrap()
    };
    assert!(size("gguf-f32") > size("gguf-q8_0"));
    app.anneal("export words")
        .ended(0)
        .shows("gguf-q4_k_m")
        .shows("llama.cpp, Ollama, LM Studio, Jan");
    app.anneal("export words --to gguf-q8_0 --out words.gguf")
        .ended(0)
        .shows("words.gguf: ")
        .shows("tokens of held-out text: same next token ");
    let written = fs::metadata(app.folder().join("words.gguf")).unwrap();
    assert_eq!(written.len(), size("gguf-q8_0"));
    assert!(app.folder().join("words.gguf.compared.json").is_file());
    assert!(app.folder().join("words.gguf.Modelfile").is_file());
    app.anneal("export words --to gguf-f16 --out blind.gguf --no-compare")
        .ended(0)
        .shows("not compared with what was trained");
    let beside = fs::read_to_string(app.folder().join("blind.gguf.compared.json")).unwrap();
    assert!(beside.contains("\"compared\": null"), "{beside}");
    app.anneal("export words.gguf --to merged --out whole")
        .ended(0);
    for model in ["words.gguf", "whole"] {
        let said = app.run_with_input(&["chat", model, "--set", "max_tokens=3"], "The cat\n");
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    }
    #[cfg(unix)]
    {
        check_lm_studio(&app);
        check_ollama(&app);
    }
    app.anneal("export words --to adapter")
        .notes("the model has no adapter");
    app.anneal("export words --to q8_0")
        .ended(2)
        .notes("`q8_0` is no format for it; there are: adapter, merged, gguf-q4_k_m");
}

/// A model goes among those of LM Studio, where that is, and is found there.
#[cfg(unix)]
fn check_lm_studio(app: &App) {
    let into = "export words --to gguf-q8_0 --no-compare --lm-studio";
    app.anneal(into).ended(2).notes("open LM Studio once");
    let models = app.folder().join(".lmstudio/models");
    fs::create_dir_all(&models).unwrap();
    app.anneal(into).ended(0).shows("/.lmstudio/models/anneal/");
    app.anneal("export words --to merged --lm-studio")
        .ended(2)
        .notes("LM Studio does not read `merged`");
    let [model] = &fs::read_dir(models.join("anneal"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect::<Vec<_>>()[..]
    else {
        panic!("one model has one folder");
    };
    let file = fs::read_dir(model).unwrap().map(|it| it.unwrap().path());
    let mut file = file.filter(|it| it.extension().is_some_and(|it| it == "gguf"));
    let file = file.next().unwrap();
    let said = app.run_with_input(
        &["chat", file.to_str().unwrap(), "--set", "max_tokens=3"],
        "The cat\n",
    );
    assert_eq!(said.code, 0, "{said:?}");
}

/// A file is handed to the command of Ollama; what that says against it is said.
#[cfg(unix)]
fn check_ollama(app: &App) {
    let add = |to: &str, out: &str, script: &str| {
        let program = app.file("bin/ollama", script);
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let arguments = ["export", "words", "--to", to, "--out", out];
        let mut command = app.command(&[&arguments[..], &["--no-compare", "--ollama"]].concat());
        command.env(
            "PATH",
            format!("{}/bin:/usr/bin:/bin", app.folder().display()),
        );
        app.run_command(command, "")
    };
    let takes = "#!/bin/sh\necho \"$@\" > asked.txt\ngrep FROM \"$4\" >> asked.txt\n";
    add("gguf-q8_0", "My Words.gguf", takes)
        .ended(0)
        .shows("in Ollama: ollama run anneal/my-words");
    let asked = fs::read_to_string(app.folder().join("asked.txt")).unwrap();
    assert!(asked.starts_with("create anneal/my-words -f "), "{asked}");
    assert!(asked.contains("FROM ./My Words.gguf"), "{asked}");
    let refuses = "#!/bin/sh\necho Error: could not connect to ollama >&2\nexit 1\n";
    add("gguf-q8_0", "again.gguf", refuses)
        .ended(1)
        .notes("Ollama did not take the model: Error: could not connect to ollama");
    add("merged", "folder", takes)
        .ended(2)
        .notes("Ollama takes a GGUF file of a whole model, not `merged`");
    assert!(!app.folder().join("folder").exists());
}

/// A run on pictures of two sorts of stripes, as text.
const STRIPES: &str = "\
task: picture
name: Stripes
data: {files: [stripes]}
picture: {recipe: small}
batch: {rows: 4}
steps: 3
device: cpu
";

#[test]
fn a_run_of_pictures_is_exported_under_its_name() {
    let app = App::new();
    for (class, across) in [("across", true), ("along", false)] {
        for number in 0..8 {
            let pixel = |at: usize| {
                let line = if across { at / 16 } else { at % 16 };
                ((line + number) % 4 / 2 * 200 + at % 7 + number).to_string()
            };
            let pixels: Vec<String> = (0..256).map(pixel).collect();
            let text = format!("P2 16 16 255\n{}\n", pixels.join("\n"));
            app.file(&format!("stripes/{class}/{number}.pgm"), &text);
        }
    }
    app.file("run.yaml", STRIPES);
    app.anneal("train run.yaml --quiet").ended(0);
    app.anneal("export stripes --to onnx").ended(0);
    let files = fs::read_dir(app.folder()).unwrap();
    let mut files = files.map(|it| it.unwrap().path());
    let is_it = |it: &PathBuf| it.extension().is_some_and(|it| it == "onnx");
    let path = files.find(is_it).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy();
    assert!(name.contains("-stripes-"), "{name}");
    let written = fs::read(&path).unwrap();
    let labels = br#"["across","along"]"#;
    assert!(written.windows(labels.len()).any(|it| it == labels));
}

#[test]
fn what_can_not_be_exported_is_said_in_a_sentence() {
    let app = solve::trained();
    checkpoint(&app);
    app.file("letter.txt", "Dear");
    for (arguments, words) in [
        (
            "export small --to onnx",
            "learned neither language nor pictures",
        ),
        (
            "export small --to onnx",
            "step_1` writes its weights for PyTorch",
        ),
        ("export nothing --to onnx", "there is no run `nothing`"),
        (
            "export puzzles --to onnx",
            "the folder holds no model, adapter or network for pictures: `puzzles`",
        ),
        (
            "export checkpoint --to gguf",
            "`gguf` is no format for it; there are: onnx, coreml, safetensors",
        ),
        (
            "export checkpoint --to onnx --out letter.txt",
            "there is something already where the export would be",
        ),
    ] {
        let output = app.anneal(arguments);
        assert_ne!(output.code, 0, "{arguments}");
        output.notes(words);
    }
}
