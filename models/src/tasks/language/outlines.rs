//! The shapes of the rows that are planned with, so that a form that is changed has no text made into tokens again.

use std::sync::{Arc, Mutex, PoisonError};

use super::{plan::LanguagePlan, text::Text};
use crate::{
    Result,
    data::{encode::Learn, outline::Outline},
    train::TrainPlan,
};

/// What of one text depends on no length, for each way to learn from it that was asked for.
#[derive(Default)]
pub(super) struct Outlines(Mutex<Vec<(Learn, Arc<[Outline; 2]>)>>);

impl Outlines {
    /// What a person should know of the rows of `text` that a plan does not learn from.
    pub(super) fn warnings(
        &self,
        text: &Text,
        plan: &TrainPlan<LanguagePlan>,
    ) -> Result<Vec<String>> {
        text.warnings(plan, &self.of(text, plan.task.data.learn))
    }

    fn of(&self, text: &Text, learn: Learn) -> Arc<[Outline; 2]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, outlines)) = known.iter().find(|(known, _)| *known == learn) {
            return outlines.clone();
        }
        let outlines = Arc::new(text.outlines(learn));
        known.push((learn, outlines.clone()));
        outlines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::{DataRequest, marks::Marks},
        tasks::language::text::TokenizerFrom,
    };

    #[test]
    fn rows_are_made_into_tokens_once_for_each_way_to_learn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.jsonl");
        let row = r#"{"prompt": "What is 2 and 2?", "completion": "It is 4."}"#;
        std::fs::write(&path, format!("{row}\n").repeat(20)).unwrap();
        let request = DataRequest {
            paths: vec![path],
            ..DataRequest::default()
        };
        let tokenizer = TokenizerFrom::Data {
            vocab_size: 300,
            marks: Marks::default(),
        };
        let text = Text::open(&request, 0.2, tokenizer, 1).unwrap();
        let outlines = Outlines::default();
        let first = outlines.of(&text, Learn::Assistant);
        assert!(Arc::ptr_eq(&first, &outlines.of(&text, Learn::Assistant)));
        assert_ne!(first, outlines.of(&text, Learn::All));
        assert!(Arc::ptr_eq(&first, &outlines.of(&text, Learn::Assistant)));
    }
}
