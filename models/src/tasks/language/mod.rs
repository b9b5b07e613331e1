//! Language models: adapters, whole models, and new ones.
//!
//! - [`request`], [`plan`], [`preset`], `resolve`: what is asked, what it means, and what is chosen
//! - [`fields`]: what a run file can say about it, for a person
//! - [`footprint`], `fit`: what a run takes, and how it is made to take less
//! - [`text`]: the data opened, as facts before a plan and as batches after it
//! - [`build`]: a plan and its data become a task
//! - [`embed`]: a text as a vector
//! - [`profile`]: where an answer spends its time
//! - `examine`: how many held-out questions it answers as they are answered there
//! - [`overrides`]: the command line of the program that recursive models come from
//! - [`export`]: what was learned, for other programs
//! - [`model`]: the model a task or a chat works with, on disk and in memory

pub mod build;
pub mod embed;
mod examine;
pub mod export;
pub mod fields;
mod fit;
pub mod footprint;
pub mod kind;
pub mod model;
mod outlines;
pub mod overrides;
pub mod plan;
pub mod preset;
pub mod profile;
pub mod request;
mod resolve;
pub mod text;

use std::{ops::ControlFlow, path::Path};

use serde_json::Value as Json;

pub use kind::{Language, files_of_model};
pub use plan::{LanguageFacts, LanguagePlan};
pub use request::LanguageRequest;

use crate::{
    Error, Result,
    arch::decoder::Input,
    data::loader::{Batch, Batches},
    generate::{Generator, Limits, sample::SamplingSettings},
    parameters::Parameters,
    tape::{FixedPass, Tape, Value},
    train::{
        Measuring,
        exhibit::Exhibit,
        task::{BatchSize, Evaluation, Metric, Task},
    },
};
use examine::Question;
use model::LanguageModel;
use plan::PromptPlan;

/// Batches by which the mean size is known well enough.
const BATCHES_SEEN: usize = 32;

/// A language model that learns from batches of tokens.
pub struct LanguageTask {
    pub(super) model: LanguageModel,
    pub(super) train: Batches,
    pub(super) held_out: Option<Batches>,
    /// Characters per target of the held-out text, where all of it is learned.
    pub(super) characters_per_target: Option<f64>,
    /// What it writes while it learns.
    pub(super) sample: PromptPlan,
    /// Prompts to write from when the plan names none, with their tokens.
    pub(super) held_out_prompts: Vec<(String, Vec<u32>)>,
    /// What it is asked when all steps are done.
    questions: Vec<Question>,
    pub(super) gradient_checkpointing: bool,
    pub(super) seed: u64,
}

impl LanguageTask {
    /// What is being trained, with its tokenizer and chat template.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The sum of the losses of a batch, and its targets. Nothing is recorded.
    fn measure(&self, batch: &Batch) -> Result<(f64, usize)> {
        let targets = batch.target_tokens();
        let loss = self
            .model
            .network
            .measured_loss(input(batch), &batch.targets)?;
        Ok((loss, targets))
    }
}

impl Task for LanguageTask {
    type Batch = Batch;

    fn parameters(&self) -> &Parameters {
        self.model.network.parameters()
    }

    fn next_batch(&mut self) -> Result<Batch> {
        Ok(self.train.next_batch())
    }

    fn size(&self, batch: &Batch) -> BatchSize {
        BatchSize {
            targets: batch.target_tokens(),
            units: batch.tokens.len() - batch.padding,
        }
    }

    fn loss(&mut self, tape: &Tape, batch: &Batch, targets: f64) -> Result<Value> {
        self.model.network.learning_loss(
            tape,
            input(batch),
            &batch.targets,
            targets,
            self.gradient_checkpointing,
        )
    }

    fn fixed_pass<'a>(
        &'a self,
        batch: &'a Batch,
        targets: f64,
    ) -> Result<Option<Box<dyn FixedPass + 'a>>> {
        let again = self.gradient_checkpointing;
        let network = &self.model.network;
        network.fixed_pass(input(batch), &batch.targets, targets, again)
    }

    fn evaluate(
        &mut self,
        batches: usize,
        measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        let Some(held_out) = &self.held_out else {
            return Ok(None);
        };
        let most = if batches == 0 { usize::MAX } else { batches };
        // Of each batch, the sum of its losses and how many they are.
        let mut numbers = Vec::new();
        for (index, batch) in held_out.once().take(most).enumerate() {
            let (loss, learned) = match measuring.takes(index)? {
                true => self.measure(&batch)?,
                false => (0.0, 0),
            };
            numbers.extend([loss, learned as f64]);
        }
        let numbers = measuring.of_all(numbers)?;
        let (batches, _) = numbers.as_chunks::<2>();
        let (mut sum, mut targets) = (0.0, 0);
        for [loss, learned] in batches {
            sum += loss;
            targets += *learned as usize;
        }
        let loss = sum / targets.max(1) as f64;
        // Compares across tokenizers.
        let per_character = self.characters_per_target.map(|characters| Metric {
            name: "loss_per_character".to_owned(),
            label: "loss per character".to_owned(),
            value: loss / characters,
            higher_is_better: false,
            of: None,
        });
        Ok(Some(Evaluation {
            loss,
            metrics: per_character.into_iter().collect(),
            targets,
        }))
    }

    fn examine(&mut self, measuring: &mut Measuring) -> Result<Vec<Metric>> {
        let answers = examine::right_answers(&self.model, &self.questions, measuring)?;
        Ok(answers.into_iter().collect())
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        let asked = self
            .sample
            .prompts
            .iter()
            .map(|prompt| self.model.prompt(prompt).map(|it| (prompt.clone(), it)));
        let mut prompts = asked.collect::<Result<Vec<_>>>()?;
        if prompts.is_empty() {
            prompts = self.held_out_prompts.clone();
        }
        let sampling = SamplingSettings {
            seed: self.seed,
            ..SamplingSettings::default()
        };
        let limits = self.model.limits(self.sample.tokens);
        let write = |(prompt, tokens): (String, Vec<u32>)| {
            let mut generator = Generator::new(self.model.network.clone());
            let mut go_on = |_: &str| ControlFlow::Continue(());
            let answer = generator.write(
                &self.model.tokenizer,
                &tokens,
                &sampling,
                &limits,
                &mut go_on,
            )?;
            Ok(Exhibit::Text {
                title: prompt,
                text: answer.text,
            })
        };
        prompts.into_iter().map(write).collect()
    }

    fn state(&self) -> Json {
        serde_json::to_value(self.train.position()).unwrap_or(Json::Null)
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        let position = serde_json::from_value(state.clone()).map_err(|error| {
            Error::Data(format!(
                "the saved position in the data can’t be read: {error}"
            ))
        })?;
        self.train.resume(position)
    }

    fn save(&self, folder: &Path) -> Result<()> {
        self.model.save(folder)
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        self.model.load_trained(folder)
    }

    /// A batch of the data whose rows are filled up with themselves, so that it has as much to learn as others.
    fn full_batch(&mut self, rows: usize, length: usize) -> Result<Batch> {
        self.train.set_rows_per_batch(rows);
        let batch = self.train.next_batch();
        let width = batch.row_length.max(1);
        let filled = |numbers: &[u32], more: u32| -> Vec<u32> {
            let rows = numbers.chunks(width);
            rows.flat_map(|row| {
                let at = |at: usize| row[at % width] + more * (at / width) as u32;
                (0..length).map(at)
            })
            .collect()
        };
        // A copy is another document of its row.
        let documents = 1 + batch.documents.iter().max().copied().unwrap_or(0);
        Ok(Batch {
            tokens: filled(&batch.tokens, 0),
            targets: filled(&batch.targets, 0),
            positions: filled(&batch.positions, 0),
            documents: filled(&batch.documents, documents),
            rows,
            row_length: length,
            padding: 0,
        })
    }

    fn row_length(&mut self, rows: usize) -> (usize, f64) {
        self.train.set_rows_per_batch(rows);
        let tokens: usize = (0..BATCHES_SEEN)
            .map(|_| self.train.next_batch().tokens.len())
            .sum();
        (self.train.row_length(), tokens as f64 / BATCHES_SEEN as f64)
    }

    fn held_out_batches(&self) -> usize {
        let held_out = self.held_out.as_ref();
        held_out.map_or(0, |batches| batches.once().count())
    }
}

fn input(batch: &Batch) -> Input<'_> {
    Input {
        tokens: &batch.tokens,
        rows: batch.rows,
        positions: Some(&batch.positions),
        documents: Some(&batch.documents),
    }
}

/// Limits of an answer of at most `max_tokens`.
impl LanguageModel {
    /// When an answer ends: at so many tokens, or where a turn of the model's template ends.
    pub fn limits(&self, max_tokens: usize) -> Limits {
        let stop_tokens = if self.chats {
            self.template.stop_tokens(&self.tokenizer)
        } else {
            Vec::new()
        };
        let stop = self
            .template
            .turn_end
            .text
            .clone()
            .filter(|_| self.chats)
            .into_iter()
            .collect();
        Limits {
            max_tokens,
            stop,
            stop_tokens,
        }
    }
}
