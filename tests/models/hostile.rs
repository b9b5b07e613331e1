//! No file brings the program down: the readers of this crate, each with what it may take, and thousands of changed files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    arch::config::DecoderConfig,
    checkpoint::{
        adapter::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, load_adapter},
        folder::{CONFIG, ModelFolder, WEIGHTS, WEIGHTS_INDEX},
        load::{LoadDtypes, load_decoder},
        pytorch::TorchFile,
        whole,
    },
    data::{
        self, DataRequest, TextRows,
        first_rows::first_rows,
        row::{Message, Role},
        template::ChatTemplate,
        tokenizer::{COMPANIONS, TOKENIZER, Tokenizer},
    },
    limits::{self, Limit},
    tasks::overrides,
    train::state::read_saved,
};
use serde_json::Value;

use crate::{
    checkpoints_hostile,
    fuzz::{self, Read, Reader},
    gguf_files, pictures_hostile, probe_import, probes_hostile, puzzles_hostile, states_exchange,
    template::DEMANDING,
};

#[test]
fn no_file_brings_the_program_down() {
    fuzz::run("hostile::no_file_brings_the_program_down", readers);
}

#[test]
fn every_reader_reads_real_files() {
    fuzz::check_samples(readers);
}

#[test]
fn a_file_above_its_limit_is_refused_by_its_size() {
    fuzz::check_largest(readers);
}

/// Limits of bytes that are not those of a whole file, and the one of a puzzle to solve, whose file the app reads.
const PARTS: [Limit; 19] = [
    limits::PUZZLE,
    limits::TOKEN,
    limits::ENDLESS_WORD,
    limits::RENDERED,
    limits::RENDERED_WORK,
    limits::HEADER,
    limits::PACKED_STATE,
    limits::GGUF_TEXT,
    limits::TORCH_LIST,
    limits::PUZZLE_ROW,
    limits::ARRAY_HEADER,
    limits::PARQUET_FOOTER,
    limits::PARQUET_HEADER,
    limits::PARQUET_PAGE,
    limits::PARQUET_FEATURES,
    limits::PICTURE_MEMORY,
    limits::PICTURE_SET,
    limits::PICTURE_ARRAY,
    limits::PICTURE_ARCHIVE,
];

#[test]
fn every_limit_of_a_file_is_that_of_a_reader() {
    fuzz::check_limits(readers, limits::LIMITS, &PARTS);
}

/// What of a golden model is read.
const GOLDEN: &str = "llama-tied-v5";

fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_models(work);
    readers.extend(of_packed(work));
    readers.extend(of_tokenizers(work));
    readers.extend(of_data(work));
    readers.extend(puzzles_hostile::readers(work));
    readers.extend(pictures_hostile::readers(work));
    readers.extend(states_exchange::readers(work));
    readers.extend(probe_import::readers(work));
    readers.extend(probes_hostile::readers(work));
    readers.extend(checkpoints_hostile::readers(work));
    #[cfg(feature = "chat-only")]
    readers.extend(crate::chat_only::readers(work));
    readers.push(of_overrides(work));
    readers
}

pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn golden(path: &str) -> Vec<u8> {
    fs::read(repository("tests/goldens").join(path)).unwrap()
}

/// A folder for a reader, with these files of a golden model.
fn folder(work: &Path, name: &str, model: &str, files: &[&str]) -> PathBuf {
    let folder = work.join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in files {
        fs::write(folder.join(file), golden(&format!("{model}/{file}"))).unwrap();
    }
    folder
}

fn open(file: &Path) -> models::Result<ModelFolder> {
    ModelFolder::open(file.parent().unwrap_or(file))
}

fn load(folder: &ModelFolder) -> models::Result<models::arch::decoder::Decoder> {
    load_decoder(folder, LoadDtypes::F32, false, &Device::Cpu)
}

/// A reader whose errors are our own.
pub(crate) fn reading(read: impl Fn(&Path) -> models::Result<()> + 'static) -> Read {
    Box::new(move |file| read(file).map_err(|error| error.to_string()))
}

fn of_models(work: &Path) -> Vec<Reader> {
    let configs = fs::read_dir(repository("tests/goldens")).unwrap();
    let mut configs: Vec<PathBuf> = configs.map(|it| it.unwrap().path().join(CONFIG)).collect();
    configs.sort();
    let configs: Vec<Vec<u8>> = configs.iter().filter_map(|it| fs::read(it).ok()).collect();
    let shards = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    let with_index = folder(work, "index", "llama-sharded-v5", &shards);
    fs::write(
        with_index.join(CONFIG),
        golden(&format!("llama-sharded-v5/{CONFIG}")),
    )
    .unwrap();
    let with_weights = folder(work, "weights", GOLDEN, &[CONFIG]);
    let with_config = folder(work, "config", GOLDEN, &[WEIGHTS]);
    let of_weights = reading(|file| {
        let folder = open(file)?;
        folder.parameter_count()?;
        load(&folder).map(drop)
    });
    vec![
        Reader {
            name: "config",
            share: 16,
            most: Some(limits::MODEL_JSON),
            megabytes: 600,
            seconds: 5.0,
            file: with_config.join(CONFIG),
            samples: configs,
            read: reading(|file| {
                let folder = open(file)?;
                DecoderConfig::from_json(&folder.config)?.parameters();
                // The weights are another model's.
                drop(load(&folder));
                Ok(())
            }),
        },
        Reader {
            name: "weights",
            share: 8,
            most: None,
            megabytes: 64,
            seconds: 5.0,
            file: with_weights.join(WEIGHTS),
            samples: vec![golden(&format!("{GOLDEN}/{WEIGHTS}"))],
            read: of_weights,
        },
        Reader {
            name: "index",
            share: 4,
            most: Some(limits::MODEL_JSON),
            megabytes: 64,
            seconds: 5.0,
            file: with_index.join(WEIGHTS_INDEX),
            samples: vec![golden(&format!("llama-sharded-v5/{WEIGHTS_INDEX}"))],
            read: reading(|file| open(file)?.parameter_count().map(drop)),
        },
        of_gguf(work),
        adapter_config(work),
        adapter_weights(work),
        state(work),
        of_pytorch(work),
    ]
}

/// A model of llama.cpp: what it says of itself, and all of its weights.
fn of_gguf(work: &Path) -> Reader {
    let folder = work.join("gguf");
    fs::create_dir_all(&folder).unwrap();
    let tokenizer = gguf_files::with_tokenizer(&folder.join("written.gguf"));
    let model = golden(&format!("gguf/{GOLDEN}.gguf"));
    Reader {
        name: "gguf",
        share: 16,
        most: None,
        megabytes: 64,
        seconds: 5.0,
        file: folder.join("model.gguf"),
        samples: vec![model, tokenizer],
        read: reading(|file| {
            // One sample is a model without a tokenizer, and one a tokenizer without a model.
            match read_tokenizer_of(file) {
                Ok(()) => Ok(()),
                Err(_) => load(&ModelFolder::open(file)?).map(drop),
            }
        }),
    }
}

/// A file of PyTorch: its list, and every tensor of it.
fn of_pytorch(work: &Path) -> Reader {
    let folder = work.join("pytorch");
    fs::create_dir_all(&folder).unwrap();
    Reader {
        name: "pytorch",
        share: 8,
        most: None,
        megabytes: 128,
        seconds: 5.0,
        file: folder.join("step_7"),
        samples: vec![golden("trm/step_7")],
        read: reading(|file| {
            let mut file = TorchFile::open(file)?;
            for name in file.shapes().into_keys() {
                file.tensor(&name)?;
            }
            Ok(())
        }),
    }
}

/// `adapter_config.json`, with the weights of an adapter and its model.
fn adapter_config(work: &Path) -> Reader {
    let with_adapter = folder(work, "adapter", "lora-all-v5", &[CONFIG, WEIGHTS]);
    let adapter = with_adapter.join(ADAPTER_WEIGHTS);
    fs::write(
        &adapter,
        golden(&format!("lora-all-v5/adapter/{ADAPTER_WEIGHTS}")),
    )
    .unwrap();
    let of_adapter = reading(|file| {
        let mut decoder = load(&open(file)?)?;
        load_adapter(&mut decoder, file.parent().unwrap_or(file)).map(drop)
    });
    Reader {
        name: "adapter_config",
        share: 6,
        most: Some(limits::MODEL_JSON),
        megabytes: 600,
        seconds: 5.0,
        file: with_adapter.join(ADAPTER_CONFIG),
        samples: vec![golden(&format!("lora-all-v5/adapter/{ADAPTER_CONFIG}"))],
        read: of_adapter,
    }
}

/// The weights of an adapter, beside its config and its model.
fn adapter_weights(work: &Path) -> Reader {
    let with_adapter = folder(work, "adapter_weights", "lora-all-v5", &[CONFIG, WEIGHTS]);
    let of_adapter = |name: &str| golden(&format!("lora-all-v5/adapter/{name}"));
    fs::write(
        with_adapter.join(ADAPTER_CONFIG),
        of_adapter(ADAPTER_CONFIG),
    )
    .unwrap();
    let base = with_adapter.clone();
    let read = reading(move |_| {
        let mut decoder = load(&ModelFolder::open(&base)?)?;
        load_adapter(&mut decoder, &base).map(drop)
    });
    let (file, sample) = (
        with_adapter.join(ADAPTER_WEIGHTS),
        of_adapter(ADAPTER_WEIGHTS),
    );
    Reader::small("adapter_weights", 4, None, file, vec![sample], read)
}

/// Weights that bitsandbytes and MLX packed, beside the configs that say so.
fn of_packed(work: &Path) -> [Reader; 3] {
    let models: [(&str, &[&str]); 3] = [
        ("packed_nf4", &["nf4", "nf4-nested"]),
        ("packed_mlx_4", &["mlx-4"]),
        ("packed_mlx_8", &["mlx-8"]),
    ];
    models.map(|(name, samples)| {
        let model = format!("packed/{}", samples[0]);
        let folder = folder(work, name, &model, &[CONFIG]);
        let sample = |it: &&str| golden(&format!("packed/{it}/{WEIGHTS}"));
        let samples = samples.iter().map(sample).collect();
        let read = reading(|file| load(&open(file)?).map(drop));
        Reader::small(name, 3, None, folder.join(WEIGHTS), samples, read)
    })
}

/// Words on the command line as Tiny Recursive Models have them, a line for each.
fn of_overrides(work: &Path) -> Reader {
    let puzzles = "arch=trm\ndata_paths=[data/sudoku]\nevaluators=[]\nepochs=50000\neval_interval=5000\nlr=1e-4\n\
                   arch.L_layers=2\narch.H_cycles=3\n+run_name=a\nema=True\n~seed\n";
    let chats = "arch=trm_chat\nepochs=2\narch.hidden_size=64\nglobal_batch_size=8\n";
    let read = reading(|file| {
        let bytes = fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<String> = text.lines().map(str::to_owned).collect();
        drop(overrides::read(Some("cfg_chat"), &words));
        drop(overrides::read(None, &words));
        Ok(())
    });
    let samples = vec![puzzles.into(), chats.into()];
    Reader::small(
        "overrides",
        3,
        None,
        work.join("overrides.txt"),
        samples,
        read,
    )
}

/// `state.json` of a checkpoint.
fn state(work: &Path) -> Reader {
    let runs = repository("tests/app/fixtures/home-of-0.1/runs");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap();
    let state = run
        .path()
        .join("checkpoints/step-000004")
        .join(whole::STATE);
    let folder = work.join("state");
    fs::create_dir_all(&folder).unwrap();
    Reader {
        name: "state",
        share: 6,
        most: Some(limits::MODEL_JSON),
        megabytes: 64,
        seconds: 5.0,
        file: folder.join(whole::STATE),
        samples: vec![fs::read(state).unwrap()],
        read: reading(|file| {
            let folder = file.parent().unwrap_or(file);
            drop(whole::verify(folder));
            drop(read_saved(folder));
            whole::read_state(folder).map(drop)
        }),
    }
}

/// Kinds of tokenizers that are no byte-level BPE, as small as they can be.
const OTHER_TOKENIZERS: &str = include_str!("hostile_tokenizers.json");

fn of_tokenizers(work: &Path) -> Vec<Reader> {
    let texts = [
        "A cat sat on the mat.\n",
        "<|im_start|>user\n12 + 30?<|im_end|>\n",
        "é漢🙂 \u{0}",
    ];
    let tokenizer = Tokenizer::train(texts.into_iter().cycle().take(30), 300).unwrap();
    let base = |name: &str| {
        let folder = work.join(name);
        fs::create_dir_all(&folder).unwrap();
        tokenizer.save(&folder, None).unwrap();
        folder
    };
    let templates = templates();
    let others: Vec<Value> = serde_json::from_str(OTHER_TOKENIZERS).unwrap();
    let (of_json, of_config) = (base("tokenizer"), base("tokenizer_config"));
    let (of_template, of_map) = (base("template"), base("special_tokens_map"));
    let of_generation = base("generation_config");
    let mut tokenizers = vec![fs::read(of_json.join(TOKENIZER)).unwrap()];
    tokenizers.extend(others.iter().map(|it| serde_json::to_vec(it).unwrap()));
    let configs = with_templates(&of_config.join(COMPANIONS[0]), &templates[..4]);
    let reader = |name, share, most: Limit, file: PathBuf, samples| Reader {
        name,
        share,
        most: Some(most),
        // Twice what a template was seen to take, and the time of the deepest one on a busy machine.
        megabytes: 512,
        seconds: 30.0,
        file,
        samples,
        read: reading(read_tokenizer),
    };
    vec![
        reader(
            "tokenizer",
            10,
            limits::TOKENIZER,
            of_json.join(TOKENIZER),
            tokenizers,
        ),
        reader(
            "tokenizer_config",
            3,
            limits::MODEL_JSON,
            of_config.join(COMPANIONS[0]),
            configs,
        ),
        reader(
            "special_tokens_map",
            1,
            limits::MODEL_JSON,
            of_map.join(COMPANIONS[1]),
            vec![br#"{"eos_token": {"content": "<|im_end|>", "lstrip": false}, "bos_token": "a", "pad_token": null}"#.into()],
        ),
        reader(
            "generation_config",
            1,
            limits::MODEL_JSON,
            of_generation.join("generation_config.json"),
            vec![br#"{"bos_token_id": 1, "eos_token_id": [2, 4], "do_sample": true, "temperature": 0.6}"#.into()],
        ),
        reader(
            "template",
            3,
            limits::TEMPLATE,
            of_template.join(COMPANIONS[2]),
            templates,
        ),
    ]
}

/// The settings of a tokenizer in a file, with each of these templates.
fn with_templates(config: &Path, templates: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut config: Value = serde_json::from_slice(&fs::read(config).unwrap()).unwrap();
    let with_template = |template: &Vec<u8>| {
        config["chat_template"] = String::from_utf8_lossy(template).into();
        serde_json::to_vec(&config).unwrap()
    };
    templates.iter().map(with_template).collect()
}

/// The templates of the goldens, and those that ask for too much.
fn templates() -> Vec<Vec<u8>> {
    let golden: Value = serde_json::from_slice(&golden("chat_templates/golden.json")).unwrap();
    let templates = golden["templates"].as_array().unwrap().iter();
    let templates: Vec<Vec<u8>> = templates
        .filter_map(|it| it.as_str().or_else(|| it.get("template")?.as_str()))
        .map(|it| it.as_bytes().to_vec())
        .collect();
    assert!(!templates.is_empty());
    let demanding = DEMANDING
        .iter()
        .map(|(source, _)| source.as_bytes().to_vec());
    templates.into_iter().chain(demanding).collect()
}

fn read_tokenizer(file: &Path) -> models::Result<()> {
    read_tokenizer_of(file.parent().unwrap_or(file))
}

fn read_tokenizer_of(place: &Path) -> models::Result<()> {
    let tokenizer = Tokenizer::load(place)?;
    for text in ["", "A cat sat.", "<|im_start|>é漢🙂\u{0}\u{301}  \n\n12"] {
        if let Ok(tokens) = tokenizer.encode(text, true) {
            drop(tokenizer.decode(&tokens, true));
        }
        drop(tokenizer.encode_located(text));
    }
    let template = ChatTemplate::of(&tokenizer)?;
    let messages = [
        Message::new(Role::System, "Be brief."),
        Message::new(Role::User, "2 + 2?"),
        Message::new(Role::Assistant, "4"),
    ];
    // Many templates refuse what begins otherwise than they expect.
    for part in [&messages[..], &messages[1..], &messages[2..], &[]] {
        drop(template.render(part));
        drop(template.prompt(part));
    }
    Ok(())
}

fn of_data(work: &Path) -> Vec<Reader> {
    let folder = work.join("data");
    fs::create_dir_all(&folder).unwrap();
    let jsonl = r#"{"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]}
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "tool_calls": [{"x": 1.5}]}]}"#;
    let pairs = r#"{"prompt": "a", "completion": "b"}
{"instruction": "x", "input": "", "output": "y"}
{"text": "some words", "id": 7, "more": {"deep": [1, 2, {"x": null}]}}"#;
    let list =
        r#"[{"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d", "n": 1e300}]"#;
    let table = "prompt,completion,id\n\"a, b\",c,1\n\"two\nlines\",\"\"\"q\"\"\",2\n";
    let tabs = "text\tscore\nsome words\t1.5\nmore\t\n";
    let prose = "The first line.\r\nThe second.\n\n\nA paragraph.\n";
    let parquet: Vec<Vec<u8>> = ["chat", "pairs", "text"]
        .map(|name| fs::read(repository(&format!("tests/parquet/{name}.parquet"))).unwrap())
        .into();
    let text = Some(limits::TEXT_FILE);
    let reader = |name: &'static str, share, most, file: &str, samples: Vec<Vec<u8>>| Reader {
        name,
        share,
        most,
        megabytes: if name == "parquet" { 512 } else { 64 },
        seconds: 5.0,
        file: folder.join(file),
        samples,
        read: reading(read_data),
    };
    let bytes = |texts: &[&str]| texts.iter().map(|it| it.as_bytes().to_vec()).collect();
    vec![
        reader("jsonl", 10, text, "a.jsonl", bytes(&[jsonl, pairs])),
        reader("json", 5, text, "a.json", bytes(&[list])),
        reader("csv", 5, text, "a.csv", bytes(&[table])),
        reader("tsv", 2, text, "a.tsv", bytes(&[tabs])),
        reader("text", 2, text, "a.txt", bytes(&[prose])),
        reader("parquet", 12, None, "a.parquet", parquet),
    ]
}

fn read_data(file: &Path) -> models::Result<()> {
    let request = |rows, encoding: Option<&str>| DataRequest {
        paths: vec![file.to_owned()],
        rows,
        encoding: encoding.map(str::to_owned),
        ..DataRequest::default()
    };
    let opened = data::open(&request(None, None))?;
    drop(opened.check_problems(true));
    drop(data::columns(&request(None, None)));
    let is_text = file.extension().is_some_and(|it| it == "txt");
    if is_text {
        drop(data::open(&request(
            Some(TextRows::Paragraphs),
            Some("utf-16le"),
        )));
    }
    let bytes = fs::read(file).unwrap();
    let name = file.to_string_lossy();
    drop(first_rows(&name, &bytes[..bytes.len() / 2], false, 20));
    Ok(())
}
