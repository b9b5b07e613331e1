//! Models that are for chat only, beside what transformers computes of them (`tests/goldens/chat_only.py`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    arch::{
        chat_only::{CHAT_ONLY, ChatOnlyConfig},
        kv_cache::KvCache,
        network::Network,
    },
    checkpoint::{
        folder::{CONFIG, ModelFolder, WEIGHTS},
        load::{LoadDtypes, chat_only_config, load_network, network_config},
    },
    limits,
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
};

/// As a share of the largest logit.
const TOLERANCE: f32 = 1e-4;
/// The same where the library rounds what is multiplied with blocks to 8 bits.
const TOLERANCE_OF_BLOCKS: f32 = 4e-2;
/// What GGUF files of these families hold.
const GGUF: [&str; 2] = ["glm4", "phi2"];

#[derive(Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    written: Vec<u32>,
}

/// The golden of a family.
fn golden(model_type: &str) -> PathBuf {
    repository("tests/goldens/chat_only").join(model_type)
}

fn expected(golden: &Path) -> Expected {
    let text = fs::read(golden.join("expected.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The golden of a family whose GGUF files are opened (`tests/goldens/chat_only_gguf.py`).
fn gguf(architecture: &str) -> PathBuf {
    golden("gguf").join(architecture)
}

fn config(model_type: &str) -> Json {
    let text = fs::read(golden(model_type).join(CONFIG)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn open(path: &Path) -> Network {
    let folder = ModelFolder::open(path).unwrap();
    load_network(&folder, LoadDtypes::F32, false, &Device::Cpu).unwrap()
}

/// The families that are read from folders.
fn of_folders() -> impl Iterator<Item = &'static str> {
    let families = CHAT_ONLY.iter().filter(|it| !it.only_gguf);
    families.map(|it| it.model_type.as_str())
}

/// Configs that somebody changed, beside weights of one of these models, which then reads a few tokens.
pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let folder = work.join("chat_only");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(golden("qwen3_moe").join(WEIGHTS), folder.join(WEIGHTS)).unwrap();
    // Mostly its own, which get furthest.
    let own = std::iter::repeat_n("qwen3_moe", CHAT_ONLY.len());
    let samples = of_folders().chain(own).map(golden);
    let samples = samples.map(|it| fs::read(it.join(CONFIG)).unwrap());
    vec![
        Reader {
            name: "chat_only_config",
            share: 6,
            most: Some(limits::MODEL_JSON),
            megabytes: 1000,
            seconds: 5.0,
            file: folder.join(CONFIG),
            samples: samples.collect(),
            // The weights are mostly another model's.
            read: reading(|file| read_a_little(file.parent().unwrap_or(file))),
        },
        Reader {
            name: "chat_only_gguf",
            share: 8,
            most: None,
            megabytes: 64,
            seconds: 5.0,
            file: folder.join("model.gguf"),
            samples: GGUF
                .map(|it| fs::read(gguf(it).join("q8_0.gguf")).unwrap())
                .into(),
            read: reading(read_a_little),
        },
    ]
}

/// What a model is for, and, if its weights can be loaded, the scores of a few tokens.
fn read_a_little(path: &Path) -> models::Result<()> {
    let folder = ModelFolder::open(path)?;
    chat_only_config(&folder)?;
    if let Ok(model) = load_network(&folder, LoadDtypes::F32, false, &Device::Cpu) {
        drop(model.next_logits(&[5, 17, 42], &mut model.new_cache()));
    }
    Ok(())
}

/// Calls `test` with every family: its name, its model, what is expected of it.
fn each(test: impl Fn(&str, &Network, &Expected)) {
    let folders = of_folders().map(golden).map(|it| (it.clone(), it));
    let files = GGUF.map(|it| (gguf(it).join("f32.gguf"), gguf(it)));
    let all: Vec<(PathBuf, PathBuf)> = folders.chain(files).collect();
    assert!(all.len() > CHAT_ONLY.len());
    for (model, golden) in all {
        test(
            &model.display().to_string(),
            &open(&model),
            &expected(&golden),
        );
    }
}

/// Expects the scores of the token after these to be those at their last.
fn check(name: &str, found: Vec<f32>, expected: &[f32]) {
    let apart = apart(&found, expected);
    assert!(apart < TOLERANCE, "{name}: {apart:e}");
}

/// How far scores are from those that are expected, as a share of the largest.
fn apart(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0.0, |most: f32, it| most.max(it.abs()));
    let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, f32::max) / largest
}

fn read(network: &Network, tokens: &[u32], cache: &mut KvCache) -> Vec<f32> {
    let logits = network.next_logits(tokens, cache).unwrap();
    logits.to_vec1().unwrap()
}

#[test]
fn every_family_scores_as_the_reference_at_once_in_parts_or_one_by_one() {
    each(|name, network, Expected { tokens, logits, .. }| {
        for parts in [vec![tokens.len()], vec![5, 4, 3], vec![1; tokens.len()]] {
            let mut cache = network.new_cache();
            let mut end = 0;
            for part in parts {
                let found = read(network, &tokens[end..end + part], &mut cache);
                end += part;
                check(name, found, &logits[end - 1]);
            }
        }
    });
}

#[test]
fn files_in_blocks_score_close_to_what_their_blocks_stand_for() {
    for architecture in GGUF {
        let network = open(&gguf(architecture).join("q8_0.gguf"));
        let Expected { tokens, logits, .. } = expected(&gguf(architecture));
        for end in 1..=tokens.len() {
            let found = read(&network, &tokens[..end], &mut network.new_cache());
            let apart = apart(&found, &logits[end - 1]);
            assert!(apart < TOLERANCE_OF_BLOCKS, "{architecture}: {apart:e}");
        }
    }
}

#[test]
fn what_a_cache_forgot_is_read_again_as_it_was() {
    each(|name, network, Expected { tokens, logits, .. }| {
        let mut cache = network.new_cache();
        read(network, &tokens[..3], &mut cache);
        read(network, &[9, 9, 9], &mut cache);
        cache.truncate(3);
        check(name, read(network, &tokens[3..7], &mut cache), &logits[6]);
        // Another cache of the same model knows nothing of it.
        let mut other = network.new_cache();
        check(name, read(network, &tokens[..2], &mut other), &logits[1]);
        check(name, read(network, &tokens[7..8], &mut cache), &logits[7]);
    });
}

#[test]
fn every_family_writes_what_the_reference_writes() {
    each(
        |name,
         network,
         Expected {
             tokens, written, ..
         }| {
            let mut cache = network.new_cache();
            let mut logits = read(network, tokens, &mut cache);
            for expected in written {
                let likeliest = (0u32..)
                    .zip(&logits)
                    .max_by(|(_, a), (_, b)| a.total_cmp(b));
                let token = likeliest.unwrap().0;
                assert_eq!(token, *expected, "{name}");
                logits = read(network, &[token], &mut cache);
            }
        },
    );
}

/// The words that a config is refused with, in which a field is this.
#[track_caller]
fn refused(model_type: &str, field: &str, value: Json) -> String {
    let mut config = config(model_type);
    assert!(ChatOnlyConfig::from_json(&config).is_ok());
    config[field] = value;
    ChatOnlyConfig::from_json(&config).unwrap_err().to_string()
}

#[test]
fn what_would_be_computed_otherwise_is_refused_by_its_name() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4});
    for (model_type, field, value, words) in [
        ("olmo2", "rope_scaling", yarn, "`rope_scaling."),
        (
            "mixtral",
            "tie_word_embeddings",
            json!(true),
            "only false is computed here",
        ),
        (
            "qwen3_moe",
            "mlp_only_layers",
            json!([0]),
            "only [] is computed here",
        ),
        (
            "gemma",
            "hidden_act",
            json!("silu"),
            "only \"gelu\" or \"gelu_pytorch_tanh\" is computed here",
        ),
        ("olmo", "rope_scaling", json!(2), "is 2, and not an object"),
        ("helium", "a_new_field", json!(3), "is not known here"),
        (
            "glm4",
            "vocab_size",
            json!(1u64 << 40),
            "no model here has more than",
        ),
        (
            "qwen2_moe",
            "num_experts",
            json!(1u64 << 40),
            "must be from 1 to 4096",
        ),
        (
            "olmo",
            "num_attention_heads",
            json!(0),
            "must be at least 1",
        ),
        ("gemma", "hidden_size", json!("24"), "no whole number"),
        (
            "starcoder2",
            "num_key_value_heads",
            json!(3),
            "does not divide",
        ),
    ] {
        let found = refused(model_type, field, value);
        assert!(found.contains(words), "{model_type}: {found}");
    }
}

#[test]
fn fields_that_say_what_is_so_anyway_are_accepted() {
    let mut config = config("qwen3_moe");
    for (field, value) in [
        ("qkv_bias", json!(false)),
        ("shared_expert_intermediate_size", json!(0)),
        ("use_qk_norm", json!(true)),
        ("rope_scaling", Json::Null),
    ] {
        config[field] = value;
    }
    ChatOnlyConfig::from_json(&config).unwrap();
}

#[test]
fn a_text_is_no_longer_than_a_window() {
    let mut config = config("mixtral");
    assert_eq!(ChatOnlyConfig::from_json(&config).unwrap().context, 64);
    config["sliding_window"] = json!(16);
    assert_eq!(ChatOnlyConfig::from_json(&config).unwrap().context, 16);
}

#[test]
fn training_says_that_they_are_for_chat_only() {
    let files = GGUF.map(|it| (it, gguf(it).join("q8_0.gguf")));
    for (model_type, path) in of_folders().map(|it| (it, golden(it))).chain(files) {
        let folder = ModelFolder::open(&path).unwrap();
        let words = network_config(&folder).unwrap_err().to_string();
        let expected = format!("is `{model_type}`, which is for chat only; training knows ");
        assert!(words.contains(&expected), "{words}");
    }
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let copy = tempfile::tempdir().unwrap();
    for file in [CONFIG, WEIGHTS] {
        fs::copy(golden("olmo2").join(file), copy.path().join(file)).unwrap();
    }
    let path = copy.path().join(CONFIG);
    let text = fs::read_to_string(&path).unwrap();
    let check = |old: &str, new: &str, words: &str| {
        fs::write(&path, text.replace(old, new)).unwrap();
        let folder = ModelFolder::open(copy.path()).unwrap();
        let problem = load_network(&folder, LoadDtypes::F32, false, &Device::Cpu);
        let problem = problem.unwrap_err().to_string();
        assert!(problem.contains(words), "{problem}");
    };
    check(
        r#""intermediate_size": 28"#,
        r#""intermediate_size": 32"#,
        "is [28, 24] in the file and [32, 24] in the config",
    );
    check(
        r#""num_hidden_layers": 2"#,
        r#""num_hidden_layers": 3"#,
        "`model.layers.2.",
    );
    check(
        r#""num_hidden_layers": 2"#,
        r#""num_hidden_layers": 1"#,
        "is in the checkpoint but not in the model its config describes",
    );
}

#[test]
fn a_folder_whose_weights_are_packed_is_refused() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(golden("olmo2").join(WEIGHTS), copy.path().join(WEIGHTS)).unwrap();
    let mut config = config("olmo2");
    config["quantization"] = json!({"group_size": 64, "bits": 4});
    fs::write(copy.path().join(CONFIG), config.to_string()).unwrap();
    let folder = ModelFolder::open(copy.path()).unwrap();
    let words = chat_only_config(&folder).unwrap_err().to_string();
    assert!(words.contains("the weights are packed"), "{words}");
}

/// The words that a copy of a GGUF file is refused with, in which these bytes stand where those stood. Both are as long.
#[track_caller]
fn refused_file(architecture: &str, old: &[u8], new: &[u8]) -> String {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("changed.gguf");
    let mut bytes = fs::read(gguf(architecture).join("f32.gguf")).unwrap();
    let at = bytes.windows(old.len()).position(|it| it == old).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(&path, bytes).unwrap();
    ModelFolder::open(&path).unwrap_err().to_string()
}

/// A key of a file with the bytes of a whole number of 32 bits.
fn whole(key: &str, value: u32) -> Vec<u8> {
    [key.as_bytes(), &4u32.to_le_bytes(), &value.to_le_bytes()].concat()
}

#[test]
fn files_whose_keys_contradict_their_tensors_or_the_library_are_refused() {
    let check = |architecture: &str, key: &str, [old, new]: [u32; 2], words: &str| {
        let key = format!("{architecture}.{key}");
        let found = refused_file(architecture, &whole(&key, old), &whole(&key, new));
        assert!(found.contains(words), "{found}");
    };
    for architecture in GGUF {
        check(architecture, "feed_forward_length", [64, 32], "by its keys");
        check(architecture, "block_count", [2, 1], "`blk.1.");
        check(
            architecture,
            "block_count",
            [2, 3],
            "the file has no `blk.2.",
        );
        check(
            architecture,
            "block_count",
            [2, 1 << 30],
            "1073741824 blocks",
        );
        check(
            architecture,
            "attention.head_count",
            [4, 0],
            "0 heads do not divide",
        );
        check(
            architecture,
            "attention.head_count",
            [4, 3],
            "3 heads do not divide",
        );
    }
    check(
        "glm4",
        "rope.dimension_count",
        [8, 16],
        "16 numbers are turned",
    );
    check("glm4", "attention.key_length", [16, 1 << 31], "are turned");
    check("phi2", "rope.dimension_count", [4, 3], "3 of 8 numbers");
    check("phi2", "attention.head_count_kv", [4, 2], "keys for 2");
    let other = refused_file(
        "phi2",
        b"phi2.rope.dimension_count",
        b"phi2.rope.dimension_cound",
    );
    assert!(other.contains("`phi2.rope.dimension_count`"), "{other}");
    let other = refused_file("phi2", b"blk.1.ffn_up.bias", b"blk.1.ffn_up.scal");
    assert!(
        other.contains("`blk.1.ffn_up.scal` is not known here"),
        "{other}"
    );
}

#[test]
fn a_folder_of_a_family_that_is_read_from_gguf_is_refused() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(golden("olmo2").join(WEIGHTS), copy.path().join(WEIGHTS)).unwrap();
    let config = ModelFolder::open(&gguf("phi2").join("f32.gguf"))
        .unwrap()
        .config;
    fs::write(copy.path().join(CONFIG), config.to_string()).unwrap();
    let folder = ModelFolder::open(copy.path()).unwrap();
    let words = load_network(&folder, LoadDtypes::F32, false, &Device::Cpu);
    let words = words.unwrap_err().to_string();
    assert!(
        words.contains("is `phi2`, of which only GGUF files are opened"),
        "{words}"
    );
}

#[test]
fn the_guide_lists_every_family() {
    let guide = fs::read_to_string(repository("docs/guide/chat-only.md")).unwrap();
    for family in CHAT_ONLY.iter() {
        let row = format!("| `{}` |", family.model_type);
        assert!(guide.contains(&row), "{row}");
    }
}
