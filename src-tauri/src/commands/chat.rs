//! Talking to a model.

use std::sync::atomic::Ordering;

use tauri::{State, ipc::Channel};

use super::{Answer, App, locked};
use crate::wire::{
    error::AppError,
    view::{AnswerView, ChatView},
};

/// Opens a run or a model to be talked to, in place of the one that is open.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_chat(app: State<'_, App>, name: String) -> Answer<ChatView> {
    let mut open = locked(&app.conversation);
    // Two models at once may not fit.
    *open = None;
    let conversation = app.host.open_chat(&name, None)?;
    let view = ChatView {
        answers: conversation.answers(),
        warnings: conversation.warnings().to_vec(),
    };
    *open = Some(conversation);
    Ok(view)
}

/// Says something to the open model. `pieces` gets the answer as it is written.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn say(
    app: State<'_, App>,
    words: String,
    pieces: Channel<String>,
) -> Answer<AnswerView> {
    let mut open = locked(&app.conversation);
    let conversation = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no model is open"))?;
    app.stop_answer.store(false, Ordering::SeqCst);
    let mut show = |piece: &str| {
        // A page that went away hears nothing; the answer is over soon.
        let _ = pieces.send(piece.to_owned());
    };
    let stop = || app.stop_answer.load(Ordering::SeqCst);
    let answer = conversation.say(&words, &mut show, &stop)?.answer;
    Ok(AnswerView {
        tokens: answer.tokens.len() as u32,
        tokens_per_second: answer.tokens_per_second(),
        text: answer.text,
    })
}

/// Ends the answer that is being written.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_answer(app: State<'_, App>) -> Answer<()> {
    app.stop_answer.store(true, Ordering::SeqCst);
    Ok(())
}
