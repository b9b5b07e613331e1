//! How fast a language model learns and writes: tokens a second on one line of JSON.
//!
//! ```text
//! cargo bench -p anneal-models --bench language -- lora FOLDER [--device cuda] [--dtype bf16] [--rows 4] [--length 512]
//! cargo bench -p anneal-models --bench language -- generate FOLDER [--prompt 32] [--tokens 128]
//! ```
//!
//! The work of `lora` is that of `tests/peers/peer_lora.py`: rank 8 on all seven projections, every position a target,
//! a step being forward, loss, backward, clip and AdamW. FOLDER is a model in the layout of the Hub, or a file
//! `config.json` alone, from which random weights are drawn. Without words, both are measured at the shape of
//! SmolLM2-135M.

#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, missing_docs)]

use std::{collections::HashMap, path::Path, time::Instant};

use candle_core::{DType, Device};
use models::{
    arch::{
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        lora::{self, LoraConfig, Targets},
    },
    checkpoint::{
        folder::{ModelFolder, read_json},
        load::{LoadDtypes, load_decoder},
    },
    device::{self, DeviceRequest, memory::memory},
    optim::{DecayScope, Optimizer, adamw::AdamW, clip},
    random::Random,
    tape::{Gradients, Tape},
};
use serde_json::{Value as Json, json};

/// `--name value` pairs after the work and the folder.
struct Options(HashMap<String, String>);

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [work, folder, options @ ..] = words.as_slice() else {
        let none = Options(HashMap::new());
        for measure in [lora_steps, generate] {
            println!("{}", measure(None, &none).expect("the benchmark"));
        }
        return;
    };
    let pairs = options
        .chunks(2)
        .map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].clone()));
    let options = Options(pairs.collect());
    let report = match work.as_str() {
        "lora" => lora_steps(Some(Path::new(folder)), &options),
        "generate" => generate(Some(Path::new(folder)), &options),
        other => panic!("`{other}` is neither lora nor generate"),
    };
    println!("{}", report.expect("the benchmark"));
}

fn lora_steps(folder: Option<&Path>, options: &Options) -> models::Result<Json> {
    let (rows, length) = (options.number("rows", 2), options.number("length", 256));
    let gradient_checkpointing = options.number("gradient_checkpointing", 0) == 1;
    let (warm_up, steps) = (options.number("warm-up", 2), options.number("steps", 8));
    let device = options.device()?;
    let mut decoder = options.decoder(folder, &device)?;
    let linears = decoder.config().linears().iter();
    let config = LoraConfig {
        rank: 8,
        alpha: 16.0,
        dropout: 0.0,
        rank_stabilized: false,
        targets: Targets::Named(linears.map(|&name| name.to_owned()).collect()),
        layers: None,
    };
    let mut weights = InitialWeights::new(1, &device);
    lora::attach(&mut decoder, &config, &mut weights)?;
    let mut optimizer = Optimizer::new(
        AdamW::default().into(),
        DecayScope::All,
        decoder.parameters(),
    )?;
    let mut random = Random::new(1);
    let (mut rates, mut losses, mut millis) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..warm_up + steps {
        let mut draw = || {
            (0..rows * length)
                .map(|_| 3 + random.below(4093) as u32)
                .collect::<Vec<_>>()
        };
        let (tokens, targets) = (draw(), draw());
        let input = Input::new(&tokens, rows);
        let started = Instant::now();
        losses.push(lora_step(
            &decoder,
            &mut optimizer,
            input,
            &targets,
            gradient_checkpointing,
        )?);
        device.synchronize()?;
        let seconds = started.elapsed().as_secs_f64();
        if step >= warm_up {
            rates.push((rows * length) as f64 / seconds);
            millis.push(seconds * 1e3);
        }
    }
    let memory = memory(&device)?;
    Ok(json!({
        "work": "lora", "rows": rows, "length": length, "steps": steps,
        "tokens_per_second": median(&mut rates), "slowest": rates[0], "fastest": rates[rates.len() - 1],
        "millis_per_step": median(&mut millis), "first_loss": losses[0], "last_loss": losses[losses.len() - 1],
        "memory": format!("{memory:?}"), "trainable": decoder.parameters().trainable_count(),
    }))
}

/// Forward, loss, backward, clip, optimizer. Returns the loss.
fn lora_step(
    decoder: &Decoder,
    optimizer: &mut Optimizer,
    input: Input,
    targets: &[u32],
    gradient_checkpointing: bool,
) -> models::Result<f32> {
    let tape = Tape::new(0);
    let hidden = decoder.hidden(Some(&tape), input, None, gradient_checkpointing)?;
    let loss = decoder.loss(Some(&tape), &hidden, targets, targets.len() as f64)?;
    drop(hidden);
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients)?;
    let norm = clip::gradient_norm(&gradients)?;
    optimizer.step(
        decoder.parameters(),
        &gradients,
        1e-4,
        clip::clip_scale(norm, 1.0),
    )?;
    Ok(loss.tensor().to_dtype(DType::F32)?.to_scalar::<f32>()?)
}

fn generate(folder: Option<&Path>, options: &Options) -> models::Result<Json> {
    let (prompt, tokens) = (options.number("prompt", 32), options.number("tokens", 128));
    let device = options.device()?;
    let decoder = options.decoder(folder, &device)?;
    let mut rates = Vec::new();
    let mut written: Vec<u32> = Vec::new();
    for _ in 0..options.number("rounds", 3) + 1 {
        let mut cache = decoder.new_cache();
        let mut next: Vec<u32> = (0..prompt as u32)
            .map(|token| 3 + token * 7 % 4000)
            .collect();
        written.clear();
        let mut started = Instant::now();
        for index in 0..tokens {
            let logits = decoder.next_logits(&next, &mut cache)?;
            next = vec![logits.argmax(0)?.to_scalar()?];
            written.extend(&next);
            if index == 0 {
                // The first token pays for the prompt.
                started = Instant::now();
            }
        }
        rates.push((tokens - 1) as f64 / started.elapsed().as_secs_f64());
    }
    let mut counted = rates.split_off(1);
    Ok(json!({
        "work": "generate", "prompt": prompt, "tokens": tokens, "tokens_per_second": median(&mut counted),
        "slowest": counted[0], "fastest": counted[counted.len() - 1], "first_tokens": written[..8.min(written.len())],
    }))
}

impl Options {
    fn number(&self, name: &str, default: usize) -> usize {
        self.0
            .get(name)
            .map_or(default, |value| value.parse().expect("a whole number"))
    }

    fn dtype(&self, name: &str) -> DType {
        match self.0.get(name).map(String::as_str) {
            Some("bf16") => DType::BF16,
            Some("f16") => DType::F16,
            _ => DType::F32,
        }
    }

    fn device(&self) -> models::Result<Device> {
        let asked = self.0.get("device").map_or("cpu", String::as_str);
        let request = DeviceRequest {
            device: asked.parse()?,
            strict: true,
        };
        device::open(&device::choose(request, &device::detect::detect())?)
    }

    /// `--dtype` is what is computed in; `--storage` what weights are kept in, the same unless given.
    fn decoder(&self, folder: Option<&Path>, device: &Device) -> models::Result<Decoder> {
        let compute = self.dtype("dtype");
        let storage = if self.0.contains_key("storage") {
            self.dtype("storage")
        } else {
            compute
        };
        let config = match folder {
            Some(folder) if folder.is_dir() => {
                let dtypes = LoadDtypes {
                    storage,
                    compute,
                    quantize: None,
                };
                return load_decoder(&ModelFolder::open(folder)?, dtypes, false, device);
            }
            Some(file) => read_json(file, "read the model’s config")?,
            None => smollm2_135m(),
        };
        let config = DecoderConfig::from_json(&config)?;
        let mut weights = InitialWeights {
            seed: 0,
            dtype: storage,
            device: device.clone(),
        };
        Decoder::new(config, &mut weights, false, compute, device)
    }
}

/// The `config.json` of SmolLM2-135M, as far as it decides the speed.
fn smollm2_135m() -> Json {
    json!({
        "model_type": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "max_position_embeddings": 8192, "rope_theta": 100_000.0, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true,
    })
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
