//! The Hub: what is there, what is fetched, and what was.

use tauri::State;

use super::App;
use crate::{
    host::hub::view::{
        CachedView, DownloadView, FirstRowsView, FoundListView, HubView, RepositoryView,
        SearchView, UserView, WantedView,
    },
    hub::{download::Wanted, token::Token},
    store::hub_cache::{
        being_fetched,
        names::{RepositoryId, RepositoryKind},
    },
    wire::error::Result,
};

/// Whether the Hub can be asked, and where its files are kept. Asks nobody.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub(app: State<'_, App>) -> Result<HubView> {
    Ok(HubView::from(&*app.host.hub))
}

/// Looks for models or data.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_search(app: State<'_, App>, search: SearchView) -> Result<FoundListView> {
    let (hub, kind) = (&app.host.hub, search.kind);
    let found = hub.search(search.search())?;
    Ok(FoundListView::new(found, kind, hub.cache().ok()))
}

/// A model or data set, at a commit, branch or tag; without one, at `main`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_repository(
    app: State<'_, App>,
    kind: RepositoryKind,
    id: String,
    revision: String,
) -> Result<RepositoryView> {
    let hub = &app.host.hub;
    let repository = hub.repository(kind, &id.parse()?, &revision)?;
    let uses = app.host.uses(&repository);
    Ok(RepositoryView::new(repository, uses, hub.cache()?))
}

/// The first rows of a part of data, of which no more is fetched than they need.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_first_rows(
    app: State<'_, App>,
    id: String,
    revision: String,
    config: String,
    split: String,
) -> Result<FirstRowsView> {
    let hub = &app.host.hub;
    let repository = hub.repository(RepositoryKind::Data, &id.parse()?, &revision)?;
    Ok(hub.first_rows(&repository, &config, &split)?.into())
}

/// All downloads, in order. Changes of them are told as news.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn downloads(app: State<'_, App>) -> Result<Vec<DownloadView>> {
    let downloads = app.downloads.list().into_iter();
    Ok(downloads.map(DownloadView::from).collect())
}

/// Starts to fetch something, or has it wait. Returns its key.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn start_download(app: State<'_, App>, wanted: WantedView) -> Result<String> {
    app.downloads.start(wanted_of(&app, &wanted)?)
}

/// Has a download wait until it is resumed. What was fetched of it is kept.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn pause_download(app: State<'_, App>, key: String) -> Result<()> {
    app.downloads.pause(&key)
}

/// Has a download resume from where it is.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn resume_download(app: State<'_, App>, key: String) -> Result<()> {
    app.downloads.resume(&key)
}

/// Takes a download out of the list. Files that are whole stay; parts of files are deleted.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn cancel_download(app: State<'_, App>, key: String) -> Result<()> {
    app.downloads.cancel(&key)
}

/// What is in the shared cache, by name.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn cached(app: State<'_, App>) -> Result<Vec<CachedView>> {
    let cached = app.host.hub.cache()?.list().into_iter();
    Ok(cached.map(CachedView::from).collect())
}

/// Deletes a revision from the shared cache. Returns the bytes that are free now.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn delete_cached(
    app: State<'_, App>,
    kind: RepositoryKind,
    id: String,
    commit: String,
) -> Result<u64> {
    let id: RepositoryId = id.parse()?;
    if app.downloads.fetches(kind, &id) {
        return Err(being_fetched(&id));
    }
    app.host.hub.cache()?.repository(kind, &id).delete(&commit)
}

/// Who the token belongs to. Nobody without a token.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_user(app: State<'_, App>) -> Result<Option<UserView>> {
    Ok(app.host.hub.user()?.map(UserView::from))
}

/// Keeps a token, if the Hub knows whose it is.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_login(app: State<'_, App>, token: String) -> Result<UserView> {
    Ok(app.host.hub.login(Token::new(&token)?)?.into())
}

/// Forgets the token that was kept. One that comes from somewhere else stays there.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn hub_logout(app: State<'_, App>) -> Result<()> {
    app.host.hub.logout()
}

fn wanted_of(app: &App, asked: &WantedView) -> Result<Wanted> {
    let repository = app
        .host
        .hub
        .repository(asked.kind, &asked.id.parse()?, &asked.revision)?;
    let wanted = match asked.config.is_empty() && asked.split.is_empty() {
        true => Wanted::of(&repository, &asked.files)?,
        false => Wanted::split(&repository, &asked.config, &asked.split)?,
    };
    Ok(Wanted {
        usable: asked.files.is_empty() && app.host.uses(&repository).can_chat,
        ..wanted
    })
}
