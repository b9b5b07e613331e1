//! Chats with models, and the conversations that are kept.

use std::sync::atomic::Ordering;

use models::{checkpoint::save::replace_file, data::row::Message};
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::chat::{
        Heard,
        view::{AnswerView, ChatView, ConversationView},
    },
    lock::locked,
    store::conversations::{self, ConversationFile},
    wire::{
        chat::{ChatSettings, Prompt, ScoredToken},
        error::{AppError, Result},
    },
};

/// Opens a run or a model to chat with, in place of the one that is open at that place. One that does not fit into memory is
/// opened only with `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_chat(
    app: State<'_, App>,
    place: u32,
    name: String,
    force: bool,
) -> Result<ChatView> {
    let place = app.place(place)?;
    // An answer that is being written belongs to a page that went away.
    place.stop.store(true, Ordering::SeqCst);
    let mut open = locked(&place.model);
    // Two models at once may not fit.
    *open = None;
    let model = app.host.open_model(&name, None, force)?;
    let view = ChatView {
        answers: model.answers(),
        context: model.context(),
        sampling: ChatSettings::default(),
        warnings: model.warnings().to_vec(),
        base: app.host.base_of(&name),
    };
    *open = Some(model);
    Ok(view)
}

/// Closes the model at a place, which gives its memory back.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn close_chat(app: State<'_, App>, place: u32) -> Result<()> {
    let place = app.place(place)?;
    place.stop.store(true, Ordering::SeqCst);
    *locked(&place.model) = None;
    Ok(())
}

/// Answers a conversation, or continues a text; with `plain` as the model is also while it is led. `pieces` gets the answer as it is written, `scored` the tokens as probes score them,
/// where some do.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn answer(
    app: State<'_, App>,
    place: u32,
    messages: Vec<Message>,
    sampling: ChatSettings,
    plain: bool,
    pieces: Channel<String>,
    scored: Channel<Vec<ScoredToken>>,
) -> Result<AnswerView> {
    let place = app.place(place)?;
    let mut open = locked(&place.model);
    let model = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no model is open"))?;
    let prompt = match model.answers() {
        true => Prompt::Messages(messages),
        false => Prompt::Text(messages.into_iter().map(|it| it.content).collect()),
    };
    place.stop.store(false, Ordering::SeqCst);
    // A page that went away hears nothing; opening a model ends the answer.
    let mut show = |heard: Heard| {
        let _ = match heard {
            Heard::Piece(piece) => pieces.send(piece.to_owned()),
            Heard::Scored(tokens) => scored.send(tokens),
        };
    };
    let stop = || place.stop.load(Ordering::SeqCst);
    let said = model.answer(prompt, &sampling, plain, &mut show, &stop)?;
    Ok(said.into())
}

/// Ends the answer that is being written at a place.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_answer(app: State<'_, App>, place: u32) -> Result<()> {
    app.place(place)?.stop.store(true, Ordering::SeqCst);
    Ok(())
}

/// The conversations that have these words in them, the newest first. Without words, all.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn conversations(app: State<'_, App>, query: String) -> Result<Vec<ConversationView>> {
    let found = conversations::list(&app.host.paths.conversations, &query);
    Ok(found.into_iter().map(ConversationView::from).collect())
}

/// The conversation with this id, with all that was said.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn conversation(app: State<'_, App>, id: String) -> Result<ConversationFile> {
    conversations::read(&app.host.paths.conversations, &id)
}

/// Keeps a conversation. Returns it with its id and title.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn save_conversation(
    app: State<'_, App>,
    conversation: ConversationFile,
) -> Result<ConversationFile> {
    conversations::save(&app.host.paths.conversations, conversation)
}

/// Deletes a conversation.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn delete_conversation(app: State<'_, App>, id: String) -> Result<()> {
    conversations::delete(&app.host.paths.conversations, &id)
}

/// Writes a conversation as Markdown, to be read elsewhere.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn export_conversation(app: State<'_, App>, id: String, path: String) -> Result<()> {
    let conversation = conversations::read(&app.host.paths.conversations, &id)?;
    let path = app.picked(&path)?;
    Ok(replace_file(&path, conversation.markdown().as_bytes())?)
}
