//! Where the window was and how large: remembered in the app's own folder, so that another `--home` is another window.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tauri::{PhysicalPosition, PhysicalSize, WebviewWindow};

use crate::{
    store::{limits::JSON_FILE, write_json},
    wire::error::{AppError, Result},
};

/// A window's place, in pixels of the screen.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct WindowPlace {
    x: i32,
    y: i32,
    width: u32,
    height: u32,
    maximized: bool,
}

/// Puts the window where it was. One that would lie outside every screen keeps the place it has.
pub(super) fn restore(window: &WebviewWindow, path: &Path) {
    let Ok(place) = read(path) else {
        return;
    };
    let _ = window.set_size(PhysicalSize::new(place.width, place.height));
    let screens = window.available_monitors().unwrap_or_default();
    let is_seen = screens.iter().any(|screen| {
        let (at, size) = (screen.position(), screen.size());
        let inside = |place: i32, from: i32, length: u32| {
            place >= from && place < from + i32::try_from(length).unwrap_or(i32::MAX)
        };
        inside(place.x, at.x, size.width) && inside(place.y, at.y, size.height)
    });
    if is_seen {
        let _ = window.set_position(PhysicalPosition::new(place.x, place.y));
    }
    if place.maximized {
        let _ = window.maximize();
    }
}

/// Reads where the window was.
pub(crate) fn read(path: &Path) -> Result<WindowPlace> {
    let text = JSON_FILE.read(path, "read the window’s place")?;
    serde_json::from_slice(&text).map_err(|error| AppError::failed(error.to_string()))
}

/// Writes down where the window is. That it could not is no reason to keep it open.
pub(super) fn remember(window: &WebviewWindow, path: &Path) {
    let (Ok(at), Ok(size), Ok(maximized)) = (
        window.outer_position(),
        window.inner_size(),
        window.is_maximized(),
    ) else {
        return;
    };
    // Windows says so of a window that is minimized.
    if size.width == 0 || size.height == 0 {
        return;
    }
    let place = WindowPlace {
        x: at.x,
        y: at.y,
        width: size.width,
        height: size.height,
        maximized,
    };
    let _ = write_json(path, &place);
}
