//! `anneal hub`: models and data of the Hugging Face Hub.

mod fetch;

use std::io::{self, BufRead, IsTerminal};

use console::style;
use models::figures::{bytes, count, counted};
use serde_json::json;

use fetch::fetch;
pub(super) use fetch::offer;

use super::{Ended, terminal::Terminal};
use crate::{
    host::{Host, hub::Fit},
    hub::{
        download::Wanted,
        needed::RemoteFile,
        repository::Repository,
        search::{Search, SortBy},
        splits::Split,
        token::Token,
    },
    store::hub_cache::{
        CachedRepository,
        names::{RepositoryId, RepositoryKind},
    },
    wire::error::{AppError, Result},
};

/// Letters of a commit that tell it from others.
const SHORT_COMMIT: usize = 8;

/// Fewer letters of a commit mean none.
const MIN_COMMIT: usize = 7;

/// Find, download and delete models and data from the Hugging Face Hub.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anneal hub search smollm2                         models to chat with, the most used first
  anneal hub show HuggingFaceTB/SmolLM2-135M        what it is, and how large the download is
  anneal hub get HuggingFaceTB/SmolLM2-135M         download it, or continue a download
  anneal hub get openai/gsm8k --data --split train  rows to train on

HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to other programs of the Hub.")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// A repository is named by its maker, a slash and its name: HuggingFaceTB/SmolLM2-135M.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Search for models or data.
    Search(SearchArguments),
    /// Show a model or data set before downloading: size, licence, whether Anneal can use it, files.
    Show(Named),
    /// Download a model or data set, or continue a download.
    Get {
        #[command(flatten)]
        named: Named,
        /// Only this file, such as one GGUF. May be repeated.
        #[arg(long, value_name = "FILE")]
        file: Vec<String>,
        /// Of data: only this configuration.
        #[arg(long, requires = "data", conflicts_with = "file")]
        config: Option<String>,
        /// Of data: only this split.
        #[arg(long, requires = "data", conflicts_with = "file")]
        split: Option<String>,
    },
    /// List what is in the cache that all Hugging Face programs share.
    List,
    /// Delete from that cache. Frees what no other revision uses.
    Rm {
        #[command(flatten)]
        named: Named,
        /// Don’t ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Store a token, for gated or private models. It is prompted for, or read from standard input.
    Login,
    /// Forget the token.
    Logout,
    /// Show who the token belongs to.
    Whoami,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// The repository, as the Hub writes its name: HuggingFaceTB/SmolLM2-135M.
    id: String,
    /// It is a data set.
    #[arg(long)]
    data: bool,
    /// A branch, tag or commit. Without it, main.
    #[arg(long)]
    revision: Option<String>,
}

#[derive(Debug, clap::Args)]
struct SearchArguments {
    /// Words in the name.
    words: Vec<String>,
    /// Look for data sets.
    #[arg(long)]
    data: bool,
    /// Who made it.
    #[arg(long)]
    author: Option<String>,
    /// What it is for, as the Hub calls it. Without it, models are those that write text; `any` is any.
    #[arg(long)]
    task: Option<String>,
    /// downloads, likes or recent.
    #[arg(long, default_value = "downloads", value_parser = sort)]
    sort: SortBy,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

fn sort(word: &str) -> Result<SortBy, String> {
    serde_json::from_value(json!(word))
        .map_err(|_| "it can be downloads, likes or recent".to_owned())
}

impl Named {
    fn look(&self, host: &Host) -> Result<Repository> {
        let revision = self.revision.as_deref().unwrap_or_default();
        let id = self.id.parse()?;
        host.hub.repository(kind(self.data), &id, revision)
    }
}

fn kind(is_data: bool) -> RepositoryKind {
    match is_data {
        true => RepositoryKind::Data,
        false => RepositoryKind::Model,
    }
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match arguments.command {
        Command::Search(arguments) => search(arguments, host, terminal)?,
        Command::Show(named) => show(&named.look(host)?, host, terminal)?,
        Command::Get {
            named,
            file,
            config,
            split,
        } => {
            let repository = named.look(host)?;
            let wanted = match (config, split) {
                (None, None) => Wanted::of(&repository, &file)?,
                (config, split) => {
                    let [config, split] = [config, split].map(Option::unwrap_or_default);
                    Wanted::split(&repository, &config, &split)?
                }
            };
            return fetch(&wanted, host, terminal);
        }
        Command::List => list(host, terminal)?,
        Command::Rm { named, yes } => remove(&named, yes, host, terminal)?,
        Command::Login => login(host, terminal)?,
        Command::Logout => {
            host.hub.logout()?;
            match host.hub.token_place() {
                Some(place) => terminal.warn(format_args!("there still is a token in {place}")),
                None => terminal.note("the token is forgotten"),
            }
        }
        Command::Whoami => whoami(host, terminal)?,
    }
    Ok(Ended::Done)
}

fn search(arguments: SearchArguments, host: &Host, terminal: &Terminal) -> Result<()> {
    let kind = kind(arguments.data);
    let task = match arguments.task.as_deref() {
        None if kind == RepositoryKind::Model => Some("text-generation".to_owned()),
        None | Some("any") => None,
        Some(task) => Some(task.to_owned()),
    };
    let words = arguments.words.join(" ");
    let (found, more) = host.hub.search(Search {
        kind,
        words: (!words.is_empty()).then_some(words),
        author: arguments.author,
        task,
        sort: arguments.sort,
        limit: arguments.limit,
    })?;
    if terminal.json {
        return terminal.json(&json!({"found": found, "more": more}));
    }
    if found.is_empty() {
        terminal.note("nothing is called that");
    }
    let number = |number: Option<u64>| number.map(count).unwrap_or_default();
    let rows = found.into_iter().map(|it| {
        let day = it.changed.unwrap_or_default().chars().take(10).collect();
        vec![
            style(it.id).bold().to_string(),
            it.task.unwrap_or_default(),
            it.license.unwrap_or_default(),
            format!("{} downloads", number(it.downloads)),
            format!("{} likes", number(it.likes)),
            day,
            if it.gated { "gated" } else { "" }.to_owned(),
        ]
    });
    terminal.table(&rows.collect::<Vec<_>>());
    if more {
        let limit = arguments.limit * 2;
        terminal.note(format_args!("there is more: --limit {limit}"));
    }
    Ok(())
}

fn show(repository: &Repository, host: &Host, terminal: &Terminal) -> Result<()> {
    let uses = host.uses(repository);
    let cache = host.hub.cache()?;
    let needed = repository.needed();
    let needed_bytes: u64 = needed.iter().map(|file| file.bytes).sum();
    if terminal.json {
        let files = repository.files.iter().map(|file| {
            let needed = needed.iter().any(|it| it.path == file.path);
            json!({"path": file.path, "bytes": file.bytes, "needed": needed})
        });
        let splits = repository.splits.iter().map(|split| {
            json!({"config": split.config, "name": split.name, "format": split.format, "bytes": split.bytes(),
                "files": split.files.len()})
        });
        return terminal.json(&json!({
            "id": repository.id, "commit": repository.commit, "task": repository.task, "license": repository.license,
            "gate": repository.gate.as_ref().map(|gate| &gate.message), "downloads": repository.downloads,
            "likes": repository.likes, "changed": repository.changed, "parameters": repository.parameters,
            "needed_bytes": needed_bytes, "uses": uses, "files": files.collect::<Vec<_>>(),
            "splits": splits.collect::<Vec<_>>(), "card": repository.card,
        }));
    }
    terminal.line(style(&repository.id).bold());
    let context = uses.context.map(|tokens| counted(tokens as u64, "token"));
    let to_fetch = format!(
        "{} in {}",
        bytes(needed_bytes),
        counted(needed.len() as u64, "file")
    );
    let facts = [
        ("page", Some(repository.url.clone())),
        ("licence", repository.license.clone()),
        ("architecture", uses.architecture.clone()),
        ("parameters", repository.parameters.map(count)),
        ("context", context),
        ("commit", Some(repository.commit.clone())),
        ("to fetch", Some(to_fetch)),
        ("free here", cache.free_bytes().map(bytes)),
    ];
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(vec![style(name).dim().to_string(), value?]));
    terminal.table(&facts.collect::<Vec<_>>());
    if let Some(gate) = &repository.gate {
        let hint = gate.hint.as_deref().unwrap_or_default();
        terminal.warn(format_args!("{gate}; {hint}"));
    }
    for note in &uses.notes {
        terminal.line(note);
    }
    terminal.table(&uses_rows(&uses.fits));
    terminal.table(&parts(repository));
    Ok(())
}

fn uses_rows(fits: &[Fit]) -> Vec<Vec<String>> {
    let row = |fit: &Fit| {
        let verdict = match fit.free_bytes {
            Some(free) if fit.bytes <= free => {
                style(format!("fits in the {} that are free", bytes(free))).green()
            }
            Some(free) => style(format!("more than the {} that are free", bytes(free))).red(),
            None => style(String::new()),
        };
        vec![
            fit.name.to_owned(),
            format!("about {}", bytes(fit.bytes)),
            verdict.to_string(),
        ]
    };
    fits.iter().map(row).collect()
}

/// The parts of a data set, or the files of a model.
fn parts(repository: &Repository) -> Vec<Vec<String>> {
    if repository.kind == RepositoryKind::Data && !repository.splits.is_empty() {
        let row = |split: &Split| {
            let (config, name) = (split.config.clone(), split.name.clone());
            let (format, files) = (split.format.to_owned(), split.files.len());
            let (files, bytes) = (counted(files as u64, "file"), bytes(split.bytes()));
            let problem = split.problem().unwrap_or_default();
            vec![config, name, format, files, bytes, problem]
        };
        return repository.splits.iter().map(row).collect();
    }
    let needed = repository.needed();
    let row = |file: &RemoteFile| {
        let is_needed = needed.iter().any(|it| it.path == file.path);
        let mark = style(if is_needed { "needed" } else { "" }).dim();
        vec![file.path.clone(), bytes(file.bytes), mark.to_string()]
    };
    repository.files.iter().map(row).collect()
}

fn list(host: &Host, terminal: &Terminal) -> Result<()> {
    let cache = host.hub.cache()?;
    let cached = cache.list();
    if terminal.json {
        return terminal.json(&cached);
    }
    let mut rows = Vec::new();
    for repository in &cached {
        let id = style(repository.id.to_string()).bold().to_string();
        for (number, revision) in repository.revisions.iter().enumerate() {
            let first = |text: String| if number == 0 { text } else { String::new() };
            rows.push(vec![
                first(id.clone()),
                first(repository.kind.to_string()),
                first(bytes(repository.bytes)),
                revision.commit.chars().take(SHORT_COMMIT).collect(),
                revision.names.join(", "),
                counted(revision.files as u64, "file"),
            ]);
        }
        if repository.revisions.is_empty() {
            rows.push(vec![
                id,
                repository.kind.to_string(),
                bytes(repository.bytes),
                "begun".to_owned(),
            ]);
        }
    }
    terminal.table(&rows);
    let all = bytes(cached.iter().map(|it| it.bytes).sum());
    terminal.note(format_args!("{all} in `{}`", cache.root().display()));
    Ok(())
}

fn remove(named: &Named, yes: bool, host: &Host, terminal: &Terminal) -> Result<()> {
    let (kind, id): (_, RepositoryId) = (kind(named.data), named.id.parse()?);
    let cache = host.hub.cache()?;
    let folder = cache.repository(kind, &id);
    let mut known = cache.list().into_iter();
    let known = known.find(|it| it.kind == kind && it.id == id);
    let known = known.ok_or_else(|| {
        AppError::invalid(format!("the cache has no {kind} `{id}`"))
            .with_hint("`anneal hub list` shows what it has")
    })?;
    let commits: Vec<String> = match &named.revision {
        // Without a revision, what was only begun goes too.
        None if known.revisions.is_empty() => vec![String::new()],
        None => known.revisions.iter().map(|it| it.commit.clone()).collect(),
        Some(revision) => vec![commit_meant(&known, revision, folder.commit_of(revision))?],
    };
    let question = match named.revision {
        None => format!("delete {id}, {}?", bytes(known.bytes)),
        Some(_) => format!("delete {} of {id}?", commits.join(" and ")),
    };
    if !yes && !terminal.confirm(question, "give --yes")? {
        terminal.note(format_args!("kept {id}"));
        return Ok(());
    }
    let mut freed = 0;
    for commit in &commits {
        freed += folder.delete(commit)?;
    }
    if terminal.json {
        return terminal.json(&json!({"freed_bytes": freed}));
    }
    terminal.note(format_args!("{} are free again", bytes(freed)));
    Ok(())
}

/// The commit of a revision: by its branch or tag, its commit, or the beginning of one that no other has.
fn commit_meant(known: &CachedRepository, revision: &str, named: Option<String>) -> Result<String> {
    let commits = || known.revisions.iter().map(|it| &it.commit);
    if let Some(commit) = commits().find(|commit| Some(*commit) == named.as_ref()) {
        return Ok(commit.clone());
    }
    let begin: Vec<&String> = commits()
        .filter(|commit| commit.starts_with(revision))
        .collect();
    match begin[..] {
        [commit] if revision.len() >= MIN_COMMIT => Ok(commit.clone()),
        _ => Err(AppError::invalid(format!(
            "the cache has no revision `{revision}` of `{}`",
            known.id
        ))
        .with_hint("`anneal hub list` shows what it has")),
    }
}

fn login(host: &Host, terminal: &Terminal) -> Result<()> {
    let failed = |error| AppError::failed(format!("could not read the token: {error}"));
    let text = if io::stdin().is_terminal() {
        terminal
            .note("a token to read is enough; make one at https://huggingface.co/settings/tokens");
        terminal.ask("Token (is not shown): ");
        console::Term::stderr().read_secure_line().map_err(failed)?
    } else {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(failed)?;
        line
    };
    let user = host.hub.login(Token::new(&text)?)?;
    if terminal.json {
        return terminal.json(&user);
    }
    let (name, place) = (user.name, user.token_place);
    terminal.line(format_args!(
        "logged in as {name}; the token is kept in {place}"
    ));
    Ok(())
}

fn whoami(host: &Host, terminal: &Terminal) -> Result<()> {
    let user = host.hub.user()?;
    if terminal.json {
        return terminal.json(&user);
    }
    match user {
        None => terminal.line("nobody is logged in; `anneal hub login` keeps a token"),
        Some(user) => terminal.line(format_args!("{}, by {}", user.name, user.token_place)),
    }
    Ok(())
}
