//! The binary with a temporary home. The only file here that knows how the program is started.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, Write},
    path::{MAIN_SEPARATOR, Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// What a program needs of its environment to start at all, and what it must not depend on: the language, the time zone.
const NEEDED: [&str; 11] = [
    "LANG",
    "LC_ALL",
    "PATH",
    "PATHEXT",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USERPROFILE",
    // How many threads may be used, where somebody said.
    "RAYON_NUM_THREADS",
];

/// A fresh home, and a folder to work in.
pub(crate) struct App {
    folder: TempDir,
}

/// How a command ended, and what it wrote. Everything that varies is masked.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Expects an exit code.
    #[track_caller]
    pub(crate) fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Expects words among what was answered.
    #[track_caller]
    pub(crate) fn shows(&self, words: &str) -> &Self {
        assert!(self.stdout.contains(words), "no `{words}`: {self:?}");
        self
    }

    /// Expects words among what was said beside it.
    #[track_caller]
    pub(crate) fn notes(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "no `{words}`: {self:?}");
        self
    }

    /// The answer for machines.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl App {
    pub(crate) fn new() -> Self {
        let app = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(app.home()).unwrap();
        app
    }

    /// Where the program keeps its things.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Where all programs of the Hub keep their things.
    pub(crate) fn hub_home(&self) -> PathBuf {
        self.folder.path().join("hub-home")
    }

    /// The folder the program is started in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder the program is started in.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The program with arguments, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_anneal"), arguments)
    }

    /// A program with arguments, not started yet, in an environment that holds nothing of the machine's user.
    pub(crate) fn command_of(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let needed = NEEDED
            .iter()
            .filter_map(|name| Some((name, env::var_os(name)?)));
        command
            .args(arguments)
            .current_dir(self.folder())
            .env_clear()
            .envs(needed)
            .env("HOME", self.folder())
            .env("ANNEAL_HOME", self.home())
            .env("HF_HOME", self.hub_home())
            .env("HF_HUB_OFFLINE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What the program calls the processor of this machine.
    pub(crate) fn processor(&self) -> String {
        let found = self.anneal("device --json").json();
        let mut devices = found["found"].as_array().unwrap().iter();
        let processor = devices.find(|device| device["kind"] == "cpu").unwrap();
        processor["name"].as_str().unwrap().to_owned()
    }

    /// Runs the program to its end, with arguments as they are typed.
    pub(crate) fn anneal(&self, typed: &str) -> Output {
        self.run(&typed.split(' ').collect::<Vec<_>>())
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with_input(arguments, "")
    }

    /// Runs the program to its end, with words on standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Output {
        self.run_command(self.command(arguments), input)
    }

    /// Runs a command to its end, with words on standard input.
    pub(crate) fn run_command(&self, mut command: Command, input: &str) -> Output {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // A program that fails early does not read; what it wrote says why.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: self.mask(&String::from_utf8(output.stdout).unwrap()),
            stderr: self.mask(&String::from_utf8(output.stderr).unwrap()),
        }
    }

    /// The text with what differs between machines and days replaced by words.
    fn mask(&self, text: &str) -> String {
        // The system may show the temporary folder by another name than it was made with.
        let real = fs::canonicalize(self.folder()).unwrap();
        let text = text.replace(&real.display().to_string(), "FOLDER");
        let text = text.replace(&self.folder().display().to_string(), "FOLDER");
        let text = text.replace(&format!("FOLDER{MAIN_SEPARATOR}"), "FOLDER/");
        // Each system has its own words, in the language of its user.
        let missing = models::error::system_says(&io::Error::from_raw_os_error(2));
        mask_run_ids(&text.replace(&missing, "NO SUCH FILE"))
    }
}

/// Compares with the text in `expected/`. With `ANNEAL_WRITE_EXPECTED` set, writes it instead.
#[track_caller]
pub(crate) fn check_expected(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/app/expected")
        .join(name);
    if env::var_os("ANNEAL_WRITE_EXPECTED").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, expected,
        "run with ANNEAL_WRITE_EXPECTED=1 to write {name} anew, and read what changed"
    );
}

/// Has somebody else compute on the processor, until the file is dropped.
pub(crate) fn computes(app: &App, work: &str) -> fs::File {
    let folder = app.home().join("in-use/cpu");
    fs::create_dir_all(&folder).unwrap();
    let file = fs::File::create(folder.join(format!("{work}-1-0"))).unwrap();
    file.lock().unwrap();
    file
}

/// Text to learn from: a few sentences, so that a tiny model can.
pub(crate) fn sentences(count: usize) -> String {
    let animals = ["cat", "dog", "cow", "hen", "fox"];
    let sounds = ["meow", "woof", "moo", "cluck", "yip"];
    (0..count)
        .map(|at| format!("The {} says {}.\n", animals[at % 5], sounds[at % 5]))
        .collect()
}

/// Replaces the day and the number of run ids: `2026-11-21-name-7f3a` becomes `DAY-name-XXXX`.
fn mask_run_ids(text: &str) -> String {
    let is_day = |text: &str| {
        text.len() == 10
            && text.char_indices().all(|(at, letter)| match at {
                4 | 7 => letter == '-',
                _ => letter.is_ascii_digit(),
            })
    };
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = (0..rest.len()).find(|&at| rest.get(at..at + 10).is_some_and(is_day)) {
        masked.push_str(&rest[..at]);
        masked.push_str("DAY");
        rest = &rest[at + 10..];
        let is_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let end = rest.find(|letter| !is_id(letter)).unwrap_or(rest.len());
        if rest.starts_with('-')
            && let Some((name, _)) = rest[..end].rsplit_once('-')
        {
            masked.push_str(name);
            masked.push_str("-XXXX");
            rest = &rest[end..];
        }
    }
    masked + rest
}
