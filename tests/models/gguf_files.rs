//! Models in the files of llama.cpp: those that the package `gguf` wrote compute as the reference does, and what can't be read is
//! refused by its name. `tests/goldens/gguf_files.py` wrote them, and had llama.cpp compute with them.

use std::{fs, path::Path, sync::Arc};

use candle_core::{
    DType, Device,
    quantized::{QStorage, QTensor},
};
use models::{
    arch::{Initial, WeightRequest, Weights, config::DecoderConfig, decoder::Input},
    checkpoint::{
        folder::ModelFolder,
        gguf::GgufWeights,
        load::{LoadDtypes, load_decoder},
    },
    data::tokenizer::{TOKENIZER, Tokenizer},
    gguf::{Gguf, Planned, Sink, TensorType, Value, Writer},
};
use serde_json::Value as Json;

use crate::{
    decoder::logits,
    golden::{cases, largest_difference},
    hostile::repository,
};

#[test]
fn models_of_every_family_compute_as_the_reference() {
    let mut seen = 0;
    for golden in cases(|name| repository(&format!("tests/goldens/gguf/{name}.gguf")).exists()) {
        let path = repository(&format!("tests/goldens/gguf/{}.gguf", golden.name));
        let folder = ModelFolder::open(&path).unwrap();
        let decoder = load_decoder(&folder, LoadDtypes::F32, false, &Device::Cpu);
        let decoder = decoder.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let (tokens, rows) = golden.tokens("tokens");
        let found = logits(&decoder, Input::new(&tokens, rows));
        let off = largest_difference(&found, &golden.tensors["logits"]);
        assert!(off < 1e-4, "{} is {off:e} off", golden.name);
        let count = folder.parameter_count().unwrap();
        assert!(count >= decoder.config().parameters(), "{}", golden.name);
        seen += 1;
    }
    assert_eq!(seen, 13);
}

/// A file with these keys beside what the smallest model has, and a matrix of q in blocks of this type.
fn written(path: &Path, keys: &[(&str, Value)], of: TensorType) -> Vec<u8> {
    let own = [
        ("general.architecture", Value::from("llama")),
        ("llama.block_count", Value::U32(1)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(256)),
        ("llama.feed_forward_length", Value::U32(32)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let is_other = |key: &str| !keys.iter().any(|(other, _)| *other == key);
    let own = own.iter().filter(|(key, _)| is_other(key));
    let all: Vec<(String, Value)> = own
        .chain(keys)
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    let tensor = |name: &str, of, shape: &[usize]| Planned {
        name: name.to_owned(),
        of,
        shape: shape.to_vec(),
    };
    let tensors = vec![
        tensor("token_embd.weight", TensorType::F32, &[8, 256]),
        tensor("blk.0.attn_q.weight", of, &[256, 256]),
    ];
    let writer = Writer::new(&all, tensors).unwrap();
    let mut bytes = Vec::new();
    let numbers = |planned: &Planned, sink: &mut Sink| {
        let count = planned.bytes()? as usize;
        // The exponents of halves and of f32 stay small so.
        let bytes: Vec<u8> = (0..count).map(|at| (at * 37 % 59) as u8).collect();
        sink.put(&bytes)
    };
    writer.write(&mut bytes, numbers).unwrap();
    assert_eq!(bytes.len() as u64, writer.bytes());
    fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn blocks_are_the_numbers_that_they_stand_for_in_the_order_of_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    for of in [
        TensorType::Q8_0,
        TensorType::Q4_1,
        TensorType::Q5_0,
        TensorType::Q4K,
        TensorType::Q6K,
    ] {
        written(&path, &[], of);
        let model = ModelFolder::open(&path).unwrap();
        let config = DecoderConfig::from_json(&model.config).unwrap();
        let file = Arc::new(Gguf::open(&path).unwrap());
        let read = |keeps_blocks| {
            GgufWeights::new(
                file.clone(),
                &config,
                keeps_blocks,
                DType::F32,
                &Device::Cpu,
            )
            .unwrap()
        };
        let request = WeightRequest {
            name: "model.layers.0.self_attn.q_proj.weight",
            shape: &[256, 256],
            initial: Initial::Constant(0.0),
        };
        let numbers = read(false).tensor(&request).unwrap();
        let blocks = read(true).quantized(&request).unwrap().unwrap();
        let widened = blocks.widen(0..256).unwrap();
        assert_eq!(largest_difference(&numbers, &widened), 0.0, "{}", of.name());
        assert!(read(false).quantized(&request).unwrap().is_none());
        assert!(largest_difference(&numbers, &numbers.zeros_like().unwrap()) > 0.0);
    }
}

/// A file with a tokenizer that was trained here, and no weights.
pub(crate) fn with_tokenizer(path: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    trained().save(folder.path(), None).unwrap();
    let text = fs::read(folder.path().join(TOKENIZER)).unwrap();
    let json: Json = serde_json::from_slice(&text).unwrap();
    let vocabulary = json["model"]["vocab"].as_object().unwrap();
    let mut tokens = vec![String::new(); vocabulary.len()];
    for (token, id) in vocabulary {
        tokens[id.as_u64().unwrap() as usize].clone_from(token);
    }
    let mut kinds = vec![1; tokens.len()];
    for added in json["added_tokens"].as_array().unwrap() {
        kinds[added["id"].as_u64().unwrap() as usize] = 3;
    }
    let merges = json["model"]["merges"].as_array().unwrap().iter();
    let merges =
        merges.map(|it| format!("{} {}", it[0].as_str().unwrap(), it[1].as_str().unwrap()));
    let keys = [
        ("tokenizer.ggml.model", Value::from("gpt2")),
        ("tokenizer.ggml.pre", Value::from("smollm")),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        ("tokenizer.ggml.token_type", Value::I32s(kinds)),
        ("tokenizer.ggml.merges", Value::Texts(merges.collect())),
        ("tokenizer.ggml.eos_token_id", Value::U32(0)),
        (
            "tokenizer.chat_template",
            Value::from("{{ messages[0].content }}"),
        ),
    ];
    written(path, &keys, TensorType::Q8_0)
}

fn trained() -> Tokenizer {
    let texts = [
        "Where is the café? 12 cafés.\n",
        "漢字と仮名。🙂 the the there\n",
    ];
    Tokenizer::train(texts.into_iter(), 300).unwrap()
}

#[test]
fn a_tokenizer_cuts_texts_as_it_did_before_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    with_tokenizer(&path);
    let (before, after) = (trained(), Tokenizer::load(&path).unwrap());
    for text in [
        "",
        " the  there",
        "<|im_start|>é漢🙂\u{301}\r\n\n12345",
        "x\ty…",
    ] {
        let tokens = after.encode(text, true).unwrap();
        assert_eq!(tokens, before.encode(text, true).unwrap(), "{text}");
        assert_eq!(after.decode(&tokens, true).unwrap(), text);
    }
    assert_eq!(after.special.end, Some(0));
    assert_eq!(after.special.stop, [0]);
    assert_eq!(after.templates().unwrap()[0].1, "{{ messages[0].content }}");
}

#[track_caller]
fn check_refused(keys: &[(&str, Value)], words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    written(&path, keys, TensorType::Q8_0);
    let error = ModelFolder::open(&path).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    check_refused(
        &[("general.architecture", Value::from("falcon"))],
        "the architecture is `falcon`, and those that are known are llama, qwen2",
    );
    check_refused(
        &[("llama.logit_scale", Value::F32(2.0))],
        "its key `llama.logit_scale` is not known here, and may change what the model computes",
    );
    check_refused(
        &[("general.type", Value::from("adapter"))],
        "the file is of the type `adapter`",
    );
    check_refused(
        &[("llama.rope.dimension_count", Value::U32(32))],
        "32 of 64 numbers of a head are turned",
    );
    check_refused(
        &[("llama.rope.scaling.type", Value::from("other"))],
        "its positions are scaled by `other`",
    );
    check_refused(
        &[("llama.block_count", Value::U32(1 << 30))],
        "1073741824 blocks, and has 2 tensors",
    );
    // Off is as good as not there.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    written(
        &path,
        &[("llama.expert_count", Value::U32(0))],
        TensorType::Q8_0,
    );
    ModelFolder::open(&path).unwrap();
}

#[test]
fn a_file_that_was_cut_off_is_incomplete_wherever_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    let whole = written(&path, &[], TensorType::Q8_0);
    for length in (4..whole.len() - 64).step_by(97) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = Gguf::open(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("the model is incomplete: "),
            "{length}: {error}"
        );
    }
}

/// The numbers of `tests/goldens/gguf_blocks.py`, rows of 1,024.
pub(crate) fn rows_of_numbers() -> Vec<f32> {
    const FACTORS: [u64; 3] = [2_654_435_761, 2_246_822_519, 3_266_489_917];
    let part = |at: u64, factor: u64| {
        let whole = (at * factor + 77) % (1 << 32);
        (whole >> 12) as f64 / f64::from(1 << 20) - 0.5
    };
    let number = |at: u64| {
        let (row, column) = (at / 1024, at % 1024);
        let sum: f64 = FACTORS.iter().map(|factor| part(at, *factor)).sum();
        let number = sum * 2f64.powi((row % 9) as i32 - 6);
        match row {
            5 => 0.0,
            6 => 0.375,
            7 => number.abs(),
            8 if column % 3 == 0 => 0.0,
            _ => number,
        }
    };
    (0..64 * 1024).map(|at| number(at) as f32).collect()
}

#[test]
fn numbers_become_the_blocks_that_ggml_makes_of_them() {
    let path = repository("tests/goldens/gguf_blocks.json");
    let goldens: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let numbers = rows_of_numbers();
    for (of, is_equal) in [
        (TensorType::Q8_0, true),
        (TensorType::Q4_0, true),
        (TensorType::Q5_0, true),
        (TensorType::Q5_1, true),
        (TensorType::Q4K, false),
        (TensorType::Q5K, false),
        (TensorType::Q6K, false),
    ] {
        let golden = &goldens[of.name()];
        let blocks = of.blocks(&numbers).unwrap();
        assert_eq!(Some(blocks.len() as u64), of.bytes(64, 1024));
        if is_equal {
            let sum = crc32fast::hash(&blocks);
            assert_eq!(golden["crc32"], sum, "{}", of.name());
        }
        let storage = QStorage::from_data(blocks.into(), &Device::Cpu, of.of_candle()).unwrap();
        let back = QTensor::new(storage, (64, 1024)).unwrap();
        let back = back
            .dequantize(&Device::Cpu)
            .unwrap()
            .flatten_all()
            .unwrap();
        let back: Vec<f32> = back.to_vec1().unwrap();
        let square =
            |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|it| it * it).sum::<f64>();
        let off = square(&mut back.iter().zip(&numbers).map(|(a, b)| f64::from(a - b)));
        let error = (off / square(&mut numbers.iter().map(|it| f64::from(*it)))).sqrt();
        let theirs = golden["error"].as_f64().unwrap();
        assert!(
            error <= 1.01 * theirs,
            "{}: {error} against {theirs}",
            of.name()
        );
        assert!(error > 0.5 * theirs, "{}", of.name());
    }
    assert_eq!(TensorType::Q3K.blocks(&numbers), None);
}
