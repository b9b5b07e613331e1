//! The window: a second thin shell over the host.

use std::path::Path;

use tauri::Manager;

use crate::{
    commands::{App, builder},
    host::Host,
    wire::error::{AppError, Result},
};

/// Opens the window and returns when it is closed. The run that goes on is saved first.
pub(crate) fn run(home: Option<&Path>) -> Result<()> {
    let (host, warnings) = Host::open(home)?;
    let commands = builder();
    // The macro ends the program when its own thread can't be started; nothing is open then.
    #[allow(clippy::disallowed_methods)]
    let context = tauri::generate_context!();
    let app = tauri::Builder::default()
        .manage(App::new(host, warnings))
        .invoke_handler(commands.invoke_handler())
        .build(context);
    let app =
        app.map_err(|error| AppError::failed(format!("could not open the window: {error}")))?;
    app.run(|app, event| {
        if let tauri::RunEvent::Exit = event {
            app.state::<App>().queue.close();
        }
    });
    Ok(())
}
