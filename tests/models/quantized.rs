//! Adapters that learn beside weights in few bits: the codes are those of bitsandbytes, what is learned is what a model of the widened
//! numbers would learn, a run comes back to the same bits, and a plan says what it takes.

use std::{fs, path::Path};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        lora::{self, LoraConfig, Targets},
    },
    checkpoint::{
        folder::{CONFIG, ModelFolder, WEIGHTS},
        load::{LoadDtypes, load_decoder},
        merged::MergedWeights,
        model::save_model,
        quantize::Quantization,
    },
    ops::{
        codebook,
        weight::{
            Quantized,
            nf4::{MakeNf4, StoredNf4, StoredScales},
        },
    },
    tape::{Gradients, Tape},
    tasks::language::{
        Language,
        model::LanguageModel,
        plan::{ModelShape, Stored},
    },
    train::{Kind, Outcome, fit::Fit},
};
use serde_json::{Value as Json, json};

use crate::{
    decoder::logits,
    gguf_files::rows_of_numbers,
    hostile::repository,
    language,
    plan::{lora_facts, plan, problems, why, with},
};

const GIB: f64 = (1u64 << 30) as f64;

/// A sum of numbers as bytes.
fn sum(numbers: &[f32]) -> u32 {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    crc32fast::hash(&bytes)
}

#[test]
fn numbers_become_the_codes_that_bitsandbytes_makes_of_them() {
    let path = repository("tests/goldens/codes.json");
    let golden: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(golden["signed_table"], sum(&codebook::signed().values));
    assert_eq!(golden["unsigned_table"], sum(&codebook::unsigned().values));
    let numbers = rows_of_numbers();
    for (name, [rows, width]) in [("whole", [64, 1000]), ("short", [61, 999])] {
        let numbers = numbers.chunks(1024).take(rows);
        let numbers: Vec<f32> = numbers.flat_map(|row| &row[..width]).copied().collect();
        let make = || {
            let mut made = MakeNf4::new([rows, width]);
            // In parts, as a large matrix is.
            let (first, rest) = numbers.split_at(numbers.len() / 128 * 64);
            made.push(first);
            made.push(rest);
            made
        };
        let plain = make().plain();
        let of = &golden[format!("nf4_{name}")];
        assert_eq!(of["codes"], crc32fast::hash(&plain.codes), "{name}");
        let StoredScales::Plain(scales) = &plain.scales else {
            panic!("scales in codes");
        };
        assert_eq!(of["largest"], sum(scales), "{name}");
        assert_eq!(of["numbers"], sum(&widened(plain)), "{name}");

        let of = &golden[format!("nf4_nested_{name}")];
        let StoredScales::Nested {
            codes,
            largest,
            offset,
            values,
            ..
        } = make().nested().scales
        else {
            panic!("scales in f32");
        };
        // What all scales have in common is a mean, whose last bit depends on the order of a sum.
        let expected = of["offset"].as_f64().unwrap();
        assert!((f64::from(offset) / expected - 1.0).abs() < 1e-6, "{name}");
        let scales = codes
            .iter()
            .enumerate()
            .map(|(at, code)| f64::from(values[usize::from(*code)] * largest[at / 256] + offset));
        let expected = of["sum_of_scales"].as_f64().unwrap();
        assert!(
            (scales.sum::<f64>() / expected - 1.0).abs() < 1e-6,
            "{name}"
        );
    }
}

fn widened(stored: StoredNf4) -> Vec<f32> {
    let rows = stored.shape[0];
    let weight = Quantized::new(stored.on(&Device::Cpu).unwrap()).unwrap();
    let numbers = weight.widen(0..rows).unwrap().flatten_all().unwrap();
    numbers.to_vec1().unwrap()
}

#[test]
fn codes_or_scales_that_are_too_few_are_refused() {
    let stored = || {
        let mut made = MakeNf4::new([2, 64]);
        made.push(&[0.5; 128]);
        made
    };
    let mut cut = stored().plain();
    cut.codes.pop();
    let mut no_scales = stored().plain();
    no_scales.scales = StoredScales::Plain(vec![1.0]);
    for (stored, what) in [(cut, "63 codes"), (no_scales, "1 scales")] {
        let error = stored.on(&Device::Cpu).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{what} of NF4 are too few for a matrix of 2 x 64")
        );
    }
}

/// A decoder with adapters of two weights.
fn with_adapter(folder: &Path, quantize: Option<Quantization>) -> Decoder {
    let dtypes = LoadDtypes {
        quantize,
        ..LoadDtypes::F32
    };
    let folder = ModelFolder::open(folder).unwrap();
    let mut decoder = load_decoder(&folder, dtypes, false, &Device::Cpu).unwrap();
    let config = LoraConfig {
        rank: 4,
        alpha: 8.0,
        dropout: 0.1,
        rank_stabilized: false,
        targets: Targets::Named(vec!["q_proj".to_owned(), "down_proj".to_owned()]),
        layers: None,
    };
    let mut weights = InitialWeights::new(3, &Device::Cpu);
    lora::attach(&mut decoder, &config, &mut weights).unwrap();
    // B begins as 0, with which half of the gradients would be.
    for (at, b) in decoder.parameters().trainable().enumerate() {
        let values = (b.tensor().ones_like().unwrap() * (0.01 + 0.001 * at as f64)).unwrap();
        b.assign(&values).unwrap();
    }
    decoder
}

/// The loss of a few tokens, and the gradient of every adapter.
fn learn(decoder: &Decoder) -> (f32, Vec<(String, Tensor)>) {
    let tape = Tape::new(1);
    let tokens = [5, 17, 42, 3, 20, 21, 8, 33];
    let hidden = decoder.hidden(Some(&tape), Input::new(&tokens, 2), None, true);
    let targets = [17, 42, 3, 5, 21, 8, 33, 20];
    let loss = decoder
        .loss(Some(&tape), &hidden.unwrap(), &targets, 8.0)
        .unwrap();
    let value = loss.tensor().to_scalar().unwrap();
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    let gradients = gradients.iter().map(|it| (it.0.to_owned(), it.1.clone()));
    (value, gradients.collect())
}

#[test]
fn gradients_are_those_of_a_model_of_the_widened_numbers() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let config = json!({
        "model_type": "llama", "vocab_size": 44, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2,
    });
    let described = DecoderConfig::from_json(&config).unwrap();
    let mut initial = InitialWeights::new(7, &Device::Cpu);
    let decoder = Decoder::new(described, &mut initial, false, DType::F32, &Device::Cpu);
    save_model(&decoder.unwrap(), &config, base).unwrap();
    for quantize in Quantization::ALL {
        let folder = tempfile::tempdir().unwrap();
        let model = ModelFolder::open(base).unwrap();
        let mut weights = MergedWeights::open(&model, None, Some(quantize)).unwrap();
        let mut tensors = std::collections::HashMap::new();
        for (name, shape) in weights.list().to_vec() {
            let mut parts = Vec::new();
            let part = |part| {
                parts.push(part);
                Ok(())
            };
            weights.parts(&name, &shape, part).unwrap();
            tensors.insert(name, Tensor::cat(&parts, 0).unwrap());
        }
        let file = folder.path().join(WEIGHTS);
        candle_core::safetensors::save(&tensors, file).unwrap();
        fs::copy(base.join(CONFIG), folder.path().join(CONFIG)).unwrap();

        let quantized = with_adapter(base, Some(quantize));
        assert_eq!(quantized.parameters().quantized_count(), 14);
        let (loss, gradients) = learn(&quantized);
        let (expected_loss, expected) = learn(&with_adapter(folder.path(), None));
        assert!(
            (loss - expected_loss).abs() < 1e-5 * expected_loss,
            "{quantize:?}"
        );
        assert_eq!(gradients.len(), 8);
        for ((name, got), (expected_name, expected)) in gradients.iter().zip(&expected) {
            assert_eq!(name, expected_name);
            let norm = |it: &Tensor| {
                it.sqr()
                    .unwrap()
                    .sum_all()
                    .unwrap()
                    .to_scalar::<f32>()
                    .unwrap()
                    .sqrt()
            };
            let off = norm(&(got - expected).unwrap()) / norm(expected);
            assert!(off < 1e-5, "{quantize:?} {name}: {off}");
        }
        // It is another model than the one before.
        let (plain, _) = learn(&with_adapter(base, None));
        assert_ne!(plain, loss);
    }
}

#[test]
fn codes_that_are_there_already_are_taken_as_they_are() {
    for name in ["nf4", "nf4-nested"] {
        let folder =
            ModelFolder::open(&repository(&format!("tests/goldens/packed/{name}"))).unwrap();
        let load = |quantize| {
            let dtypes = LoadDtypes {
                quantize,
                ..LoadDtypes::F32
            };
            let decoder = load_decoder(&folder, dtypes, false, &Device::Cpu).unwrap();
            let scores = logits(&decoder, Input::new(&[5, 17, 42, 3], 1));
            (decoder.parameters().quantized_count(), scores)
        };
        let (none, wide) = load(None);
        let (packed, narrow) = load(Some(Quantization::Nf4));
        assert_eq!((none, packed), (0, 14));
        let off = (wide - narrow).unwrap().abs().unwrap().max_all().unwrap();
        assert!(off.to_scalar::<f32>().unwrap() < 1e-5, "{name}");
        assert_eq!(ModelShape::of(&folder).unwrap().stored, Stored::Nf4);
        // An export rounds them no second time.
        let numbers = |quantize| {
            let mut weights = MergedWeights::open(&folder, None, quantize).unwrap();
            let mut all = Vec::new();
            let (weight, shape) = ("model.layers.1.mlp.down_proj.weight", [64, 128]);
            let part = |part: Tensor| {
                all.push(part.to_vec2::<f32>()?);
                Ok(())
            };
            weights.parts(weight, &shape, part).unwrap();
            all
        };
        assert_eq!(numbers(None), numbers(Some(Quantization::Nf4)));
        assert_ne!(numbers(None), numbers(Some(Quantization::Q4_0)));
    }
}

#[test]
fn a_run_beside_quantized_weights_comes_back_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let data = language::chat_file(folder.path());
    let model = language::base_model(folder.path(), &data);
    let mut plan = language::plan("lora", &data, Some(&model));
    plan.task.quantize = Some(Quantization::Nf4);
    let (outcome, whole, losses) = language::run(&plan, &folder.path().join("whole"), None);
    assert_eq!(outcome, Outcome::Finished);
    assert_eq!(losses.len(), 10);
    language::run(&plan, &folder.path().join("stopped"), Some(5));
    let (_, resumed, _) = language::run(&plan, &folder.path().join("stopped"), None);
    let numbers = |task: &models::tasks::language::LanguageTask| {
        let parameters = models::train::task::Task::parameters(task).trainable();
        let numbers = |it: &models::parameters::Parameter| {
            it.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        parameters.map(numbers).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&whole), numbers(&resumed));

    // Who opens it gets what learned, and not the adapter on other weights.
    let newest = language::newest(&folder.path().join("whole"));
    let opened = LanguageModel::open(&newest, LoadDtypes::F32, &Device::Cpu).unwrap();
    assert_eq!(opened.network.parameters().quantized_count(), 14);
    let said = fs::read_to_string(newest.join("anneal.json")).unwrap();
    fs::write(newest.join("anneal.json"), said.replace("nf4", "nf5")).unwrap();
    let error = LanguageModel::open(&newest, LoadDtypes::F32, &Device::Cpu)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("`quantize` is \"nf5\""),
        "{error}"
    );
}

/// The sizes of Qwen2.5 (d, f, layers, heads, key heads, whether the head is the table), and GiB of a table of what they take: weights in
/// bf16, Q8_0, Q4_0 and NF4, and an adapter of rank 16 with gradient and moments.
const QWEN: [(&str, [usize; 5], bool, [f64; 5]); 4] = [
    (
        "0.5B",
        [896, 4864, 24, 14, 2],
        true,
        [0.92, 0.61, 0.44, 0.43, 0.13],
    ),
    (
        "1.5B",
        [1536, 8960, 28, 12, 2],
        true,
        [2.88, 1.73, 1.12, 1.06, 0.28],
    ),
    (
        "3B",
        [2048, 11008, 36, 16, 2],
        true,
        [5.75, 3.33, 2.03, 1.91, 0.45],
    ),
    (
        "7B",
        [3584, 18944, 28, 28, 4],
        false,
        [14.2, 8.49, 5.45, 5.17, 0.60],
    ),
];

fn qwen([d, f, layers, heads, keys]: [usize; 5], tied: bool) -> DecoderConfig {
    let vocabulary = if tied { 151_936 } else { 152_064 };
    let config = json!({
        "model_type": "qwen2", "vocab_size": vocabulary, "hidden_size": d, "intermediate_size": f, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": keys, "max_position_embeddings": 32768, "tie_word_embeddings": tied,
    });
    DecoderConfig::from_json(&config).unwrap()
}

#[test]
fn an_estimate_says_what_models_take_in_few_bits() {
    for (name, sizes, tied, expected) in QWEN {
        let shape = ModelShape::from(qwen(sizes, tied));
        let mut facts = lora_facts();
        facts.task.model = Some(shape.clone());
        facts.device.device.free_bytes = None;
        let request = |quantize: &str| {
            json!({
                "model": "m", "data": {"files": ["a"]}, "lora": {"rank": 16}, "batch": {"rows": 1, "length": 2048},
                "dtype": {"storage": "bf16"}, "quantize": quantize,
            })
        };
        for (at, quantize) in ["none", "q8_0", "q4_0", "nf4"].into_iter().enumerate() {
            let plan = plan(request(quantize), facts.clone()).plan;
            let estimate = Language::estimate(&plan, &shape);
            let bytes = |names: &[&str]| {
                let parts = estimate
                    .parts
                    .iter()
                    .filter(|it| names.contains(&it.name.as_str()));
                parts.map(|it| it.bytes as f64).sum::<f64>() / GIB
            };
            let weights = bytes(&["weights"]);
            assert!(
                (weights / expected[at] - 1.0).abs() < 0.02,
                "{name} {quantize}: {weights}"
            );
            let learned = bytes(&["adapter", "optimizer"]) / 3.0 * 4.0;
            assert!(
                (learned / expected[4] - 1.0).abs() < 0.03,
                "{name}: {learned}"
            );
        }
        if name == "7B" {
            // With all that a step keeps, on a card of 12 GB. On an H200, the process with such a step held 8,239 MiB at most.
            let mut plan = plan(request("nf4"), facts).plan;
            plan.run.gradient_checkpointing = true;
            plan.run.dtype.compute = models::device::dtype::Dtype::Bf16;
            plan.run.device = models::device::RequestedDevice::Cuda(0);
            let bytes = |plan: &_| Language::estimate(plan, &shape).bytes() as f64 / GIB;
            let of_real = bytes(&plan) * 1024.0 / 8239.0;
            assert!((0.98..1.1).contains(&of_real), "{of_real}");
            // Scores of attention exist only where it is composed.
            let kept = bytes(&plan);
            plan.run.avoid_kernels = vec!["attention".to_owned()];
            let scores = 28.0 * 2048.0 * 2048.0 * 12.0 / GIB;
            assert!((0.8..1.0).contains(&((bytes(&plan) - kept) / scores)));
        }
    }
}

/// The 7B on a machine with so many GiB free.
fn large(free_gib: f64) -> models::train::Facts<models::tasks::language::LanguageFacts> {
    let (_, sizes, tied, _) = QWEN[3];
    let mut facts = lora_facts();
    facts.task.model = Some(qwen(sizes, tied).into());
    facts.device.device.free_bytes = Some((free_gib * GIB) as u64);
    facts
}

fn request() -> Json {
    json!({"model": "m", "data": {"files": ["a"]}})
}

#[test]
fn a_plan_takes_four_bits_where_sixteen_would_not_fit_and_says_so() {
    let resolved = plan(request(), large(14.0));
    assert_eq!(resolved.plan.task.quantize, Some(Quantization::Nf4));
    assert_eq!(
        why(&resolved, "quantize"),
        "In 16 bits the weights alone take 15.2 GB of the 12.0 GB that a run may use; in 4 they take 5.5 GB, and answers get worse, the more so the smaller the model."
    );
    // Where they fit, and where nothing would, they stay as they are.
    for free in [40.0, 3.0] {
        let resolved = plan(request(), large(free));
        assert_eq!(resolved.plan.task.quantize, None, "{free}");
    }
    let asked = plan(with(request(), json!({"quantize": "none"})), large(14.0));
    assert_eq!(asked.plan.task.quantize, None);

    // What comes in few bits stays so.
    let mut facts = large(14.0);
    facts.task.model.as_mut().unwrap().stored = Stored::Nf4;
    let resolved = plan(request(), facts.clone());
    assert_eq!(resolved.plan.task.quantize, Some(Quantization::Nf4));
    assert_eq!(why(&resolved, "quantize"), "The model comes so.");
    let (count, bytes) = (6_525_288_448, 3_670_474_752);
    facts.task.model.as_mut().unwrap().stored = Stored::Blocks { count, bytes };
    let resolved = plan(request(), facts.clone());
    assert_eq!(resolved.plan.task.quantize, None);
    let shape = facts.task.model.clone().unwrap();
    let estimate = Language::estimate(&resolved.plan, &shape);
    let rest = estimate.parts[0].bytes - bytes;
    let storage = resolved.plan.run.dtype.storage.bytes() as u64;
    assert_eq!(rest, (shape.network.parameters() - count) * storage);
}

#[test]
fn four_bits_are_offered_to_a_run_that_does_not_fit() {
    // 16 bits fit by themselves, and not with what learns.
    let resolved = plan(
        with(request(), json!({"dtype": {"storage": "bf16"}})),
        large(18.5),
    );
    assert_eq!(resolved.plan.task.quantize, None);
    let facts = large(18.5);
    let fit =
        Fit::new::<Language>(&resolved.plan, facts.task.model.as_ref().unwrap(), &facts).unwrap();
    assert!(!fit.fits);
    let offers = fit.fixes.iter().flat_map(|it| &it.changes);
    assert!(
        offers
            .into_iter()
            .any(|it| it.field == "quantize" && it.value == "nf4"),
        "{:?}",
        fit.fixes
    );
}

#[test]
fn what_cannot_be_in_few_bits_is_said() {
    let full = with(request(), json!({"method": "full", "quantize": "nf4"}));
    let found = problems(full, lora_facts());
    assert_eq!(
        found,
        [
            "`quantize` is nf4, and only weights that stay as they are can be; remove it, or set `method: lora`"
        ]
    );
    let mut facts = lora_facts();
    facts.task.model.as_mut().unwrap().stored = Stored::Blocks { count: 1, bytes: 1 };
    let found = problems(with(request(), json!({"quantize": "q8_0"})), facts);
    assert_eq!(
        found,
        [
            "`quantize` is q8_0, and the weights of a GGUF file stay in the blocks that they have; remove it"
        ]
    );
}
