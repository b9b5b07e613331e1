//! Conversations with models, each in a file of its own that a person can read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::wire::error::{AppError, Result};

/// A conversation of the Playground, as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationFile {
    /// The name of its file. Empty until it is first saved.
    pub(crate) id: String,
    /// What the user called it, or how it begins.
    pub(crate) title: String,
    /// The model or run that is used for chat, as `anneal chat` takes it, and how it is shown.
    pub(crate) model: String,
    pub(crate) model_title: String,
    /// What sets the scene.
    pub(crate) system: String,
    /// What was said, in order.
    pub(crate) turns: Vec<TurnFile>,
    /// When it was last saved, in UTC.
    pub(crate) changed: String,
}

/// One exchange.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnFile {
    /// What the user said.
    pub(crate) said: String,
    /// What the model answered.
    pub(crate) answer: String,
    /// What the model it came from answered, where the two were asked side by side.
    pub(crate) beside: Option<String>,
}

/// All conversations that have these words in them, the newest first. Without words, all.
pub(crate) fn list(folder: &Path, query: &str) -> Vec<ConversationFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let query = query.trim().to_lowercase();
    let mut found: Vec<ConversationFile> = entries
        .map(|entry| entry.path())
        // What is being written has another ending.
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .filter_map(|path| read_file(&path).ok())
        .filter(|conversation| query.is_empty() || conversation.holds(&query))
        .collect();
    found.sort_by(|a, b| b.changed.cmp(&a.changed).then(b.id.cmp(&a.id)));
    found
}

/// Reads one.
#[cfg(feature = "gui")]
pub(crate) fn read(folder: &Path, id: &str) -> Result<ConversationFile> {
    read_file(&path(folder, id)?)
}

/// Saves one, and returns it as it is saved: with its id, its time, and a title.
#[cfg(feature = "gui")]
pub(crate) fn save(folder: &Path, mut conversation: ConversationFile) -> Result<ConversationFile> {
    let now = jiff::Timestamp::now();
    conversation.changed = super::now();
    if conversation.id.is_empty() {
        let number =
            models::random::stable_hash(now.as_nanosecond() as u64, conversation.model.as_bytes());
        let day = now.strftime("%Y-%m-%d");
        conversation.id = format!("{day}-{:08x}", number & 0xffff_ffff);
    }
    if conversation.title.trim().is_empty() {
        let begin = conversation.turns.first().map(|turn| turn.said.as_str());
        let query: String = begin.unwrap_or("Conversation").chars().take(60).collect();
        conversation.title = query.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    super::write_json(&path(folder, &conversation.id)?, &conversation)?;
    Ok(conversation)
}

/// Deletes one.
#[cfg(feature = "gui")]
pub(crate) fn delete(folder: &Path, id: &str) -> Result<()> {
    let path = path(folder, id)?;
    fs::remove_file(&path).map_err(AppError::file("delete the conversation", &path))
}

/// Has the conversations with a run continue with it under another id and title.
pub(crate) fn rename_run(folder: &Path, from: &str, to: &str, title: &str) -> Result<()> {
    let with_it = list(folder, "").into_iter().filter(|it| it.model == from);
    for conversation in with_it {
        let renamed = ConversationFile {
            model: to.to_owned(),
            model_title: title.to_owned(),
            ..conversation
        };
        super::write_json(&path(folder, &renamed.id)?, &renamed)?;
    }
    Ok(())
}

impl ConversationFile {
    /// The whole as Markdown, to be read elsewhere.
    #[cfg(feature = "gui")]
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}\n\nWith {}\n", self.title, self.model_title);
        if !self.system.is_empty() {
            text += &format!("\n> {}\n", self.system.replace('\n', "\n> "));
        }
        for turn in &self.turns {
            text += &format!("\n**You:** {}\n\n{}\n", turn.said, turn.answer);
            if let Some(beside) = &turn.beside {
                text += &format!("\n*Before training:* {beside}\n");
            }
        }
        text
    }

    fn holds(&self, lowercase_words: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(lowercase_words);
        has(&self.title)
            || has(&self.model_title)
            || self
                .turns
                .iter()
                .any(|turn| has(&turn.said) || has(&turn.answer))
    }
}

/// The file of a conversation. An id comes from the window, so it must not lead out of the folder.
fn path(folder: &Path, id: &str) -> Result<PathBuf> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    match !id.is_empty() && id.chars().all(plain) {
        true => Ok(folder.join(format!("{id}.json"))),
        false => Err(AppError::invalid(format!(
            "there is no conversation `{id}`"
        ))),
    }
}

pub(crate) fn read_file(path: &Path) -> Result<ConversationFile> {
    let text = super::limits::JSON_FILE.read(path, "read the conversation")?;
    serde_json::from_slice(&text).map_err(|error| {
        let path = path.display();
        AppError::failed(format!("not a conversation: {error}: `{path}`"))
    })
}

#[cfg(all(test, feature = "gui"))]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_kept_found_by_its_words_and_deleted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("conversations");
        let said = |said: &str| ConversationFile {
            model: "m".to_owned(),
            turns: vec![TurnFile {
                said: said.to_owned(),
                answer: "Yes.".to_owned(),
                beside: None,
            }],
            ..ConversationFile::default()
        };
        let first = save(&folder, said("Is steel  hot?")).unwrap();
        let second = save(&folder, said("Is ice cold?")).unwrap();
        assert_eq!(first.title, "Is steel hot?");
        assert_eq!(read(&folder, &first.id).unwrap(), first);
        let found = |query| list(&folder, query).into_iter().map(|it| it.id);
        assert_eq!(found("").count(), 2);
        assert!(found("STEEL").eq([first.id.clone()]));
        delete(&folder, &first.id).unwrap();
        assert!(found("").eq([second.id]));
    }

    #[test]
    fn an_id_does_not_lead_out_of_the_folder() {
        let home = tempfile::tempdir().unwrap();
        for id in ["../settings", "", "a/b", "a.b"] {
            assert!(read(home.path(), id).is_err(), "{id}");
            assert!(delete(home.path(), id).is_err(), "{id}");
        }
    }
}
