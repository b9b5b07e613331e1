//! A model for other programs on this machine.

use models::ops::kept::CacheType;
use tauri::State;

use super::App;
use crate::{
    lock::locked,
    serve::{Served, Server, view::ServerView},
    wire::error::Result,
};

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
    key: Option<String>,
    force: bool,
) -> Result<ServerView> {
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
        cache: CacheType::default(),
        slots: Served::SLOTS,
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
