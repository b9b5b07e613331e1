//! One window per home: a second start shows the window of the first, even if that one continued in the background.

use std::{
    fs::{self, File, TryLockError},
    path::PathBuf,
    thread,
    time::Duration,
};

use crate::{
    store::{make_folder_of, paths::Paths},
    wire::error::{AppError, Result},
};

/// How often a start that waits for another looks again.
const LOOK: Duration = Duration::from_millis(50);

/// Held while the app lives. The system lets go of it however the process ends.
#[derive(Debug)]
pub(super) struct OnlyOne(
    #[expect(dead_code, reason = "the lock is what holding the file is for")] File,
);

/// Takes the home for this process. Nothing when another has it and has shown its window.
///
/// Another that is just leaving, which takes as long as it takes to save a run, is waited for.
pub(super) fn take_or_show(paths: &Paths) -> Result<Option<OnlyOne>> {
    let mut asked = false;
    loop {
        match take(paths)? {
            Some(only_one) => return Ok(Some(only_one)),
            None if asked && !request(paths).exists() => return Ok(None),
            None if asked => thread::sleep(LOOK),
            None => {
                ask_to_show(paths)?;
                asked = true;
            }
        }
    }
}

/// Takes the home for this process. Nothing when another has it.
fn take(paths: &Paths) -> Result<Option<OnlyOne>> {
    let path = &paths.app_lock;
    make_folder_of(path)?;
    let file = File::create(path).map_err(AppError::file("lock the app", path))?;
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(request(paths));
            Ok(Some(OnlyOne(file)))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(AppError::file("lock the app", path)(error)),
    }
}

/// Asks the process that has the home to show its window.
fn ask_to_show(paths: &Paths) -> Result<()> {
    let path = request(paths);
    fs::write(&path, "show\n").map_err(AppError::file("ask the open window", &path))
}

/// Whether a second start asked for the window since the last time.
pub(super) fn was_asked(paths: &Paths) -> bool {
    fs::remove_file(request(paths)).is_ok()
}

fn request(paths: &Paths) -> PathBuf {
    paths.app_lock.with_extension("show")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_has_the_home_and_a_second_asks_it_to_show() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(home.path())).unwrap();
        let first = take(&paths).unwrap();
        assert!(first.is_some());
        assert!(take(&paths).unwrap().is_none());
        assert!(!was_asked(&paths));
        ask_to_show(&paths).unwrap();
        assert!(was_asked(&paths));
        assert!(!was_asked(&paths));
        drop(first);
        assert!(take(&paths).unwrap().is_some());
    }
}
