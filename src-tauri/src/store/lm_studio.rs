//! The folder in which LM Studio keeps models: `MAKER/NAME` with a GGUF file or what mlx-lm reads. It sees no file above these two.
//!
//! Deliberately absent: anything that LM Studio is asked. What lies there is found by it at its next start, or at once.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The name of the maker that our models have there.
const MAKER: &str = "anneal";

/// Where its models lie, if it is on this machine: under its home, which a file in the user's home points to when it was moved.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(directories::BaseDirs::new()?.home_dir())
}

fn folder_of(user: &Path) -> Option<PathBuf> {
    let moved = fs::read_to_string(user.join(".lmstudio-home-pointer")).ok();
    let moved = moved.map(|text| PathBuf::from(text.trim()));
    let homes = moved.into_iter().chain([
        user.join(".lmstudio"),
        // Of its first versions.
        user.join(".cache/lm-studio"),
    ]);
    let mut folders = homes.map(|home| home.join("models"));
    folders.find(|folder| folder.is_absolute() && folder.is_dir())
}

/// Where in its folder something lies: `name` is that of the file, or of the folder where it is one.
pub(crate) fn place(folder: &Path, called: &str, name: &Path, is_file: bool) -> PathBuf {
    let maker = folder.join(MAKER);
    match is_file {
        true => maker.join(called).join(name),
        false => maker.join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_folder_is_found_also_where_it_was_moved() {
        let user = tempfile::tempdir().unwrap();
        let user = user.path();
        assert_eq!(folder_of(user), None);
        let old = user.join(".cache/lm-studio/models");
        fs::create_dir_all(&old).unwrap();
        assert_eq!(folder_of(user), Some(old));
        let usual = user.join(".lmstudio/models");
        fs::create_dir_all(&usual).unwrap();
        assert_eq!(folder_of(user), Some(usual.clone()));
        let moved = user.join("elsewhere");
        let pointer = user.join(".lmstudio-home-pointer");
        fs::write(&pointer, format!("{}\n", moved.display())).unwrap();
        assert_eq!(folder_of(user), Some(usual), "nothing is there");
        fs::create_dir_all(moved.join("models")).unwrap();
        assert_eq!(folder_of(user), Some(moved.join("models")));
    }
}
