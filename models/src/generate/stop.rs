//! Stopping at a text: nothing of it is shown, and nothing that might be its beginning is shown too early.

/// Lets text through until one of the stop texts appears in it.
#[derive(Debug, Clone)]
pub struct StopTexts {
    texts: Vec<String>,
    /// Text that may be the beginning of a stop text.
    held: String,
}

/// What became of a piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passed {
    /// This much can be shown.
    On(String),
    /// A stop text appeared; this much stood before it.
    Stopped(String),
}

impl StopTexts {
    /// Stops at any of these. Empty ones are left out, since they would stop everything.
    pub fn new(texts: &[String]) -> Self {
        let texts = texts
            .iter()
            .filter(|text| !text.is_empty())
            .cloned()
            .collect();
        Self {
            texts,
            held: String::new(),
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, piece: &str) -> Passed {
        self.held.push_str(piece);
        let first = self
            .texts
            .iter()
            .filter_map(|text| self.held.find(text))
            .min();
        if let Some(at) = first {
            self.held.truncate(at);
            return Passed::Stopped(std::mem::take(&mut self.held));
        }
        let kept = self
            .texts
            .iter()
            .map(|text| overlap(&self.held, text))
            .max()
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Passed::On(std::mem::replace(&mut self.held, rest))
    }

    /// What is left when no more text comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of `held` are the beginning of `text`.
fn overlap(held: &str, text: &str) -> usize {
    let starts = text.char_indices().skip(1).map(|(at, _)| at);
    starts
        .filter(|&length| held.ends_with(&text[..length]))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stops: &[&str], pieces: &[&str], shown: &[&str], stopped: bool) {
        let stops: Vec<String> = stops.iter().map(|text| text.to_string()).collect();
        let mut texts = StopTexts::new(&stops);
        let mut seen = Vec::new();
        for piece in pieces {
            match texts.push(piece) {
                Passed::On(text) => seen.push(text),
                Passed::Stopped(text) => {
                    seen.push(text);
                    assert!(stopped, "stopped after {seen:?}");
                    assert_eq!(seen, shown);
                    return;
                }
            }
        }
        seen.push(texts.finish());
        assert!(!stopped, "did not stop: {seen:?}");
        assert_eq!(seen, shown);
    }

    #[test]
    fn text_passes_until_a_stop_text_appears() {
        check(
            &["\nUser:"],
            &["Hello", "\nUs", "er: hi"],
            &["Hello", "", ""],
            true,
        );
        check(&["END", "STOP"], &["a STOP b END"], &["a "], true);
    }

    #[test]
    fn a_beginning_that_comes_to_nothing_is_shown_after_all() {
        check(
            &["\nUser:"],
            &["Hello\nU", "n"],
            &["Hello", "\nUn", ""],
            false,
        );
        check(&["\nUser:"], &["Hello\nU"], &["Hello", "\nU"], false);
        check(&["aab"], &["aa", "aa"], &["", "aa", "aa"], false);
    }

    #[test]
    fn no_stop_text_holds_nothing_back() {
        check(&[""], &["a", "é"], &["a", "é", ""], false);
    }
}
