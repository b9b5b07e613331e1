//! The window: a second thin shell over the host.

mod menu;
mod notify;
mod place;
mod single;
mod watch;

use std::path::Path;

use tauri::{AppHandle, DragDropEvent, Manager, RunEvent, WindowEvent};

use crate::{
    commands::{App, builder, locked, settings::show_theme},
    host::Host,
    wire::{
        error::{AppError, Result},
        view::News,
    },
};

/// Opens the window and returns when the app ends. The run that goes on is saved first.
///
/// A window that is open already is shown instead.
pub(crate) fn run(home: Option<&Path>) -> Result<()> {
    let (host, warnings) = Host::open(home)?;
    let paths = host.paths.clone();
    let Some(_only_one) = single::take(&paths)? else {
        return single::ask_to_show(&paths);
    };
    hide_console();
    let theme = host.settings().theme;
    let commands = builder();
    // The macro ends the program when its own thread can't be started; nothing is open then.
    #[allow(clippy::disallowed_methods)]
    let context = tauri::generate_context!();
    let app = tauri::Builder::default()
        .plugin(tauri_plugin_dialog::init())
        .manage(App::new(host, warnings))
        .menu(menu::menu)
        .on_menu_event(|handle, event| {
            let page = event.id().as_ref().to_owned();
            handle.state::<App>().tell(News::Chosen { page });
        })
        .invoke_handler(commands.invoke_handler())
        .setup(move |app| {
            show_theme(app.handle(), theme);
            if let Some(window) = app.get_webview_window("main") {
                place::restore(&window, &paths.window);
            }
            watch::start(app.handle().clone());
            Ok(())
        })
        .build(context);
    let app =
        app.map_err(|error| AppError::failed(format!("could not open the window: {error}")))?;
    app.run(|handle, event| match event {
        RunEvent::WindowEvent {
            event: WindowEvent::CloseRequested { api, .. },
            ..
        } if closes_later(handle) => api.prevent_close(),
        RunEvent::WindowEvent {
            event: WindowEvent::DragDrop(event),
            ..
        } => tell_of_files(handle, &event),
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => watch::show(handle),
        RunEvent::Exit => handle.state::<App>().queue.close(),
        _ => {}
    });
    Ok(())
}

/// Lets go of the console that Windows opens for a program that was started by a double click. One that was there before,
/// with a shell in it, stays.
#[cfg(windows)]
fn hide_console() {
    use windows_sys::Win32::System::Console::{FreeConsole, GetConsoleProcessList};
    let mut processes = [0; 2];
    // SAFETY: the list has room for as many numbers as are asked for.
    unsafe {
        if GetConsoleProcessList(processes.as_mut_ptr(), processes.len() as u32) == 1 {
            FreeConsole();
        }
    }
}

#[cfg(not(windows))]
fn hide_console() {}

/// Whether the window stays, because the user is asked what happens to the run that goes on.
fn closes_later(handle: &AppHandle) -> bool {
    let app = handle.state::<App>();
    if let Some(window) = handle.get_webview_window("main") {
        place::remember(&window, &app.host.paths.window);
    }
    // Who was asked and answered is not asked again; a page that does not hear can't ask.
    app.queue.going().is_some() && locked(&app.leaving).is_none() && app.tell(News::QuitAsked)
}

fn tell_of_files(handle: &AppHandle, event: &DragDropEvent) {
    let app = handle.state::<App>();
    match event {
        DragDropEvent::Enter { .. } => app.tell(News::Hovered { over: true }),
        DragDropEvent::Leave => app.tell(News::Hovered { over: false }),
        DragDropEvent::Drop { paths, .. } => {
            let paths = paths.iter().map(|path| path.display().to_string());
            app.tell(News::Dropped {
                paths: paths.collect(),
            })
        }
        _ => false,
    };
}
