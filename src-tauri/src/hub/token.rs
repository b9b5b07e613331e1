//! The user's token, which tells the Hub who asks. It is kept by the system, and never shown, logged or sent to
//! another host.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::{
    lock::locked,
    store::{
        hub_cache,
        limits::{WORD_FILE, read_text},
        paths::Paths,
        write_private_file,
    },
    wire::error::{AppError, Result},
};

/// How the system's keychain calls the entry.
const SERVICE: &str = "Anneal";
const ACCOUNT: &str = "Hugging Face token";

/// A token. What is made of it for people has no letter of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// A token as it was typed or read.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let is_token =
            (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_token {
            true => Ok(Self(text.to_owned())),
            false => Err(
                AppError::invalid("this is no token of the Hugging Face Hub").with_hint(
                    "a token begins with `hf_`; make one at https://huggingface.co/settings/tokens",
                ),
            ),
        }
    }

    /// For the header of a request, and nothing else.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenPlace {
    /// A variable of the environment.
    Variable,
    /// The keychain of the system.
    Keychain,
    /// A file of the app that only its owner can read.
    File(PathBuf),
    /// The file that other programs of the Hub keep theirs in.
    Shared(PathBuf),
}

impl fmt::Display for TokenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str("the variable HF_TOKEN"),
            Self::Keychain => f.write_str("the keychain of the system"),
            Self::File(path) => write!(f, "a file that only you can read: `{}`", path.display()),
            Self::Shared(path) => write!(f, "the login of another program: `{}`", path.display()),
        }
    }
}

/// Where the app keeps its token.
#[derive(Debug)]
pub(crate) struct TokenStore {
    /// Whether the system's keychain is used. A home of its own keeps its token to itself.
    keychain: bool,
    file: PathBuf,
    /// What was found when it was first looked for: a keychain may ask the user each time.
    found: Mutex<Option<Option<(Token, TokenPlace)>>>,
}

impl TokenStore {
    pub(crate) fn new(paths: &Paths) -> Self {
        Self {
            keychain: paths.are_of_system,
            file: paths.hub_token.clone(),
            found: Mutex::default(),
        }
    }

    /// One that has looked, and found nothing.
    #[cfg(all(test, feature = "gui"))]
    pub(crate) fn empty(paths: &Paths) -> Self {
        Self {
            found: Mutex::new(Some(None)),
            ..Self::new(paths)
        }
    }

    /// The token to ask with, and where it comes from: what the environment says, what was kept here, what another program
    /// keeps.
    pub(crate) fn find(&self) -> Option<(Token, TokenPlace)> {
        let mut found = locked(&self.found);
        found.get_or_insert_with(|| self.look()).clone()
    }

    fn look(&self) -> Option<(Token, TokenPlace)> {
        let read =
            |path: &Path| Token::new(&read_text(WORD_FILE, path, "read the token").ok()?).ok();
        let variable = || Token::new(&env::var("HF_TOKEN").ok()?).ok();
        if let Some(token) = variable() {
            return Some((token, TokenPlace::Variable));
        }
        if let Some(token) = self
            .entry()
            .and_then(|entry| Token::new(&entry.get_password().ok()?).ok())
        {
            return Some((token, TokenPlace::Keychain));
        }
        if let Some(token) = read(&self.file) {
            return Some((token, TokenPlace::File(self.file.clone())));
        }
        let shared = hub_cache::folder("HF_TOKEN_PATH")
            .or_else(|| Some(hub_cache::hub_home()?.join("token")))?;
        Some((read(&shared)?, TokenPlace::Shared(shared)))
    }

    /// Keeps a token. Returns where.
    pub(crate) fn keep(&self, token: &Token) -> Result<TokenPlace> {
        *locked(&self.found) = None;
        if let Some(entry) = self.entry()
            && entry.set_password(&token.0).is_ok()
        {
            // One that was kept before there was a keychain would only grow old.
            self.remove_file()?;
            return Ok(TokenPlace::Keychain);
        }
        write_private_file(&self.file, token.0.as_bytes())?;
        Ok(TokenPlace::File(self.file.clone()))
    }

    /// Forgets the token that was kept here. One that comes from somewhere else stays there.
    pub(crate) fn forget(&self) -> Result<()> {
        *locked(&self.found) = None;
        if let Some(entry) = self.entry() {
            match entry.delete_credential() {
                Ok(()) | Err(keyring::Error::NoEntry) => {}
                Err(error) if self.holds(&entry) => {
                    return Err(AppError::failed(format!(
                        "the keychain did not let the token go: {error}"
                    )));
                }
                Err(_) => {}
            }
        }
        self.remove_file()
    }

    fn holds(&self, entry: &keyring::Entry) -> bool {
        entry.get_password().is_ok()
    }

    fn entry(&self) -> Option<keyring::Entry> {
        match self.keychain {
            true => keyring::Entry::new(SERVICE, ACCOUNT).ok(),
            false => None,
        }
    }

    fn remove_file(&self) -> Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(AppError::file("delete the token", &self.file)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_of_its_own_keeps_its_token_in_a_file_that_only_its_owner_reads() {
        let home = tempfile::tempdir().unwrap();
        let store = TokenStore::new(&Paths::new(Some(home.path())).unwrap());
        let token = Token::new(" hf_secret123\n").unwrap();
        let place = store.keep(&token).unwrap();
        assert_eq!(place, TokenPlace::File(store.file.clone()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&store.file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_to_string(&store.file).unwrap(), "hf_secret123");
        store.forget().unwrap();
        assert!(!store.file.exists());
        store.forget().unwrap();
    }

    #[test]
    fn a_token_is_never_shown() {
        let token = Token::new("hf_secret123").unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
        for wrong in ["", "hf_with space", "hf_\u{e9}abcdef"] {
            let error = Token::new(wrong).unwrap_err();
            assert!(!error.message.contains("hf_w") && !error.message.contains('\u{e9}'));
        }
    }
}
