//! How fast a language model learns and writes: tokens a second on one line of JSON.
//!
//! ```text
//! cargo bench -p anneal-models --bench language -- lora FOLDER [--device cuda] [--dtype bf16] [--rows 4] [--length 512]
//! cargo bench -p anneal-models --bench language -- full FOLDER [the same]
//! cargo bench -p anneal-models --bench language -- generate FOLDER [--prompt 32] [--tokens 128] [--temperature 0]
//! ```
//!
//! The work of `lora` is that of `tests/peers/peer_lora.py`: rank 8 on all seven projections, every position a target,
//! a step being forward, loss, backward, clip and AdamW, taken by the loop of every run; `full` is that of all weights. With
//! `--recorded 0` a GPU plays no recorded pass, and with `--avoid next_token` it reads a token of an answer the ordinary way. FOLDER is
//! a model in the layout of the Hub, or a file `config.json` alone, from which random weights are drawn. Without words, both are
//! measured at the shape of SmolLM2-135M.

#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, missing_docs)]

use std::{collections::HashMap, path::Path, time::Instant};

use candle_core::Device;
use models::{
    Error,
    arch::{
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        lora,
        network::Network,
    },
    checkpoint::{
        folder::{ModelFolder, read_json},
        load::{LoadDtypes, load_decoder},
    },
    device::{self, Checked, Choice, DeviceRequest, dtype::Dtype, memory::memory},
    generate::sample::{Sampler, SamplingSettings},
    parameters::Parameters,
    random::Random,
    tape::{FixedPass, Tape, Value},
    tasks::language::{Language, LanguageFacts, LanguagePlan, LanguageRequest, plan::DataFacts},
    train::{
        Facts, TrainPlan, TrainRequest, TrainState, resolve,
        task::{BatchSize, Task},
        try_steps,
    },
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
        println!("{}", learn("lora", None, &none).expect("the benchmark"));
        println!("{}", generate(None, &none).expect("the benchmark"));
        return;
    };
    let pairs = options
        .chunks(2)
        .map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].clone()));
    let options = Options(pairs.collect());
    let report = match work.as_str() {
        work @ ("lora" | "full") => learn(work, Some(Path::new(folder)), &options),
        "generate" => generate(Some(Path::new(folder)), &options),
        other => panic!("`{other}` is neither lora, full nor generate"),
    };
    println!("{}", report.expect("the benchmark"));
}

/// Steps of the loop by which runs learn.
fn learn(work: &str, folder: Option<&Path>, options: &Options) -> models::Result<Json> {
    let (rows, length) = (options.number("rows", 2), options.number("length", 256));
    let (warm_up, steps) = (options.number("warm-up", 2), options.number("steps", 8));
    let device = options.device()?;
    let is_lora = work == "lora";
    let mut decoder = options.decoder(folder, &device, !is_lora)?;
    let mut request = json!({
        "device": options.asked_device(), "steps": warm_up + steps, "method": work, "model": "model",
        "batch": {"rows": rows, "length": length, "accumulate": options.number("accumulate", 1)},
        "dtype": {"compute": options.0.get("dtype").map_or("f32", String::as_str)},
        "gradient_checkpointing": options.number("gradient_checkpointing", 0) == 1,
        "data": {"files": ["tokens"], "max_length": length},
    });
    if is_lora {
        let (rank, targets) = (options.number("rank", 8), decoder.config().linears());
        request["lora"] = json!({"rank": rank, "dropout": 0.0, "targets": targets});
    }
    let request: TrainRequest<LanguageRequest> =
        serde_json::from_value(request).map_err(|error| Error::Data(error.to_string()))?;
    let facts = Facts {
        task: LanguageFacts {
            data: DataFacts {
                read_as: "random tokens".to_owned(),
                rows: 1000,
                tokens: 1000 * length,
                length_95: length,
                length_longest: length,
                ..DataFacts::default()
            },
            vocab_size: decoder.config().vocab_size,
            model: Some(decoder.config().clone().into()),
        },
        device: options.choice()?,
        checked: Checked {
            bf16: true,
            ..Checked::default()
        },
    };
    let plan = resolve::<Language>(&request, &facts)?.plan;
    if let Some(lora) = &plan.task.lora {
        let mut weights = InitialWeights::new(1, &device);
        lora::attach(&mut decoder, &lora.config(), &mut weights)?;
    }
    let mut task = RandomTokens {
        network: decoder.into(),
        random: Random::new(1),
        plan,
        is_recorded: options.number("recorded", 1) == 1,
    };
    let plan = task.plan.clone();
    let seen = task.draw();
    let first_loss = task.measure(&seen)?;
    let mut state = TrainState::new(&plan, &task)?;
    let mut millis = try_steps(&plan.run, &mut task, &mut state, warm_up + steps, &|| false)?;
    let last_loss = task.measure(&seen)?;
    let mut millis = millis.split_off(warm_up);
    let middle = median(&mut millis);
    let tokens = (rows * length * plan.run.batch.accumulate) as f64;
    let rate = |millis: f64| tokens / millis * 1e3;
    let memory = memory(&device)?;
    Ok(json!({
        "work": work, "rows": rows, "length": length, "steps": steps, "tokens_per_second": rate(middle),
        "slowest": rate(millis[millis.len() - 1]), "fastest": rate(millis[0]), "millis_per_step": middle,
        "first_loss": first_loss, "last_loss": last_loss, "memory": format!("{memory:?}"),
        "trainable": task.network.parameters().trainable_count(),
    }))
}

/// A task whose data is noise over a part of the vocabulary.
struct RandomTokens {
    network: Network,
    random: Random,
    plan: TrainPlan<LanguagePlan>,
    is_recorded: bool,
}

/// Tokens, and those to be said next.
type Batch = (Vec<u32>, Vec<u32>);

impl RandomTokens {
    fn draw(&mut self) -> Batch {
        let run = &self.plan.run.batch;
        let count = run.rows * run.length;
        let mut draw = || {
            (0..count)
                .map(|_| 3 + self.random.below(4093) as u32)
                .collect()
        };
        (draw(), draw())
    }

    fn measure(&self, (tokens, targets): &Batch) -> models::Result<f64> {
        let input = Input::new(tokens, self.plan.run.batch.rows);
        Ok(self.network.measured_loss(input, targets)? / targets.len() as f64)
    }
}

impl Task for RandomTokens {
    type Batch = Batch;

    fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    fn next_batch(&mut self) -> models::Result<Batch> {
        Ok(self.draw())
    }

    fn size(&self, (tokens, targets): &Batch) -> BatchSize {
        BatchSize {
            targets: targets.len(),
            units: tokens.len(),
        }
    }

    fn loss(
        &mut self,
        tape: &Tape,
        (tokens, targets): &Batch,
        count: f64,
    ) -> models::Result<Value> {
        let run = &self.plan.run;
        let input = Input::new(tokens, run.batch.rows);
        let again = run.gradient_checkpointing;
        self.network
            .learning_loss(tape, input, targets, count, again)
    }

    fn fixed_pass(
        &self,
        (tokens, targets): &Batch,
        count: f64,
    ) -> models::Result<Option<Box<dyn FixedPass>>> {
        if !self.is_recorded {
            return Ok(None);
        }
        let run = &self.plan.run;
        let input = Input::new(tokens, run.batch.rows);
        let again = run.gradient_checkpointing;
        self.network.fixed_pass(input, targets, count, again)
    }

    fn state(&self) -> Json {
        Json::Null
    }

    fn restore(&mut self, _: &Json) -> models::Result<()> {
        Ok(())
    }
}

fn generate(folder: Option<&Path>, options: &Options) -> models::Result<Json> {
    let (prompt, tokens) = (options.number("prompt", 32), options.number("tokens", 128));
    let device = options.device()?;
    let decoder = options.decoder(folder, &device, false)?;
    let avoided: Vec<String> = options.0.get("avoid").into_iter().cloned().collect();
    let narrows = options.dtype("dtype").narrows_products(device.is_cpu());
    let _chosen = models::ops::kernels::choose(&avoided, narrows)?;
    let temperature = options.0.get("temperature");
    let sampling = SamplingSettings {
        temperature: temperature.map_or(0.0, |it| it.parse().expect("a number")),
        ..SamplingSettings::default()
    };
    let mut rates = Vec::new();
    let mut written: Vec<u32> = Vec::new();
    for _ in 0..options.number("rounds", 3) + 1 {
        let mut cache = decoder.new_cache();
        let mut sampler = Sampler::new(&sampling)?;
        let mut next = text(prompt);
        written.clear();
        let mut started = Instant::now();
        for index in 0..tokens {
            let logits = decoder.next_logits(&next, &mut cache)?;
            next = vec![sampler.next(&logits, &written)?];
            written.extend(&next);
            if index == 0 {
                // The first token pays for the prompt.
                started = Instant::now();
            }
        }
        rates.push((tokens - 1) as f64 / started.elapsed().as_secs_f64());
    }
    let mut counted = rates.split_off(1);
    let prompt_millis = reading_millis(&decoder, &device, prompt)?;
    Ok(json!({
        "work": "generate", "prompt": prompt, "tokens": tokens, "tokens_per_second": median(&mut counted),
        "slowest": counted[0], "fastest": counted[counted.len() - 1], "prompt_millis": prompt_millis, "first_tokens": written[..8.min(written.len())],
    }))
}

/// The least, the median and the most that reading so many tokens takes, again and again into the same cache. A GPU records it when it
/// comes for the second time.
fn reading_millis(decoder: &Decoder, device: &Device, tokens: usize) -> models::Result<[f64; 3]> {
    const WARM_UP: usize = 3;
    const COUNTED: usize = 11;
    let tokens = text(tokens);
    let mut cache = decoder.new_cache();
    let mut millis = Vec::new();
    for _ in 0..WARM_UP + COUNTED {
        cache.truncate(0);
        let started = Instant::now();
        decoder.next_logits(&tokens, &mut cache)?;
        device.synchronize()?;
        millis.push(1e3 * started.elapsed().as_secs_f64());
    }
    let mut counted = millis.split_off(WARM_UP);
    let median = median(&mut counted);
    Ok([counted[0], median, counted[COUNTED - 1]])
}

/// A prompt of so many tokens, the same each time.
fn text(tokens: usize) -> Vec<u32> {
    (0..tokens as u32)
        .map(|token| 3 + token * 7 % 4000)
        .collect()
}

impl Options {
    fn number(&self, name: &str, default: usize) -> usize {
        self.0
            .get(name)
            .map_or(default, |value| value.parse().expect("a whole number"))
    }

    fn dtype(&self, name: &str) -> Dtype {
        match self.0.get(name).map(String::as_str) {
            Some("bf16") => Dtype::Bf16,
            Some("f16") => Dtype::F16,
            _ => Dtype::F32,
        }
    }

    fn asked_device(&self) -> &str {
        self.0.get("device").map_or("cpu", String::as_str)
    }

    fn choice(&self) -> models::Result<Choice> {
        let request = DeviceRequest {
            device: self.asked_device().parse()?,
            strict: true,
        };
        device::choose(request, &device::detect::detect())
    }

    fn device(&self) -> models::Result<Device> {
        device::open(&self.choice()?)
    }

    /// `--dtype` is what is computed in; `--storage` what weights are kept in, the same unless given.
    fn decoder(
        &self,
        folder: Option<&Path>,
        device: &Device,
        learns: bool,
    ) -> models::Result<Decoder> {
        let compute = self.dtype("dtype");
        let storage = match self.0.contains_key("storage") {
            true => self.dtype("storage"),
            false if learns => Dtype::F32,
            false => compute,
        };
        let (storage, compute) = (storage.into(), compute.kept_in(device.is_cpu()).into());
        let config = match folder {
            Some(folder) if folder.is_dir() => {
                let dtypes = LoadDtypes {
                    storage,
                    compute,
                    quantize: None,
                    most_bytes_unpacked: 0,
                };
                return load_decoder(&ModelFolder::open(folder)?, dtypes, learns, device);
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
        Decoder::new(config, &mut weights, learns, compute, device)
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
