//! Hidden states of labelled text, for all sites in one pass over the model.
//!
//! Texts are packed without padding, in their order: a pass reads as many as fit, and no text sees another. Which texts share a
//! pass follows from the plan alone, so a capture that was stopped anywhere gives the same bytes when it continues. The head is
//! not computed, nor what stands after the last site that is wanted. Deliberately absent: which states of a pass are kept, which is
//! `pass_states`.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    path::Path,
    sync::mpsc::{self, SyncSender},
    thread,
    time::Instant,
};

use candle_core::{DType, Device};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    capture_prompt::{PromptRequest, Prompted, Prompter},
    labelled::{self, Labelled, LabelledRequest, LabelledText},
    pass_states::{stacked_states_of, states_of},
    states::{About, NUMBERING, Position, SourceFile, StateRow, StatesDtype, VERSION},
    states_identity::identities,
    states_writer::{StatesOfPass, StatesWriter},
};
use crate::{
    Error, Result,
    arch::{decoder::Decoder, sites::Site},
    checkpoint::{load::LoadDtypes, save::name_of},
    data::{check_problems, row::Problem},
    ops::kernels,
    tasks::language::model::LanguageModel,
};

/// How many tokens a pass reads: enough for the device, and not more than its memory.
const TOKENS_CPU: usize = 2048;
/// Scores of attention are made for all pairs of a pass there.
const TOKENS_METAL: usize = 1024;
const TOKENS_CUDA: usize = 16384;
/// How many tokens the speed of a processor is measured with before the start. A GPU is as fast as it is only with a whole pass.
const TRIED_TOKENS_CPU: usize = 512;
/// Of how many texts, and of how many tokens, states are read to see how long learning from all of them takes.
const TRIED_TEXTS: usize = 256;
const TRIED_TOKENS: usize = 4_096;
/// How many rows that are left out are named.
const LEFT_OUT_NAMED: usize = 1000;

/// What to capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// The labelled data.
    pub data: LabelledRequest,
    /// How texts are shown to the model.
    pub prompt: PromptRequest,
    /// Which states are kept of a text.
    pub position: Position,
    /// Which sites. None are all.
    pub sites: Vec<Site>,
    /// Continue without the rows that can't be used. Without it, one such row is an error.
    pub skip_bad_rows: bool,
    /// How many tokens a pass reads. Without it, what suits the device.
    pub tokens_at_once: Option<usize>,
}

/// What a capture will do, for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapturePlan {
    /// What the states will be of.
    pub about: About,
    /// How each file was read.
    pub read_as: Vec<String>,
    /// How many rows have each label.
    pub label_counts: BTreeMap<String, usize>,
    /// How many rows have no label.
    pub without_label: usize,
    /// How many groups there are; none without a column of groups.
    pub groups: Option<usize>,
    /// How many rows can't be used.
    pub left_out: usize,
    /// Tokens of all texts.
    pub tokens: usize,
    /// Tokens of the longest.
    pub longest: usize,
    /// Bytes of the states.
    pub bytes: u64,
    /// The first text as the model reads it, token by token.
    pub pieces: Vec<String>,
    /// Which of these are kept or averaged.
    pub picked: Vec<u32>,
    /// Tokens a second, as measured before the start.
    pub tokens_per_second: f64,
}

/// How far a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CaptureProgress {
    /// Texts whose states are there.
    pub rows: usize,
    /// Tokens of these.
    pub tokens: usize,
    /// Tokens a second since the start of this process.
    pub tokens_per_second: f64,
    /// Texts a second since then.
    pub rows_per_second: f64,
}

/// A capture that is ready to start.
pub struct Capture {
    plan: CapturePlan,
    rows: Vec<StateRow>,
    prompted: Vec<Prompted>,
}

impl Capture {
    /// Reads the data, tokenizes it, and measures how fast the model reads it. `folder` is that of the model; `written_by` names
    /// the program.
    ///
    /// Errors: those of the data and of the model's files; [`Error::Data`] for rows that can't be used, unless they may be
    /// skipped; [`Error::Setting`] for a position or a pattern that can't be.
    pub fn plan(
        model: &LanguageModel,
        dtypes: LoadDtypes,
        folder: &Path,
        request: &CaptureRequest,
        written_by: &str,
    ) -> Result<Self> {
        let mut request = request.clone();
        // Answers stand in turns.
        request.prompt.chat |= request.position == Position::Answer;
        let labelled = labelled::read(&request.data)?;
        let rule = request.prompt.rule(&model.template)?;
        let prompter = Prompter::new(model, &rule, request.position)?;
        let (texts, prompted, problems) = shown(&labelled, &prompter);
        let all = texts.len() + problems.len();
        check_problems(all, &problems, request.skip_bad_rows)?;
        let pieces = prompter.pieces(&prompted[0])?;
        let rows: Vec<StateRow> = texts
            .iter()
            .zip(&prompted)
            .map(|(text, prompted)| row(text, prompted, request.position, &prompter))
            .collect::<Result<_>>()?;
        let (identity, adapter) = identities(folder)?;
        let named = problems.iter().take(LEFT_OUT_NAMED);
        let (name, dtype) = dtypes_of(dtypes.compute, request.position);
        let decoder = decoder_of(model)?;
        let files = labelled.files.iter().map(|file| SourceFile::of(file));
        let about = About {
            version: VERSION,
            written_by: written_by.to_owned(),
            model: identity,
            adapter,
            compute_dtype: name.to_owned(),
            position: request.position,
            numbering: NUMBERING.to_owned(),
            sites: sites(decoder, &request.sites)?,
            dtype,
            width: decoder.config().hidden_size * request.position.widths(),
            blocks: decoder.config().layers.len(),
            rows: rows.len(),
            vectors: rows.iter().map(|row| row.vectors).sum(),
            rows_sha256: String::new(),
            sources: files.collect::<Result<_>>()?,
            labels: label_names(&rows),
            tokens_at_once: request
                .tokens_at_once
                .unwrap_or(tokens_at_once(decoder.device()))
                .max(1),
            left_out: named
                .map(|it| format!("{}: {it}", name_of(&it.path)))
                .collect(),
            prompt: rule.clone(),
        };
        let plan = CapturePlan {
            read_as: labelled.read_as,
            left_out: problems.len(),
            pieces,
            tokens_per_second: speed(decoder, &prompted, &about)?,
            ..CapturePlan::of(about, &rows, &prompted)
        };
        Ok(Self {
            plan,
            rows,
            prompted,
        })
    }

    /// The texts that will be read.
    pub(super) fn rows(&self) -> &[StateRow] {
        &self.rows
    }

    /// States of some of the texts at a site, those of one short pass: [m, width].
    pub(super) fn some_states(&self, model: &LanguageModel, site: Site) -> Result<Vec<f32>> {
        let decoder = decoder_of(model)?;
        let every = self.prompted.len().div_ceil(TRIED_TEXTS).max(1);
        let some: Vec<Prompted> = self.prompted.iter().step_by(every).cloned().collect();
        let Some(pass) = passes(decoder, &some, TRIED_TOKENS).into_iter().next() else {
            return Ok(Vec::new());
        };
        let states = states_of(decoder, &some[pass], self.plan.about.position, &[site])?;
        Ok(states.concat())
    }

    /// What will be done.
    pub fn planned(&self) -> &CapturePlan {
        &self.plan
    }

    /// Captures into a folder with the model that it was planned with, or continues there, until so many rows have states. `watch`
    /// hears of each pass, and can end the capture after it; what is there then is kept, and the same call continues.
    ///
    /// Returns how many rows have states. Errors: those of [`StatesWriter`] and of the device.
    pub fn run(
        &self,
        model: &LanguageModel,
        folder: &Path,
        until: usize,
        watch: &mut dyn FnMut(CaptureProgress) -> ControlFlow<()>,
    ) -> Result<usize> {
        let writer = StatesWriter::begin(folder, self.plan.about.clone(), &self.rows)?;
        let rows = writer.rows()..until;
        // The device reads the next texts while the states of the last ones are written; no more wait, since they can be large.
        thread::scope(|scope| {
            let (sender, states) = mpsc::sync_channel(0);
            let writing = scope.spawn(move || writer.append_all(states));
            let read = self.read(model, rows, &sender, watch);
            drop(sender);
            let written = writing.join();
            let panicked =
                |_| Error::Data("writing the states ended by a mistake of ours".to_owned());
            let written = written.map_err(panicked)??;
            read.map(|()| written)
        })
    }

    /// Reads rows, and hands the states of each pass on.
    fn read(
        &self,
        model: &LanguageModel,
        rows: Range<usize>,
        states: &SyncSender<StatesOfPass>,
        watch: &mut dyn FnMut(CaptureProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let about = &self.plan.about;
        let decoder = decoder_of(model)?;
        let tokens_of = |rows: Range<usize>| {
            let rows = self.prompted[rows].iter();
            rows.map(|it| it.tokens.len()).sum::<usize>()
        };
        let start = Instant::now();
        let passes = passes(decoder, &self.prompted, about.tokens_at_once);
        // What was written is cut off at the end of a pass always.
        for pass in passes.into_iter().filter(|it| rows.contains(&it.start)) {
            let texts = &self.prompted[pass.clone()];
            let stacked = stacked_states_of(decoder, texts, about.position, &about.sites)?;
            // Where they are not taken, whoever writes says why.
            let is_taken = states.send((pass.len(), stacked)).is_ok();
            let seconds = start.elapsed().as_secs_f64();
            let flow = watch(CaptureProgress {
                rows: pass.end,
                tokens: tokens_of(0..pass.end),
                tokens_per_second: tokens_of(rows.start..pass.end) as f64 / seconds,
                rows_per_second: (pass.end - rows.start) as f64 / seconds,
            });
            if !is_taken || flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The decoder of a model, whose sites are read.
pub(super) fn decoder_of(model: &LanguageModel) -> Result<&Decoder> {
    let problem = "only decoders that can be trained have states that are captured here, and this model is not one of them";
    let missing = || Error::Data(problem.to_owned());
    model.network.decoder().ok_or_else(missing)
}

impl CapturePlan {
    /// What follows from the rows. The rest is left empty.
    fn of(about: About, rows: &[StateRow], prompted: &[Prompted]) -> Self {
        let lengths = prompted.iter().map(|it| it.tokens.len());
        Self {
            bytes: about.bytes(),
            label_counts: label_counts(rows),
            without_label: rows.iter().filter(|row| row.labels.is_empty()).count(),
            groups: groups(rows),
            tokens: lengths.clone().sum(),
            longest: lengths.max().unwrap_or_default(),
            picked: prompted
                .first()
                .map(|it| it.picked.clone())
                .unwrap_or_default(),
            about,
            read_as: Vec::new(),
            left_out: 0,
            pieces: Vec::new(),
            tokens_per_second: f64::NAN,
        }
    }

    /// What the whole capture will take from its start, in seconds.
    pub fn seconds(&self) -> f64 {
        self.tokens as f64 / self.tokens_per_second
    }
}

impl Position {
    /// How many times the model's width a vector has.
    pub(super) fn widths(self) -> usize {
        match self {
            Self::MeanAndMax => 2,
            _ => 1,
        }
    }

    /// Whether states are kept as they are, so that no digits are made that the model has not.
    fn keeps_states(self) -> bool {
        matches!(self, Self::Last | Self::Max | Self::Tokens)
    }
}

/// Which rows each pass reads: as many as fit, and at least one. Long texts that turn by other angles stand apart.
pub(super) fn passes(decoder: &Decoder, prompted: &[Prompted], most: usize) -> Vec<Range<usize>> {
    let mut passes: Vec<Range<usize>> = Vec::new();
    let mut tokens = 0;
    for (at, row) in prompted.iter().enumerate() {
        let length = row.tokens.len();
        let is_long = |at: usize| decoder.is_long(prompted[at].tokens.len());
        match passes.last_mut() {
            Some(pass) if tokens + length <= most && is_long(pass.start) == is_long(at) => {
                pass.end = at + 1;
                tokens += length;
            }
            _ => {
                passes.push(at..at + 1);
                tokens = length;
            }
        }
    }
    passes
}

/// The rows as tokens, and those that can't be, with the problems of the data before them.
pub(super) fn shown<'a>(
    labelled: &'a Labelled,
    prompter: &Prompter,
) -> (Vec<&'a LabelledText>, Vec<Prompted>, Vec<Problem>) {
    let each = labelled.rows.par_iter().map(|row| prompter.prompted(row));
    let each: Vec<_> = each.collect();
    let mut problems = labelled.problems.clone();
    let (mut texts, mut prompted) = (Vec::new(), Vec::new());
    for (row, shown) in labelled.rows.iter().zip(each) {
        match shown {
            Ok(shown) => {
                texts.push(row);
                prompted.push(shown);
            }
            Err(reason) => problems.push(Problem {
                path: labelled.files[row.file].clone(),
                line: row.line,
                field: None,
                reason,
                details: None,
            }),
        }
    }
    (texts, prompted, problems)
}

fn row(
    text: &LabelledText,
    prompted: &Prompted,
    position: Position,
    prompter: &Prompter,
) -> Result<StateRow> {
    let read = prompted
        .picked
        .last()
        .map(|at| prompted.tokens[*at as usize]);
    Ok(StateRow {
        id: text.id.clone(),
        text: text.text.clone(),
        labels: text.labels.clone(),
        group: text.group.clone(),
        part: text.part.clone(),
        tokens: prompted.tokens.len(),
        vectors: match position {
            Position::Tokens => prompted.picked.len(),
            _ => 1,
        },
        token_read: match position {
            Position::Last => prompter.piece(read.unwrap_or_default())?,
            _ => String::new(),
        },
    })
}

/// The sites that were asked for, in the order in which a pass reaches them, each once. Without any, all.
fn sites(decoder: &Decoder, asked: &[Site]) -> Result<Vec<Site>> {
    let all = decoder.sites();
    if let Some(site) = asked.iter().find(|site| !all.contains(site)) {
        let blocks = decoder.config().layers.len();
        let problem = format!(
            "has `{site}`, and the model has the blocks 0 to {}",
            blocks - 1
        );
        return Err(Error::setting("sites", problem));
    }
    Ok(match asked {
        [] => all,
        asked => all
            .into_iter()
            .filter(|site| asked.contains(site))
            .collect(),
    })
}

/// What the model computes in, and what states of a position are stored in: f32, unless bf16 has all the digits there are.
fn dtypes_of(compute: DType, position: Position) -> (&'static str, StatesDtype) {
    // On a processor the tensors don’t say what products round to.
    let name = match kernels::narrowed() {
        Some(_) => DType::BF16.as_str(),
        None => compute.as_str(),
    };
    match compute {
        DType::BF16 if position.keeps_states() => (name, StatesDtype::Bf16),
        _ => (name, StatesDtype::F32),
    }
}

pub(super) fn tokens_at_once(device: &Device) -> usize {
    match device {
        Device::Cpu => TOKENS_CPU,
        Device::Metal(_) => TOKENS_METAL,
        Device::Cuda(_) => TOKENS_CUDA,
    }
}

/// Tokens a second of one pass, after one that is not counted.
fn speed(decoder: &Decoder, prompted: &[Prompted], about: &About) -> Result<f64> {
    let most = match decoder.device() {
        Device::Cpu => about.tokens_at_once.min(TRIED_TOKENS_CPU),
        _ => about.tokens_at_once,
    };
    let Some(pass) = passes(decoder, prompted, most).into_iter().next() else {
        return Ok(f64::NAN);
    };
    let rows = &prompted[pass];
    states_of(decoder, rows, about.position, &about.sites)?;
    let start = Instant::now();
    states_of(decoder, rows, about.position, &about.sites)?;
    let tokens: usize = rows.iter().map(|it| it.tokens.len()).sum();
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

fn label_names(rows: &[StateRow]) -> Vec<String> {
    label_counts(rows).into_keys().collect()
}

fn label_counts(rows: &[StateRow]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for label in rows.iter().flat_map(|row| &row.labels) {
        *counts.entry(label.clone()).or_default() += 1;
    }
    counts
}

fn groups(rows: &[StateRow]) -> Option<usize> {
    let mut groups: Vec<&String> = rows.iter().filter_map(|row| row.group.as_ref()).collect();
    groups.sort_unstable();
    groups.dedup();
    (!groups.is_empty()).then_some(groups.len())
}
