//! Language models for other programs: what is written computes what was trained, what others can't be told is refused or said, and
//! nothing is left of what went wrong. `tests/peers/peer_exports.py` has the programs themselves open what is written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device};
use models::{
    arch::{
        decoder::Input,
        initial::InitialWeights,
        lora::{self, LoraConfig, Targets},
        network::{Network, NetworkConfig},
    },
    checkpoint::{
        adapter::save_adapter,
        folder::{ModelFolder, read_json},
        gguf::{GgufPlan, MIXES, Mix},
        load::{LoadDtypes, load_decoder},
        merged::MergedWeights,
    },
    data::{template::ChatTemplate, tokenizer::Tokenizer},
    gguf::Gguf,
    tasks::language::{
        export::{COMPARISON, Exporter, FORMATS, Format, Sample, Stage},
        model::{LanguageModel, SavedAs},
    },
};
use serde_json::{Value as Json, json};

use crate::{
    decoder::logits,
    golden::{cases, largest_difference},
    hostile::repository,
};

/// With this variable, exports stay in the folder that it names, for `tests/peers/peer_exports.py`.
const KEEP: &str = "ANNEAL_WRITE_EXPORTS";

/// A tokenizer that every model here has.
fn tokenizer() -> Tokenizer {
    let texts = [
        "Where is the café? 12 cafés, there and here. The quick brown fox.\n",
        "漢字と仮名。🙂 the the there\n",
    ];
    Tokenizer::train(texts.into_iter(), 320).unwrap()
}

/// A model of a family with weights drawn from a seed, as a golden describes it but with these fields changed, and wide enough for large
/// blocks.
pub(crate) fn model(golden: &str, changed: &Json, folder: &Path) -> PathBuf {
    let path = repository(&format!("tests/goldens/{golden}/config.json"));
    let mut config = read_json(&path, "read").unwrap();
    let tokenizer = tokenizer();
    let mut own = json!({"vocab_size": 328, "initializer_range": 0.1});
    // Factors of a long rope are as many as a head is wide.
    if !golden.contains("longrope") {
        let wide = json!({"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64});
        own.as_object_mut()
            .unwrap()
            .extend(wide.as_object().unwrap().clone());
    }
    for (field, value) in own
        .as_object()
        .unwrap()
        .iter()
        .chain(changed.as_object().unwrap())
    {
        config[field] = value.clone();
    }
    let described = NetworkConfig::from_json(&config).unwrap();
    let mut weights = InitialWeights::new(7, &Device::Cpu);
    let network = Network::new(described, &mut weights, true, DType::F32, &Device::Cpu).unwrap();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    let model = LanguageModel {
        network,
        saved_as: SavedAs::Model { config },
        tokenizer,
        template,
        chats: true,
    };
    let folder = folder.join(golden);
    fs::create_dir_all(&folder).unwrap();
    model.save(&folder).unwrap();
    folder
}

/// An adapter that does something, on a model.
fn adapter(base: &Path, targets: Targets, folder: &Path) -> PathBuf {
    let mut model = LanguageModel::open(base, LoadDtypes::F32, &Device::Cpu).unwrap();
    let config = LoraConfig {
        rank: 4,
        alpha: 8.0,
        dropout: 0.0,
        rank_stabilized: true,
        targets,
        layers: None,
    };
    let decoder = model.network.decoder_mut().unwrap();
    let mut weights = InitialWeights::new(3, &Device::Cpu);
    lora::attach(decoder, &config, &mut weights).unwrap();
    for parameter in decoder.parameters().trainable() {
        let moved = parameter.tensor().affine(1.0, 0.02).unwrap();
        parameter.assign(&moved).unwrap();
    }
    let folder = folder.join("adapter");
    fs::create_dir_all(&folder).unwrap();
    save_adapter(decoder, &config, &base.to_string_lossy(), &folder).unwrap();
    let template = Some(model.template.source.as_str());
    model.tokenizer.save(&folder, template).unwrap();
    folder
}

fn all_linear() -> Targets {
    Targets::Matching("all-linear".to_owned())
}

/// Writes one format, and says how it compared.
fn export(
    from: &Path,
    format: Format,
    to: &Path,
) -> models::Result<models::tasks::language::export::Exported> {
    let mut exporter = Exporter::open(from, "a model")?;
    let sample = Sample::texts(exporter.tokenizer())?;
    exporter.export(format, to, Some(&sample), &mut |_| Ok(()))
}

#[test]
fn files_for_llama_cpp_hold_what_the_package_gguf_writes_of_the_same_models() {
    let mut seen = 0;
    for golden in cases(|name| repository(&format!("tests/goldens/gguf/{name}.gguf")).exists()) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a.gguf");
        let mut weights =
            MergedWeights::open(&ModelFolder::open(&golden.folder).unwrap(), None, None).unwrap();
        let plan = GgufPlan::new(&weights, Mix::F32, &[]).unwrap();
        plan.write(&mut weights, &to, |_| Ok(())).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().len(), plan.bytes());
        let path = repository(&format!("tests/goldens/gguf/{}.gguf", golden.name));
        let (ours, theirs) = (Gguf::open(&to).unwrap(), Gguf::open(&path).unwrap());
        let names = |file: &Gguf| file.tensors.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{}", golden.name);
        for (name, tensor) in &theirs.tensors {
            let own = &ours.tensors[name];
            assert_eq!(own.shape, tensor.shape, "{name}");
            let numbers = |file: &Gguf, of| -> Vec<f32> {
                let (numbers, _) = file.bytes(of).as_chunks::<4>();
                numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()
            };
            let pairs = numbers(&ours, own)
                .into_iter()
                .zip(numbers(&theirs, tensor));
            // What is folded into a weight is rounded once.
            let off = pairs.map(|(a, b)| (a - b).abs() / b.abs().max(1e-3));
            let off = off.fold(0.0, f32::max);
            assert!(off < 3e-7, "{} of {}: {off}", name, golden.name);
        }
        let is_of_model = |key: &&String| key.contains('.') && !key.starts_with("tokenizer.");
        for key in theirs.keys.keys().filter(is_of_model) {
            let number = |file: &Gguf| file.keys.get(key).and_then(|it| it.as_f64());
            let (own, other) = (number(&ours), number(&theirs));
            // Where nothing is stretched it means nothing.
            let is_idle =
                golden.name == "phi3-plain-v5" && key.ends_with("original_context_length");
            if other.is_some() && !key.starts_with("general.") && !is_idle {
                assert_eq!(own, other, "{key} of {}", golden.name);
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 13);
}

/// A model of every family.
const FAMILIES: [&str; 9] = [
    "llama-plain-v5",
    "llama-rope-llama3-v5",
    "mistral-full-v5",
    "qwen2-plain-v5",
    "qwen3-plain-v5",
    "gemma2-plain-v5",
    "gemma3-plain-v5",
    "phi3-plain-v5",
    "smollm3-interval-v5",
];

#[test]
fn every_format_of_every_family_computes_what_was_trained() {
    let kept = std::env::var_os(KEEP).map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let folder = kept.as_deref().unwrap_or(temporary.path()).join("language");
    for family in FAMILIES {
        let folder = folder.join(family);
        // llama.cpp knows this pattern alone, and no windows of these families.
        let changed = match family {
            "smollm3-interval-v5" => {
                json!({"no_rope_layer_interval": 4, "no_rope_layers": null, "num_hidden_layers": 4,
                "layer_types": null, "use_sliding_window": false})
            }
            "phi3-plain-v5" => json!({"sliding_window": null}),
            _ => json!({}),
        };
        let base = model(family, &changed, &folder);
        let adapted = adapter(&base, all_linear(), &folder);
        export(&base, Format::Gguf(Mix::F32), &folder.join("base.gguf")).unwrap();
        export(&base, Format::Mlx, &folder.join("base-mlx.folder")).unwrap();
        let exporter = Exporter::open(&adapted, "a model").unwrap();
        assert!(exporter.is_adapter());
        for offer in exporter.offers() {
            let about = offer.format.about();
            // Blocks are the same in every family.
            let is_seen =
                !matches!(offer.format, Format::Gguf(mix) if !matches!(mix, Mix::F32 | Mix::Q4KM));
            if !is_seen && kept.is_none() && family != FAMILIES[0] {
                continue;
            }
            if let Some(reason) = offer.refused {
                panic!("{family} as {}: {reason}", about.name);
            }
            let to = folder.join(format!(
                "{}.{}",
                about.name,
                about.ending.unwrap_or("folder")
            ));
            let exported = export(&adapted, offer.format, &to);
            let exported =
                exported.unwrap_or_else(|error| panic!("{family} as {}: {error}", about.name));
            let compared = exported.compared.unwrap();
            assert!(compared.tokens > 100, "{compared:?}");
            if offer.format.is_adapter() {
                assert!(
                    compared.apart < 1e-5,
                    "{family} as {}: {compared:?}",
                    about.name
                );
            }
            if !matches!(offer.format, Format::GgufAdapter | Format::MlxAdapter) {
                assert_eq!(compared.tokenized_alike, Some(24), "{}", about.name);
            }
            let beside = match to.is_dir() {
                true => to.join(COMPARISON),
                false => folder.join(format!("{}.gguf.{COMPARISON}", about.name)),
            };
            let said = read_json(&beside, "read").unwrap();
            assert_eq!(said["format"], about.name);
            assert_eq!(said["compared"]["tokens"], compared.tokens);
            if offer.bytes != Some(exported.bytes) {
                assert!(to.is_dir(), "{} has another size than was said", about.name);
            }
        }
    }
}

#[test]
fn files_of_the_same_model_are_equal_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    for mix in [Mix::Q4KM, Mix::F16] {
        let files = ["a.gguf", "b.gguf"].map(|name| {
            let to = folder.path().join(format!("{mix:?}-{name}"));
            export(&base, Format::Gguf(mix), &to).unwrap();
            fs::read(to).unwrap()
        });
        assert!(files[0] == files[1]);
    }
}

#[test]
fn packed_weights_are_a_model_to_export_too() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["nf4-nested", "mlx-4"] {
        let base = folder.path().join(name);
        fs::create_dir(&base).unwrap();
        let from = repository(&format!("tests/goldens/packed/{name}"));
        for file in ["config.json", "model.safetensors"] {
            fs::copy(from.join(file), base.join(file)).unwrap();
        }
        let mut weights =
            MergedWeights::open(&ModelFolder::open(&base).unwrap(), None, None).unwrap();
        let plan = GgufPlan::new(&weights, Mix::F32, &[]).unwrap();
        let to = folder.path().join(format!("{name}.gguf"));
        plan.write(&mut weights, &to, |_| Ok(())).unwrap();
        let [before, after] = [&base, &to].map(|path| {
            let folder = ModelFolder::open(path).unwrap();
            load_decoder(&folder, LoadDtypes::F32, false, &Device::Cpu).unwrap()
        });
        let tokens: Vec<u32> = (0..32).collect();
        let [before, after] = [before, after].map(|it| logits(&it, Input::new(&tokens, 1)));
        let off = largest_difference(&before, &after);
        assert!(off < 1e-5, "{name}: {off}");
    }
}

/// Expects a model with these fields to be refused with these words, or written with them.
#[track_caller]
fn check_said(golden: &str, changed: &Json, format: Format, words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let base = model(golden, changed, folder.path());
    let exporter = Exporter::open(&base, "a model").unwrap();
    let offers = exporter.offers();
    let offer = offers.iter().find(|it| it.format == format).unwrap();
    let said = match &offer.refused {
        Some(reason) => reason.clone(),
        None => offer.losses.join(" "),
    };
    assert!(said.contains(words), "{golden}: {said}");
    let to = folder.path().join("out");
    let exported = export(&base, format, &to);
    assert_eq!(exported.is_err(), offer.refused.is_some(), "{golden}");
    assert_eq!(to.exists(), offer.refused.is_none(), "{golden}");
}

#[test]
fn what_llama_cpp_computes_otherwise_on_long_texts_is_said() {
    let gguf = Format::Gguf(Mix::F16);
    let window = "see no further than 3 tokens back: within so many it computes the same";
    check_said(
        "mistral-sliding-v5",
        &json!({"sliding_window": 3}),
        gguf,
        window,
    );
    check_said(
        "qwen2-plain-v5",
        &json!({"use_sliding_window": true, "sliding_window": 3, "max_window_layers": 0, "layer_types": null}),
        gguf,
        window,
    );
    check_said(
        "qwen3-plain-v5",
        &json!({"use_sliding_window": true, "sliding_window": 3, "max_window_layers": 0, "layer_types": null}),
        gguf,
        window,
    );
    check_said("phi3-plain-v5", &json!({"sliding_window": 3}), gguf, window);
    check_said(
        "phi3-longrope-long-v5",
        &json!({}),
        gguf,
        "llama.cpp chooses how positions turn by the context that is opened",
    );
}

#[test]
fn what_llama_cpp_can_not_be_told_is_refused() {
    let gguf = Format::Gguf(Mix::F16);
    check_said(
        "qwen3-plain-v5",
        &json!({"attention_bias": true}),
        gguf,
        "that its attention has biases",
    );
    check_said(
        "gemma2-plain-v5",
        &json!({"attn_logit_softcapping": null}),
        gguf,
        "that it has no soft caps",
    );
    check_said(
        "gemma2-plain-v5",
        &json!({"tie_word_embeddings": false}),
        gguf,
        "that its head is not its table of tokens",
    );
    check_said(
        "llama-plain-v5",
        &json!({"hidden_act": "gelu"}),
        gguf,
        "that its activation is not SiLU",
    );
    check_said(
        "smollm3-layers-v5",
        &json!({}),
        gguf,
        "which of its layers have positions",
    );
    check_said(
        "smollm3-interval-v5",
        &json!({"mlp_bias": true}),
        gguf,
        "that its feed-forward part has biases",
    );
    check_said(
        "qwen2-plain-v5",
        &json!({"head_dim": 16}),
        gguf,
        "heads are",
    );
    let yarn = json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "truncate": false});
    check_said(
        "llama-plain-v5",
        &json!({"rope_parameters": yarn}),
        gguf,
        "that YaRN rounds no bounds",
    );
}

#[test]
fn what_mlx_lm_computes_otherwise_is_refused_or_said() {
    let mlx = Format::Mlx;
    check_said(
        "mistral-sliding-v5",
        &json!({"sliding_window": 3}),
        mlx,
        "it does not load models whose layers all slide",
    );
    check_said(
        "qwen3-plain-v5",
        &json!({"attention_bias": true}),
        mlx,
        "it knows no biases of attention",
    );
    check_said(
        "gemma2-plain-v5",
        &json!({"final_logit_softcapping": null}),
        mlx,
        "it needs the soft caps",
    );
    check_said(
        "phi3-longrope-short-v5",
        &json!({}),
        mlx,
        "as for long texts at every length",
    );
    check_said(
        "gemma3-plain-v5",
        &json!({}),
        mlx,
        "rounds a factor of this family’s embeddings",
    );
    check_said(
        "phi3-plain-v5",
        &json!({"sliding_window": 3}),
        mlx,
        "see no further than 3 tokens back",
    );
    let yarn = json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "attention_factor": 0.5});
    check_said(
        "llama-plain-v5",
        &json!({"rope_parameters": yarn}),
        mlx,
        "attention factor",
    );
}

#[test]
fn an_adapter_on_some_layers_is_not_written_for_mlx_lm() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let only = Targets::Named(vec!["model.layers.0.self_attn.q_proj".to_owned()]);
    let adapted = adapter(&base, only, folder.path());
    let to = folder.path().join("out");
    let error = export(&adapted, Format::MlxAdapter, &to)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the same parts of all layers"), "{error}");
    export(&adapted, Format::GgufAdapter, &folder.path().join("a.gguf")).unwrap();
}

#[test]
fn quantized_blocks_are_a_model_to_export_too() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let quantized = folder.path().join("base.gguf");
    export(&base, Format::Gguf(Mix::Q8_0), &quantized).unwrap();
    let adapted = adapter(&quantized, all_linear(), folder.path());
    for format in [
        Format::Gguf(Mix::F32),
        Format::Gguf(Mix::Q8_0),
        Format::Merged,
        Format::GgufAdapter,
    ] {
        let to = folder.path().join(format.about().name);
        let compared = export(&adapted, format, &to).unwrap().compared.unwrap();
        assert!(
            compared.divergence < 1e-3,
            "{}: {compared:?}",
            format.about().name
        );
    }
    let config = read_json(&folder.path().join("merged/config.json"), "read").unwrap();
    assert_eq!(config["architectures"], json!(["LlamaForCausalLM"]));
    // The same blocks come out as went in.
    let again = folder.path().join("again.gguf");
    export(&quantized, Format::Gguf(Mix::Q8_0), &again).unwrap();
    let bytes = |path: &Path| {
        let file = Gguf::open(path).unwrap();
        let tensor = file.tensors["blk.0.ffn_up.weight"].clone();
        file.bytes(&tensor).to_vec()
    };
    assert_eq!(bytes(&quantized), bytes(&again));
}

#[test]
fn an_adapter_is_added_to_the_rounded_weights_that_it_learned_beside() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let adapted = adapter(&base, all_linear(), folder.path());
    let merged = |name: &str| {
        let to = folder.path().join(name);
        let exported = export(&adapted, Format::Merged, &to).unwrap();
        let compared = exported.compared.unwrap();
        assert!(compared.divergence < 1e-6, "{name}: {compared:?}");
        fs::read(to.join("model.safetensors")).unwrap()
    };
    let plain = merged("plain");
    let used = r#"{"chats": true, "quantize": "nf4"}"#;
    fs::write(adapted.join("anneal.json"), used).unwrap();
    assert_ne!(plain, merged("rounded"));
    let exported = export(&adapted, Format::Adapter, &folder.path().join("alone")).unwrap();
    let compared = exported.compared.as_ref().unwrap();
    assert!(compared.divergence < 1e-6, "{compared:?}");
    let note = "in NF4: on those weights as they are its answers differ a little.";
    assert!(exported.notes[0].ends_with(note), "{:?}", exported.notes);
}

#[test]
fn an_export_replaces_nothing_and_leaves_nothing_of_what_went_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let to = folder.path().join("a.gguf");
    fs::write(&to, "mine").unwrap();
    let error = export(&base, Format::Gguf(Mix::F16), &to)
        .unwrap_err()
        .to_string();
    assert!(error.contains("an export replaces nothing"), "{error}");
    assert_eq!(fs::read(&to).unwrap(), b"mine");

    // Whatever happens to a file before it is compared, it is not taken for what it is not.
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut exporter = Exporter::open(&base, "a model").unwrap();
    let sample = Sample::texts(exporter.tokenizer()).unwrap();
    let to = out.join("a.gguf");
    for (format, words) in [
        (Format::Gguf(Mix::F32), "scores are up to"),
        (Format::Gguf(Mix::Q4_0), "NaN or infinite"),
    ] {
        let spoiled = exporter.export(format, &to, Some(&sample), &mut |stage| {
            if stage == Stage::Comparing {
                assert!(!to.exists());
                let to = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
                let mut bytes = fs::read(&to).unwrap();
                let from = bytes.len() - 30_000;
                bytes[from..].fill(if format == Format::Gguf(Mix::F32) {
                    0
                } else {
                    0xff
                });
                fs::write(&to, bytes).unwrap();
            }
            Ok(())
        });
        let error = spoiled.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(fs::read_dir(&out).unwrap().next().is_none());
    }
}

#[test]
fn every_mix_is_offered_with_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama-plain-v5", &json!({}), folder.path());
    let offers = Exporter::open(&base, "a model").unwrap().offers();
    let whole = FORMATS.iter().filter(|it| !it.format.is_adapter());
    assert_eq!(offers.len(), whole.count());
    let size = |mix| {
        let offer = offers.iter().find(|it| it.format == Format::Gguf(mix));
        offer.unwrap().bytes.unwrap()
    };
    let sizes = MIXES.map(|it| size(it.mix));
    assert!(
        sizes[0] > sizes[1] && sizes[1] > sizes[3] && sizes[3] > sizes[7],
        "{sizes:?}"
    );
}
