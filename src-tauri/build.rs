//! Closes the app's commands to every window but ours.

#[cfg(feature = "gui")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::{fs, path::Path};

    // The program holds the window's pages, so they have to be there. Cargo alone does not build them.
    let pages = Path::new("../dist");
    if !pages.join("index.html").exists() {
        fs::create_dir_all(pages)?;
        let words =
            "<!doctype html><title>Anneal</title><p>The pages were not built. Run `npm start`.";
        fs::write(pages.join("index.html"), words)?;
    }
    macro_rules! commands {
        ($($module:ident: $($name:ident $(<$runtime:ident>)?),+;)+) => {
            &[$($(stringify!($name)),+),+]
        };
    }
    let manifest = tauri_build::AppManifest::new().commands(include!("src/commands/names.in"));
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))?;
    Ok(())
}

#[cfg(not(feature = "gui"))]
fn main() {}
