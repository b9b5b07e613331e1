//! How many held-out questions a model answers exactly as they are answered there.

use std::ops::ControlFlow;

use super::{model::LanguageModel, text::Text};
use crate::{
    Result,
    data::row::{Example, Role, Row},
    generate::{Generator, sample::SamplingSettings},
    train::task::{Measuring, Metric},
};

/// How many questions are asked at most.
const QUESTIONS: usize = 10;
/// The longest answer that is expected word for word, in tokens.
const LONGEST: usize = 64;

/// A held-out question with its answer.
#[derive(Debug)]
pub(super) struct Question {
    tokens: Vec<u32>,
    answer: String,
}

impl Text {
    /// Held-out questions with short answers, which leave room for them in `context`.
    pub(super) fn questions(&self, context: usize) -> Vec<Question> {
        let question = |row: &Row| {
            let Example::Chat(messages) = &row.example else {
                return None;
            };
            let at = messages.iter().position(|it| it.role == Role::Assistant)?;
            let asked = Some(&messages[..at]).filter(|asked| !asked.is_empty())?;
            let answer = messages[at].content.trim().to_owned();
            let count = |text: &str| self.tokenizer.encode(text, false).ok();
            let expected = count(&answer)?.len();
            let tokens = count(&self.template.prompt(asked).ok()?)?;
            let fits = (1..=LONGEST).contains(&expected) && tokens.len() + LONGEST < context;
            fits.then_some(Question { tokens, answer })
        };
        let questions = self.held_out.iter().filter_map(question);
        questions.take(QUESTIONS).collect()
    }
}

/// The share of questions that the model, always taking the likeliest token, answers exactly as expected.
pub(super) fn right_answers(
    model: &LanguageModel,
    questions: &[Question],
    measuring: &mut Measuring,
) -> Result<Option<Metric>> {
    let mut right = 0;
    for (index, question) in questions.iter().enumerate() {
        if measuring.takes(index)? {
            right += usize::from(is_right(model, question)?);
        }
    }
    let right: f64 = measuring.of_all(vec![right as f64])?.iter().sum();
    Ok((!questions.is_empty()).then(|| Metric {
        name: "right_answers".to_owned(),
        label: "right answers".to_owned(),
        value: right / questions.len() as f64,
        higher_is_better: true,
        of: Some(questions.len()),
    }))
}

fn is_right(model: &LanguageModel, Question { tokens, answer }: &Question) -> Result<bool> {
    let mut generator = Generator::new(model.network.clone());
    let mut written = String::new();
    // Nobody has to wait for the rest of an answer that is wrong already.
    let mut go_on = |piece: &str| {
        written += piece;
        match answer.starts_with(written.trim()) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let limits = model.limits(LONGEST);
    let settings = SamplingSettings::greedy();
    let said = generator.write(&model.tokenizer, tokens, &settings, &limits, &mut go_on)?;
    Ok(said.text.trim() == answer)
}
