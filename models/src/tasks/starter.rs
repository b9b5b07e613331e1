//! The starter: a new model taught in minutes from data the program makes itself, and what it knows in the end.
//!
//! It is a run like any other: [`write_data`] makes a file, [`request`] asks for a model that learns from it, and
//! [`examine`] asks the trained model every question that was held out. Deliberately absent: the run itself.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::language::{
    LanguageRequest,
    model::LanguageModel,
    request::{Method, Preset, PromptRequest, ScratchRequest, TextDataRequest},
};
use crate::{
    Error, Result,
    checkpoint::save::replace_file,
    data::starter::{Category, Exchange, StarterData},
    generate::{Generator, sample::SamplingSettings},
    train::{
        TrainRequest,
        request::{BatchRequest, EvaluateRequest, RunRequest, SampleRequest, SaveRequest},
    },
};

/// The file of conversations to learn from.
pub const TRAIN_FILE: &str = "train.jsonl";
/// The file of questions that are held out.
pub const HELD_OUT_FILE: &str = "held-out.jsonl";

/// No answer of the starter's data has more tokens, whatever the tokenizer.
const LONGEST_ANSWER_TOKENS: usize = 64;

/// A question that was asked, and what the model said to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The question, and what is right.
    pub exchange: Exchange,
    /// What the model said.
    pub said: String,
}

/// How many questions were answered right, to the letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// Right answers.
    pub right: usize,
    /// Questions.
    pub asked: usize,
}

/// What a model said to the questions that were held out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// Every question with its answer, in the order of asking.
    pub answers: Vec<Answered>,
}

impl Answered {
    /// Whether the answer is right to the letter.
    pub fn is_right(&self) -> bool {
        self.said == self.exchange.answer
    }
}

impl Score {
    /// Right answers over questions, from 0 to 1.
    pub fn share(self) -> f64 {
        self.right as f64 / self.asked.max(1) as f64
    }

    fn add(&mut self, answered: &Answered) {
        self.asked += 1;
        self.right += usize::from(answered.is_right());
    }
}

impl Examination {
    /// All questions together.
    pub fn score(&self) -> Score {
        let mut score = Score::default();
        self.answers.iter().for_each(|it| score.add(it));
        score
    }

    /// Each category by itself.
    pub fn scores(&self) -> BTreeMap<Category, Score> {
        let mut scores: BTreeMap<Category, Score> = BTreeMap::new();
        for answered in &self.answers {
            scores
                .entry(answered.exchange.category)
                .or_default()
                .add(answered);
        }
        scores
    }

    /// The first answer of each of so many categories, right or wrong: nothing is picked for its looks.
    pub fn samples(&self, count: usize) -> Vec<&Answered> {
        let mut samples: Vec<&Answered> = Vec::new();
        for answered in &self.answers {
            let is_new = |it: &&Answered| it.exchange.category != answered.exchange.category;
            if samples.len() < count && samples.iter().all(is_new) {
                samples.push(answered);
            }
        }
        samples
    }
}

/// Writes the data into an existing folder, as JSON lines. Returns the file to learn from.
pub fn write_data(data: &StarterData, folder: &Path) -> Result<PathBuf> {
    let turn = |role: &str, words: &str| json!({ "role": role, "content": words });
    let conversation = |exchanges: &Vec<Exchange>| {
        let messages: Vec<_> = exchanges
            .iter()
            .flat_map(|it| [turn("user", &it.question), turn("assistant", &it.answer)])
            .collect();
        json!({ "messages": messages }).to_string() + "\n"
    };
    let question = |it: &Exchange| {
        json!({ "prompt": it.question, "completion": it.answer, "category": it.category })
            .to_string()
            + "\n"
    };
    let train: String = data.train.iter().map(conversation).collect();
    let held_out: String = data.held_out.iter().map(question).collect();
    replace_file(&folder.join(HELD_OUT_FILE), held_out.as_bytes())?;
    let path = folder.join(TRAIN_FILE);
    replace_file(&path, train.as_bytes())?;
    Ok(path)
}

/// What the model is asked while it learns.
const WATCHED: [&str; 2] = ["What is 7 plus 5?", "What is the capital of France?"];

/// Asks for the starter's model: the recipe that was found to learn the data in the least time on a CPU.
pub fn request(train_file: PathBuf) -> TrainRequest<LanguageRequest> {
    let task = LanguageRequest {
        method: Some(Method::Scratch),
        scratch: Some(ScratchRequest {
            preset: Some(Preset::Nano),
            ..ScratchRequest::default()
        }),
        data: TextDataRequest {
            files: vec![train_file],
            // The starter has its own questions that are held out, and every conversation is needed.
            held_out: Some(0.0),
            packing: Some(true),
            ..TextDataRequest::default()
        },
        sample: PromptRequest {
            prompts: Some(WATCHED.map(str::to_owned).to_vec()),
            tokens: Some(24),
        },
        ..LanguageRequest::default()
    };
    let run = RunRequest {
        name: Some("starter".to_owned()),
        steps: Some(3000),
        batch: BatchRequest {
            rows: Some(4),
            length: Some(256),
            accumulate: Some(1),
            ..BatchRequest::default()
        },
        learning_rate: Some(3e-3),
        evaluate: EvaluateRequest {
            every: Some(0),
            ..EvaluateRequest::default()
        },
        // Whoever watches sees it begin to speak.
        sample: SampleRequest { every: Some(250) },
        save: SaveRequest {
            every: Some(500),
            keep_last: Some(1),
            keep_every: None,
            keep_best: Some(false),
        },
        ..RunRequest::default()
    };
    TrainRequest { run, task }
}

/// Asks the model every question by itself, always taking the likeliest token.
///
/// `progress` hears how many questions are answered, and can break to leave the rest unasked.
pub fn examine(
    model: &LanguageModel,
    questions: &[Exchange],
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Examination> {
    if !model.chats {
        return Err(Error::Data(
            "a model that does not chat can’t be asked questions".to_owned(),
        ));
    }
    let limits = model.limits(LONGEST_ANSWER_TOKENS);
    let mut examination = Examination::default();
    // One writer: the beginning of every prompt is the same and is read once.
    let mut generator = Generator::new(model.network.clone());
    for exchange in questions {
        let prompt = model.prompt(&exchange.question)?;
        let mut go_on = |_: &str| ControlFlow::Continue(());
        let answer = generator.write(
            &model.tokenizer,
            &prompt,
            &SamplingSettings::greedy(),
            &limits,
            &mut go_on,
        )?;
        examination.answers.push(Answered {
            exchange: exchange.clone(),
            said: answer.text,
        });
        if progress(examination.answers.len()).is_break() {
            break;
        }
    }
    Ok(examination)
}
