//! What Ollama makes a model from: the file beside a GGUF export that names it, and the tokens that end an answer.
//!
//! Deliberately absent: a template. Ollama takes the one that is in the GGUF file.

use std::path::Path;

use super::{Exporter, Format};
use crate::{Result, checkpoint::save::name_of};

/// How the name of the file ends.
pub const MODELFILE: &str = "Modelfile";

/// The text of the file for an export to `to`. Nothing where Ollama has no use for the format.
pub(super) fn text(exporter: &Exporter, format: Format, to: &Path) -> Result<Option<String>> {
    let file = name_of(to);
    let from = match format {
        Format::Gguf(_) => format!("FROM ./{file}\n"),
        Format::GgufAdapter => {
            let base = exporter.base();
            format!(
                "# Write in place of BASE what Ollama calls the base model, or the path of it as GGUF. It is {base}.\nFROM BASE\nADAPTER \
                 ./{file}\n"
            )
        }
        _ => return Ok(None),
    };
    let stops = exporter
        .stop_tokens()
        .into_iter()
        .map(|token| exporter.tokenizer.decode(&[token], true));
    let stops: Vec<String> = stops.collect::<Result<_>>()?;
    Ok(Some(format!(
        "# ollama create NAME -f {file}.{MODELFILE}\n{from}{}",
        lines(&stops)
    )))
}

/// A line for each text that ends an answer. One that can't stand between quotes is left out: the token ends it all the same.
fn lines(stops: &[String]) -> String {
    let can_be_quoted = |text: &&String| !text.is_empty() && !text.contains(['"', '\n', '\r']);
    let line = |text: &String| format!("PARAMETER stop \"{text}\"\n");
    stops.iter().filter(can_be_quoted).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn every_text_that_ends_an_answer_is_a_line_unless_quotes_would_break_it() {
        let stops = ["<|im_end|>", "a\"b", "", "</s>"].map(str::to_owned);
        assert_eq!(
            lines(&stops),
            "PARAMETER stop \"<|im_end|>\"\nPARAMETER stop \"</s>\"\n"
        );
    }
}
