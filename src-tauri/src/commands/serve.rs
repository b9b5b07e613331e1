//! A model for other programs on this machine.

use models::ops::kept::CacheType;
use serde::Deserialize;
use specta::Type;
use tauri::State;

use super::App;
use crate::{
    lock::locked,
    serve::{Served, Server, view::ServerView},
    wire::error::{AppError, Result},
};

/// How a model is served.
#[derive(Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServeSettings {
    /// The key that clients have to show. Without one, any is accepted.
    key: Option<String>,
    /// How keys and values of what was read are kept.
    cache: CacheType,
    /// How many requests are answered at once.
    slots: usize,
}

/// What the server does, if there is one, with the requests after one with this number.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn server(app: State<'_, App>, after: u32) -> Result<Option<ServerView>> {
    let server = locked(&app.server);
    Ok(server.as_ref().map(|it| ServerView::new(it, after)))
}

/// Serves a run or a model in place of the one that is served. One that does not fit into memory is opened only with `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn start_server(
    app: State<'_, App>,
    name: String,
    settings: ServeSettings,
    force: bool,
) -> Result<ServerView> {
    let ServeSettings { key, cache, slots } = settings;
    let slots =
        Served::checked_slots(slots).map_err(|why| AppError::invalid(why).with_field("slots"))?;
    let mut running = locked(&app.server);
    // Two models at once may not fit.
    *running = None;
    let host = app.host.clone();
    let served = Served {
        name,
        device: None,
        force,
        port: None,
        key,
        cache,
        slots,
    };
    let server = Server::start(served, &host)?;
    let view = ServerView::new(&server, 0);
    *running = Some(server);
    Ok(view)
}

/// Ends the server. Answers that are being written break off.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_server(app: State<'_, App>) -> Result<()> {
    *locked(&app.server) = None;
    Ok(())
}
