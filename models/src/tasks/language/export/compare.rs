//! What was written, opened again and compared with the model that it was written from.
//!
//! Both read the same tokens. The model goes first and is put away before what was written is opened, so that no more than one of them
//! is in memory. Everything is computed by our own operations, on the CPU in f32: not by the programs that it is for.

use std::{collections::BTreeMap, path::Path};

use candle_core::{D, DType, Device, Tensor};
use serde::Serialize;

use super::{Exporter, Format, Stage, adapters};
use crate::{
    Error, Result,
    arch::{WeightRequest, Weights, decoder::Input, lora, network::Network},
    checkpoint::{
        adapter::load_adapter,
        gguf::Mix,
        load::{LoadDtypes, load_network},
    },
    data::{
        encode::{TokenRow, encode_stream, encode_text},
        tokenizer::Tokenizer,
    },
    device::memory::memory,
    figures::bytes,
    tasks::language::{
        model::LanguageModel,
        plan::LanguagePlan,
        text::{Text, TokenizerFrom},
    },
    train::plan::RunPlan,
};

/// The most scores that are kept of the model: 128 MiB.
const MAX_SCORES: usize = 1 << 25;
/// The longest row that is compared, in tokens.
const ROW_TOKENS: usize = 512;
/// The most tokens that are compared.
const MAX_TOKENS: usize = 2_048;
/// How far scores may be apart where nothing is rounded, as a share of the largest one.
const MAX_DIFFERENCE: f64 = 1e-4;

/// Texts that are compared where there are none of the run's own, and all of which have to become the same tokens.
const TEXTS: [&str; 12] = [
    "The quick brown fox jumps over the lazy dog. 1234567890 is a number, and 3.14159 is another.",
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many did she sell altogether?",
    "def area(radius):\n    return 3.14159 * radius ** 2  # of a circle\n",
    "Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller staatlichen Gewalt.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "人人生而自由，在尊严和权利上一律平等。 모든 인간은 태어날 때부터 자유로우며.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. Все люди рождаются свободными.",
    "It's what they'd've said: \"don't\" isn't 'do not'...   \t(three blanks, a tab)\r\n\r\nA paragraph.",
    "🙂 👩‍👩‍👧‍👦 🏳️‍🌈 ½ ² ﬁ ß Ⅷ — «quotes» … ‹more› 10^-3 ≤ x ≤ 10³",
    "       seven blanks first, and      six between; then none.\n\n\n\nFour lines on.",
    "http://example.org/a/b?c=d&e=f#g user@example.org C:\\Users\\me /usr/share/doc 2026-11-24T08:30:00Z",
];

/// What an export is compared on.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What it is: `held-out answers`.
    pub what: &'static str,
    rows: Vec<TokenRow>,
}

/// How what was written compares with the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it was compared on.
    pub what: &'static str,
    /// How many tokens were foretold.
    pub tokens: usize,
    /// How often the most likely next token is the same, as a share.
    pub same_next_token: f64,
    /// Mean Kullback-Leibler divergence of the next token, in nats.
    pub divergence: f64,
    /// The mean loss of the model, in nats.
    pub loss_before: f64,
    /// That of what was written.
    pub loss_after: f64,
    /// How far scores are apart at most, as a share of the largest one.
    pub apart: f64,
    /// How many texts became the same tokens: all of them. Nothing where no tokenizer was written.
    pub tokenized_alike: Option<usize>,
}

impl Sample {
    /// Held-out rows of the run that a model was trained by, where there are any.
    ///
    /// Errors: those of data that is not there any more, or is other data now.
    pub fn held_out(task: &LanguagePlan, run: &RunPlan, folder: &Path) -> Result<Option<Self>> {
        let data = &task.data;
        let tokenizer = TokenizerFrom::Folder(folder);
        let text = Text::open(&data.source(), data.held_out, tokenizer, run.seed)?;
        let length = data.max_length.min(run.batch.length).min(ROW_TOKENS);
        let (what, rows) = match text.dataset.is_stream {
            true => {
                let stream = encode_stream(&text.held_out, &text.tokenizer)?;
                (
                    "held-out text",
                    stream.tokens.chunks(length).map(all_of).collect(),
                )
            }
            false => {
                let rows = text.encode(&text.held_out, data.learn, length).rows;
                (
                    if text.chats {
                        "held-out answers"
                    } else {
                        "held-out texts"
                    },
                    rows,
                )
            }
        };
        Ok(Self::of(what, rows))
    }

    /// Texts that come with Anneal.
    pub fn texts(tokenizer: &Tokenizer) -> Result<Self> {
        let rows = TEXTS
            .iter()
            .map(|text| encode_text(text, tokenizer, ROW_TOKENS));
        let rows: Vec<TokenRow> = rows.collect::<Result<_>>()?;
        let none = || Error::Data("nothing can be written with the tokenizer".to_owned());
        Self::of("texts that come with Anneal", rows).ok_or_else(none)
    }

    /// The same with rows of at most so many tokens.
    pub(super) fn up_to(&self, tokens: usize) -> Self {
        let mut sample = self.clone();
        for row in &mut sample.rows {
            row.tokens.truncate(tokens);
            row.learned.truncate(tokens);
        }
        sample.rows.retain(|row| row.target_tokens() > 0);
        sample
    }

    fn of(what: &'static str, rows: Vec<TokenRow>) -> Option<Self> {
        let mut left = MAX_TOKENS;
        let mut chosen = Vec::new();
        for row in rows.into_iter().filter(|row| row.target_tokens() > 0) {
            left = match left.checked_sub(row.tokens.len()) {
                Some(left) => left,
                None => break,
            };
            chosen.push(row);
        }
        (!chosen.is_empty()).then_some(Self { what, rows: chosen })
    }
}

fn all_of(tokens: &[u32]) -> TokenRow {
    TokenRow {
        tokens: tokens.to_vec(),
        learned: vec![true; tokens.len()],
        full_length: tokens.len(),
    }
}

/// What the model says of the sample.
pub(super) struct Reference {
    tokenizer: Tokenizer,
    /// The largest score.
    scale: f64,
    /// Scores [n, v] of each row, and the tokens that come.
    rows: Vec<(Tensor, Vec<u32>)>,
}

impl Reference {
    /// Has the model in a folder read the sample.
    pub(super) fn of(
        folder: &Path,
        storage: DType,
        sample: &Sample,
        stage: &mut dyn FnMut(Stage) -> Result<()>,
    ) -> Result<Self> {
        let LanguageModel {
            network, tokenizer, ..
        } = LanguageModel::open(folder, kept_in(storage), &Device::Cpu)?;
        let most = (MAX_SCORES / network.vocab_size().max(1)).max(1);
        let mut reference = Self {
            tokenizer,
            scale: f64::MIN_POSITIVE,
            rows: Vec::new(),
        };
        let mut seen = 0;
        for row in &sample.rows {
            if seen + row.target_tokens() > most && seen > 0 {
                break;
            }
            let (scores, targets) = scores(&network, row)?;
            seen += targets.len();
            let largest = scores.abs()?.max_all()?.to_scalar::<f32>()?;
            reference.scale = reference.scale.max(f64::from(largest));
            reference.rows.push((scores, targets));
            stage(Stage::Read)?;
        }
        Ok(reference)
    }
}

/// Weights in their own dtype, so that a model takes no more memory than its files, and everything else in f32.
fn kept_in(storage: DType) -> LoadDtypes {
    LoadDtypes {
        storage,
        ..LoadDtypes::F32
    }
}

/// What is needed in memory besides weights: scores that are kept, and what a row of text takes.
const BESIDE_BYTES: u64 = 1 << 30;

/// An error where the larger of a model and what is written of it would not fit into memory.
pub(super) fn check_memory(exporter: &Exporter, format: Format, written_bytes: u64) -> Result<()> {
    let storage = exporter.weights.exact_dtype().size_in_bytes() as u64;
    let model = match &exporter.model.gguf {
        Some(_) => exporter.model.path.metadata().map_or(0, |it| it.len()),
        None => exporter.weights.config().parameters() * storage,
    };
    let written = match format {
        // It is widened to be compared.
        Format::MlxFourBits => 4 * exporter.weights.config().parameters(),
        _ => written_bytes,
    };
    let needed = model.max(written) + BESIDE_BYTES;
    let free = memory(&Device::Cpu)?.available_bytes;
    match needed > free {
        true => Err(Error::Data(format!(
            "comparing what is written with the model takes {} of memory, and {} are free: close other programs, or export without comparing",
            bytes(needed),
            bytes(free)
        ))),
        false => Ok(()),
    }
}

/// Scores [n, v] of every token of a row that is learned, and those tokens.
fn scores(network: &Network, row: &TokenRow) -> Result<(Tensor, Vec<u32>)> {
    let decoder = network.decoder();
    let decoder = decoder.ok_or_else(|| Error::Data("the model is no decoder".to_owned()))?;
    let before = row.tokens.len().saturating_sub(1);
    let hidden = decoder.hidden(None, Input::new(&row.tokens, 1), None, false)?;
    let places: Vec<u32> = (0..before as u32)
        .filter(|at| row.learned.get(*at as usize + 1) == Some(&true))
        .collect();
    let targets = places.iter().map(|at| row.tokens[*at as usize + 1]);
    let targets = targets.collect();
    let places = Tensor::new(places, &Device::Cpu)?;
    let hidden = hidden.tensor().flatten_to(1)?.index_select(&places, 0)?;
    Ok((decoder.logits(&hidden)?, targets))
}

fn log_softmax(scores: &Tensor) -> Result<Tensor> {
    let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?;
    let sum = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    Ok(shifted.broadcast_sub(&sum)?)
}

/// The sum of the losses of these tokens.
fn loss(chances: &Tensor, targets: &[u32]) -> Result<f64> {
    let targets = Tensor::new(targets, &Device::Cpu)?.unsqueeze(1)?;
    let chosen = chances.gather(&targets, 1)?.to_dtype(DType::F64)?;
    Ok(-chosen.sum_all()?.to_scalar::<f64>()?)
}

/// Compares what was written with the model on the same sample.
///
/// Errors: [`Error::Data`] where it computes something else, or makes other tokens of texts; those of what can't be opened.
pub(super) fn with(
    reference: &Reference,
    format: Format,
    written: &Path,
    exporter: &Exporter,
    sample: &Sample,
    stage: &mut dyn FnMut(Stage) -> Result<()>,
) -> Result<Compared> {
    let (network, tokenizer) = open(format, written, exporter)?;
    let alike = tokenizer.map(|it| alike(&reference.tokenizer, &it, sample));
    let tokenized_alike = alike.transpose()?;
    let mut compared = Compared {
        what: sample.what,
        tokens: 0,
        same_next_token: 0.0,
        divergence: 0.0,
        loss_before: 0.0,
        loss_after: 0.0,
        apart: 0.0,
        tokenized_alike,
    };
    for (row, (expected, targets)) in sample.rows.iter().zip(&reference.rows) {
        stage(Stage::Read)?;
        let before = &log_softmax(expected)?;
        let (found, _) = scores(&network, row)?;
        let apart = (&found - expected)?.abs()?.max_all()?.to_scalar::<f32>()?;
        compared.apart = match apart.is_nan() {
            true => f64::INFINITY,
            false => compared.apart.max(f64::from(apart) / reference.scale),
        };
        let after = log_softmax(&found)?;
        let divergence = (before.exp()? * (before - &after)?)?;
        compared.divergence += f64::from(divergence.sum_all()?.to_scalar::<f32>()?);
        let most_likely =
            |chances: &Tensor| -> Result<Vec<u32>> { Ok(chances.argmax(D::Minus1)?.to_vec1()?) };
        let pairs = most_likely(before)?.into_iter().zip(most_likely(&after)?);
        compared.same_next_token += pairs.filter(|(a, b)| a == b).count() as f64;
        compared.loss_before += loss(before, targets)?;
        compared.loss_after += loss(&after, targets)?;
        compared.tokens += targets.len();
    }
    let tokens = compared.tokens.max(1) as f64;
    compared.same_next_token /= tokens;
    compared.divergence /= tokens;
    compared.loss_before /= tokens;
    compared.loss_after /= tokens;
    check(format, &compared)?;
    // Rounding can leave a little less than none.
    compared.divergence = compared.divergence.max(0.0);
    Ok(compared)
}

/// An error where what was written is further from the model than its format explains.
fn check(format: Format, compared: &Compared) -> Result<()> {
    let is_exact = format.is_adapter() || format == Format::Gguf(Mix::F32);
    let most = match format {
        Format::Gguf(Mix::Q4KM | Mix::Q5KM | Mix::Q4_0) | Format::MlxFourBits => 1.0,
        Format::Gguf(Mix::Q8_0 | Mix::Q6K) => 0.1,
        _ => 0.02,
    };
    // What is no number is near nothing.
    let is_near = compared.divergence <= most
        && compared.loss_after.is_finite()
        && compared.apart.is_finite();
    if is_near && (!is_exact || compared.apart <= MAX_DIFFERENCE) {
        return Ok(());
    }
    Err(Error::Data(format!(
        "what was written computes something else than the model, so it was not kept: on {} tokens of {} scores are up to {:.1e} of the \
         largest one apart, and the next token diverges by {:.3} nats",
        compared.tokens, compared.what, compared.apart, compared.divergence
    )))
}

/// What was written, as a network, with its tokenizer where it has one that is its own.
fn open(
    format: Format,
    written: &Path,
    exporter: &Exporter,
) -> Result<(Network, Option<Tokenizer>)> {
    let device = Device::Cpu;
    let exact = exporter.weights.exact_dtype();
    let on_base = |device: &Device| {
        let dtypes = LoadDtypes {
            quantize: exporter.quantize,
            ..kept_in(exact)
        };
        load_network(&exporter.model, dtypes, false, device)
    };
    let given = match format {
        Format::Adapter => {
            let mut network = on_base(&device)?;
            load_adapter(network.decoder_mut()?, written)?;
            return Ok((network, Some(Tokenizer::load(written)?)));
        }
        Format::GgufAdapter => adapters::read_gguf(written, &exporter.weights)?,
        Format::MlxAdapter => adapters::read_mlx(written)?,
        Format::Gguf(_) | Format::Merged | Format::Mlx | Format::MlxFourBits => {
            let storage = match format {
                Format::Merged | Format::Mlx => exporter.weights.dtype(),
                Format::Gguf(Mix::F16) => DType::F16,
                Format::Gguf(Mix::Bf16) => DType::BF16,
                _ => DType::F32,
            };
            let model = LanguageModel::open(written, kept_in(storage), &device)?;
            return Ok((model.network, Some(model.tokenizer)));
        }
    };
    let mut network = on_base(&device)?;
    let (config, tensors) = given;
    lora::attach(network.decoder_mut()?, &config, &mut Given(tensors))?;
    Ok((network, None))
}

/// Tensors by name.
struct Given(BTreeMap<String, Tensor>);

impl Weights for Given {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let name = request.name;
        let found = self.0.remove(name).filter(|it| it.dims() == request.shape);
        found.ok_or_else(|| Error::Data(format!("`{name}` is not in what was written")))
    }
}

/// How many texts were tried, all of which become the same tokens.
fn alike(own: &Tokenizer, written: &Tokenizer, sample: &Sample) -> Result<usize> {
    let own_texts = sample.rows.iter().map(|row| own.decode(&row.tokens, true));
    let own_texts: Vec<String> = own_texts.collect::<Result<_>>()?;
    let texts = TEXTS
        .iter()
        .copied()
        .chain(own_texts.iter().map(String::as_str));
    let mut tried = 0;
    for text in texts {
        for special in [false, true] {
            if own.encode(text, special)? != written.encode(text, special)? {
                return Err(Error::Data(format!(
                    "what was written makes other tokens of a text, so it was not kept: `{}`",
                    text.chars().take(60).collect::<String>()
                )));
            }
        }
        tried += 1;
    }
    Ok(tried)
}
