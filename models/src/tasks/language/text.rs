//! The data of a language run: opened and counted before there is a plan, turned into batches after.

use std::path::Path;

use super::{
    LanguagePlan,
    plan::{DataFacts, TextDataPlan},
};
use crate::{
    Result,
    arch::config::limits::MAX_VOCABULARY,
    data::{
        self, DataRequest, Dataset,
        encode::{Encoded, Learn, encode, encode_stream},
        loader::{BatchSettings, Batches},
        marks::Marks,
        outline::Outline,
        pack::Packing,
        row::{Example, Problem, Role, Row},
        split::split,
        summary::LengthSummary,
        template::ChatTemplate,
        tokenizer::Tokenizer,
    },
    figures::counted,
    train::plan::TrainPlan,
};

/// How many held-out rows a run writes from when its plan names no prompt.
const HELD_OUT_PROMPTS: usize = 2;
/// How much of a held-out text such a prompt shows, in characters.
const PROMPT_CHARACTERS: usize = 80;

/// Where the tokenizer of a run comes from.
#[derive(Debug, Clone, Copy)]
pub enum TokenizerFrom<'a> {
    /// A folder that has one.
    Folder(&'a Path),
    /// Trained on the data, with at most so many tokens.
    Data {
        /// The most tokens.
        vocab_size: usize,
        /// Those for the turns of a conversation.
        marks: Marks,
    },
}

/// Data, read and split, with the tokenizer that goes with it.
pub struct Text {
    /// The files and what was found in them. Its rows are in `train` and `held_out`.
    pub dataset: Dataset,
    /// Rows to learn from.
    pub train: Vec<Row>,
    /// Rows kept aside.
    pub held_out: Vec<Row>,
    /// Text to tokens.
    pub tokenizer: Tokenizer,
    /// Conversations to text.
    pub template: ChatTemplate,
    /// Whether rows are conversations.
    pub chats: bool,
}

impl Text {
    /// Reads the data and splits it; rows that can't be read are an error unless the request skips them.
    pub fn open(
        request: &DataRequest,
        held_out: f64,
        tokenizer: TokenizerFrom,
        seed: u64,
    ) -> Result<Self> {
        let dataset = data::open(request)?;
        dataset.check_problems(request.skip_bad_rows)?;
        Self::of(dataset, held_out, tokenizer, seed)
    }

    /// Splits data that is already read.
    pub fn of(
        mut dataset: Dataset,
        held_out: f64,
        tokenizer: TokenizerFrom,
        seed: u64,
    ) -> Result<Self> {
        let chats = dataset
            .rows
            .iter()
            .any(|row| matches!(row.example, Example::Chat(_)));
        let split = split(&mut dataset, held_out, seed)?;
        dataset.rows = split.train;
        let tokenizer = match tokenizer {
            TokenizerFrom::Folder(folder) => Tokenizer::load(folder)?,
            // Held-out text takes no part in the tokenizer either.
            TokenizerFrom::Data { vocab_size, marks } => {
                // The plan refuses more, after this; room is made for all of them first.
                Tokenizer::train_with(dataset.texts(), vocab_size.min(MAX_VOCABULARY), marks)?
            }
        };
        let template = ChatTemplate::of(&tokenizer)?;
        let train = std::mem::take(&mut dataset.rows);
        Ok(Self {
            dataset,
            train,
            held_out: split.held_out,
            tokenizer,
            template,
            chats,
        })
    }

    /// What a plan has to know.
    pub fn facts(&self) -> Result<DataFacts> {
        let summary = self.summary()?;
        let at = |percent| summary.percentiles.iter().find(|it| it.percent == percent);
        let reasons = self.dataset.files.iter().map(|file| file.reason.as_str());
        let mut read_as: Vec<&str> = reasons.collect();
        read_as.dedup();
        Ok(DataFacts {
            read_as: read_as.join("; "),
            chat: self.chats,
            rows: self.train.len(),
            held_out_rows: self.held_out.len(),
            tokens: summary.tokens,
            length_95: at(95).map_or(summary.longest, |it| it.tokens),
            length_longest: summary.longest,
            longer: summary.longer,
        })
    }

    /// Lengths of the rows to learn from, in tokens.
    fn summary(&self) -> Result<LengthSummary> {
        if self.dataset.is_stream {
            let stream = encode_stream(&self.train, &self.tokenizer)?;
            return Ok(LengthSummary::of_stream(
                self.train.len(),
                stream.tokens.len(),
            ));
        }
        let encoded = self.encode(&self.train, Learn::default(), usize::MAX);
        Ok(LengthSummary::new(&encoded.rows))
    }

    /// Rows as tokens, with what can't be learned from them.
    pub fn encode(&self, rows: &[Row], learn: Learn, max_length: usize) -> Encoded {
        encode(
            &self.dataset,
            rows,
            &self.tokenizer,
            &self.template,
            learn,
            max_length,
        )
    }

    /// Batches to learn from.
    pub(super) fn batches(&self, plan: &TrainPlan<LanguagePlan>) -> Result<Batches> {
        let settings = self.batch_settings(plan);
        match self.dataset.is_stream {
            true => Batches::of_stream(encode_stream(&self.train, &self.tokenizer)?, settings),
            false => Batches::of_rows(self.usable(&self.train, plan)?.rows, settings),
        }
    }

    /// Batches to measure with, and characters per target where all text is learned; none when there is too little text.
    pub(super) fn held_out_batches(
        &self,
        plan: &TrainPlan<LanguagePlan>,
    ) -> Result<Option<(Batches, Option<f64>)>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let settings = self.batch_settings(plan);
        if !self.dataset.is_stream {
            let rows = self.usable(&self.held_out, plan)?.rows;
            let batches = (!rows.is_empty()).then(|| Batches::of_rows(rows, settings));
            return Ok(batches.transpose()?.map(|batches| (batches, None)));
        }
        let stream = encode_stream(&self.held_out, &self.tokenizer)?;
        let tokens = stream.tokens.len();
        if tokens < 2 {
            return Ok(None);
        }
        let targets = tokens.saturating_sub(stream.starts.len()).max(1);
        let characters = stream.characters as f64 / targets as f64;
        Ok(Some((
            Batches::of_stream(stream, settings)?,
            Some(characters),
        )))
    }

    fn batch_settings(&self, plan: &TrainPlan<LanguagePlan>) -> BatchSettings {
        BatchSettings {
            row_length: plan.run.batch.length,
            packing: match plan.task.data.packing {
                true => Packing::Packed,
                false => Packing::Padded,
            },
            rows_per_batch: plan.run.batch.rows,
            rows_per_step: plan.run.batch.rows * plan.run.batch.accumulate,
            pad: self.tokenizer.special.pad,
            seed: plan.run.seed,
        }
    }

    /// Rows as tokens, cut as the plan says. Those that the template refuses are an error unless the plan skips them;
    /// those that are cut before anything is learned are left out.
    fn usable(&self, rows: &[Row], plan: &TrainPlan<LanguagePlan>) -> Result<Encoded> {
        let TextDataPlan {
            max_length,
            learn,
            skip_bad_rows,
            ..
        } = plan.task.data;
        let encoded = self.encode(rows, learn, max_length.min(plan.run.batch.length));
        refuse(rows, &encoded.problems, skip_bad_rows)?;
        Ok(encoded)
    }

    /// The rows to learn from and those kept aside, for [`Self::warnings`]. A stream has no rows to be cut.
    pub fn outlines(&self, learn: Learn) -> [Outline; 2] {
        let outline = |rows| Outline::new(rows, &self.tokenizer, &self.template, learn);
        match self.dataset.is_stream {
            true => Default::default(),
            false => [outline(&self.train), outline(&self.held_out)],
        }
    }

    /// What a person should know of the rows that are not learned from.
    pub fn warnings(
        &self,
        plan: &TrainPlan<LanguagePlan>,
        outlines: &[Outline; 2],
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let [train, held_out] = outlines;
        for (outline, rows, what) in [
            (train, &self.train, "to learn from"),
            (held_out, &self.held_out, "kept aside"),
        ] {
            let length = plan.task.data.max_length.min(plan.run.batch.length);
            let found = outline.left_out(&self.dataset, rows, length);
            refuse(rows, &found.problems, plan.task.data.skip_bad_rows)?;
            let left_out = [
                (
                    &found.cut_away,
                    format!(
                        "left out, since nothing of their first {length} tokens is to be learned"
                    ),
                ),
                (&found.problems, "skipped".to_owned()),
            ];
            for (problems, why) in left_out {
                if let Some(first) = problems.first() {
                    let (count, all) = (problems.len(), rows.len());
                    let are = if count == 1 { "is" } else { "are" };
                    let rows = counted(all as u64, "row");
                    warnings.push(format!(
                        "{count} of {rows} {what} {are} {why}; the first: {first}"
                    ));
                }
            }
        }
        Ok(warnings)
    }

    /// Prompts from held-out rows, with their tokens: what a user said, or how a text begins.
    ///
    /// Rows that give none are passed over: a conversation that the assistant begins, one that the template refuses, and
    /// what leaves no room in `context` for an answer.
    pub(super) fn held_out_prompts(&self, context: usize) -> Vec<(String, Vec<u32>)> {
        let prompt = |row: &Row| match &row.example {
            Example::Text(text) => Some(text.chars().take(PROMPT_CHARACTERS).collect()),
            Example::Chat(messages) => {
                let answered = messages
                    .iter()
                    .position(|message| message.role == Role::Assistant);
                let asked = &messages[..answered.unwrap_or(messages.len())];
                let asked = Some(asked).filter(|asked| !asked.is_empty())?;
                self.template.prompt(asked).ok()
            }
        };
        let with_tokens = |text: String| {
            let tokens = self.tokenizer.encode(&text, !self.chats).ok()?;
            (!tokens.is_empty() && tokens.len() < context).then_some((text, tokens))
        };
        let prompts = self
            .held_out
            .iter()
            .filter_map(prompt)
            .filter_map(with_tokens);
        prompts.take(HELD_OUT_PROMPTS).collect()
    }
}

/// An error for rows that the template refuses, unless they may be skipped and some are left.
fn refuse(rows: &[Row], problems: &[Problem], skip_bad_rows: bool) -> Result<()> {
    match problems {
        [] => Ok(()),
        some => data::check_problems(rows.len(), some, skip_bad_rows),
    }
}
