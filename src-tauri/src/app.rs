//! The window: a second thin shell over the host.

mod first_check;
mod menu;
mod notify;
pub(crate) mod place;
mod single;
mod watch;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tauri::{AppHandle, DragDropEvent, Manager, RunEvent, WindowEvent};

use crate::{
    commands::{
        App, builder,
        home::view::News,
        settings::{paint_frame, show_theme},
    },
    host::Host,
    lock::locked,
    wire::error::{AppError, Result},
};

/// Commands that can be answered at the same time.
const COMMAND_THREADS: usize = 16;
/// Who closes the window again within this time means it.
const INSISTS: Duration = Duration::from_secs(5);

/// Opens the window and returns when the app ends. The run that is running is saved first.
///
/// A window that is open already is shown instead.
pub(crate) fn run(home: Option<&Path>) -> Result<()> {
    let (host, warnings) = Host::open(home)?;
    let paths = host.paths.clone();
    let Some(_only_one) = single::take_or_show(&paths)? else {
        return Ok(());
    };
    run_on_many_threads();
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
            handle.state::<App>().send(News::Chosen { page });
        })
        .invoke_handler(commands.invoke_handler())
        .setup(move |app| {
            show_theme(app.handle(), theme);
            if let Some(window) = app.get_webview_window("main") {
                place::restore(&window, &paths.window);
                let _ = window.show();
            }
            watch::start(app.handle().clone());
            watch::tell_downloads(app.handle().clone());
            first_check::start(app.handle().clone());
            Ok(())
        })
        .build(context);
    let app =
        app.map_err(|error| AppError::failed(format!("could not open the window: {error}")))?;
    app.run(heed);
    Ok(())
}

/// Does what follows from something that happened to the app or to one of its windows.
fn heed(handle: &AppHandle, event: RunEvent) {
    match event {
        RunEvent::WindowEvent {
            label,
            event: WindowEvent::CloseRequested { api, .. },
            ..
        } if label == "main" && closes_later(handle) => api.prevent_close(),
        // The other windows belong to this one.
        RunEvent::WindowEvent {
            label,
            event: WindowEvent::Destroyed,
            ..
        } if label == "main" => handle.exit(0),
        RunEvent::WindowEvent {
            label,
            event: WindowEvent::ThemeChanged(_),
            ..
        } => {
            let _ = handle
                .get_webview_window(&label)
                .map(|window| paint_frame(&window));
        }
        RunEvent::WindowEvent {
            event: WindowEvent::DragDrop(event),
            ..
        } => tell_of_files(handle, &event),
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => watch::show(handle),
        RunEvent::ExitRequested { .. } => remember_place(handle),
        RunEvent::Exit => {
            let app = handle.state::<App>();
            app.stop_benchmark();
            app.downloads.close();
            app.queue.close();
        }
        _ => {}
    }
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

/// Whether the window stays, because the user is asked what happens to the run that is running.
fn closes_later(handle: &AppHandle) -> bool {
    remember_place(handle);
    let app = handle.state::<App>();
    // Who was asked and answered is not asked again. Nor is who insists: the page may be dead.
    let before = locked(&app.asked).replace(Instant::now());
    let insists = before.is_some_and(|before| before.elapsed() < INSISTS);
    let asks = app.queue.going().is_some() && locked(&app.leaving).is_none() && !insists;
    asks && app.send(News::QuitAsked)
}

fn remember_place(handle: &AppHandle) {
    if let Some(window) = handle.get_webview_window("main") {
        place::remember(&window, &handle.state::<App>().host.paths.window);
    }
}

/// Gives commands more threads than the machine has cores: most of them wait, for an engine, a file or a dialog, and one
/// that ends an answer must not wait behind the answer.
fn run_on_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(COMMAND_THREADS)
        .enable_all()
        .build();
    // Without them, the window still works on as many as there are cores.
    if let Ok(runtime) = runtime {
        tauri::async_runtime::set(runtime.handle().clone());
        // It lives as long as the process.
        std::mem::forget(runtime);
    }
}

fn tell_of_files(handle: &AppHandle, event: &DragDropEvent) {
    let app = handle.state::<App>();
    match event {
        DragDropEvent::Enter { .. } => app.send(News::Hovered { over: true }),
        DragDropEvent::Leave => app.send(News::Hovered { over: false }),
        DragDropEvent::Drop { paths, .. } => {
            let paths = paths.iter().map(|path| path.display().to_string());
            app.send(News::Dropped {
                paths: paths.collect(),
            })
        }
        _ => false,
    };
}
