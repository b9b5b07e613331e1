//! Looking at data before anything is learned from it, in two steps: a look, which reads the rows, and a count, which makes
//! tokens of them and takes a while.

#[cfg(feature = "gui")]
pub(crate) mod rows;
#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use models::{
    data::{
        self, DataRequest, Dataset, FileFound,
        encode::{Encoded, Learn, encode_each, encode_stream},
        row::{Example, Problem, Row},
        summary::{LengthSummary, Segment, preview},
        template::ChatTemplate,
        tokenizer::Tokenizer,
    },
    tasks::language::LanguageRequest,
};
use serde::Serialize;

use super::Host;
use crate::{
    lock::locked,
    store,
    wire::error::{AppError, Result},
};

/// How many letters of a text without rows are shown.
const STREAM_SHOWN: usize = 600;
/// After so many rows a count says how far it is, and whether it should end is asked.
const ROWS_AT_ONCE: usize = 256;

/// What is in data, and how it would be learned.
#[derive(Debug, Serialize)]
pub(crate) struct Inspection {
    /// The files and how each is read.
    pub(crate) files: Vec<FileFound>,
    /// The rows that can't be used, or of which the length leaves nothing to learn.
    pub(crate) problems: Vec<Problem>,
    /// What the rest looks like. Absent when no row can be used.
    pub(crate) content: Option<Content>,
}

/// The usable rows, as a model sees them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Content {
    /// Whether the rows are one text, learned in windows.
    pub(crate) is_stream: bool,
    /// Which tokenizer counted, in words.
    pub(crate) tokenizer: String,
    /// Which chat template was used, in words. Absent when nobody speaks.
    pub(crate) template: Option<String>,
    /// How long the rows are.
    pub(crate) lengths: LengthSummary,
    /// The line the example begins at.
    pub(crate) example_line: u32,
    /// The first row, and what of it is learned.
    pub(crate) example: Vec<Segment>,
}

/// Data that was read. A page that shows it asks for one part after another.
pub(crate) struct Looked {
    request: DataRequest,
    files: Vec<Stamp>,
    pub(crate) dataset: Dataset,
    /// The last count, which a page that was left comes back to.
    counted: Mutex<Option<Arc<Counted>>>,
}

/// A file, its bytes, and when it was last written: the same as long as nobody changed it.
type Stamp = (PathBuf, u64, Option<SystemTime>);

/// How data is counted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counting {
    /// The model whose tokenizer counts; without one, a new one is trained on the data.
    pub(crate) model: Option<PathBuf>,
    pub(crate) learn: Learn,
    /// Rows are cut to so many tokens; 0 cuts none.
    pub(crate) max_length: usize,
}

/// What a count found.
pub(crate) struct Counted {
    how: Counting,
    pub(crate) content: Content,
    /// The rows that the template refuses, or of which the length leaves nothing to learn.
    pub(crate) problems: Vec<Problem>,
    /// How many tokens each row has. Of a text without rows nothing.
    pub(crate) tokens: Vec<usize>,
    /// What is wrong with a row, by its place.
    pub(crate) refused: HashMap<usize, String>,
}

/// How far a count is, and whether it should end.
pub(crate) trait Watch {
    /// So many rows are counted. Returns whether to go on.
    fn counted(&mut self, rows: usize) -> bool;
}

impl<F: FnMut(usize) -> bool> Watch for F {
    fn counted(&mut self, rows: usize) -> bool {
        self(rows)
    }
}

impl Host {
    /// What is in data, counted as a model would, or as a new model trained on it.
    pub(crate) fn inspect_data(
        &self,
        request: &DataRequest,
        model: Option<&Path>,
        learn: Learn,
        max_length: usize,
    ) -> Result<Inspection> {
        let looked = self.look_at_data(request)?;
        let mut files = looked.dataset.files.clone();
        let mut problems = looked.dataset.problems.clone();
        if looked.dataset.rows.is_empty() {
            return Ok(Inspection {
                files,
                problems,
                content: None,
            });
        }
        let how = Counting {
            model: model.map(Path::to_owned),
            learn,
            max_length,
        };
        let counted = self.count_data(&looked, how, &mut |_| true)?;
        let counted = counted.ok_or_else(|| AppError::failed("the count was stopped"))?;
        for problem in &counted.problems {
            if let Some(file) = files.iter_mut().find(|file| file.path == problem.path) {
                file.rows -= 1;
                file.problems += 1;
            }
        }
        problems.extend(counted.problems.iter().cloned());
        Ok(Inspection {
            files,
            problems,
            content: Some(counted.content.clone()),
        })
    }

    /// Reads data, or gives what was read before of the same files. It is kept until other data is looked at.
    ///
    /// Errors: a file that can't be read as asked.
    pub(crate) fn look_at_data(&self, request: &DataRequest) -> Result<Arc<Looked>> {
        // Whether bad rows are left out is a matter of the run: here all of them are shown.
        let request = DataRequest {
            skip_bad_rows: false,
            ..request.clone()
        };
        let files = data::source::files(&request.paths)?;
        let files: Vec<Stamp> = files.into_iter().map(stamp).collect();
        let known = locked(&self.looked).clone();
        if let Some(known) = known.filter(|it| it.request == request && it.files == files) {
            return Ok(known);
        }
        self.forget_looked();
        let looked = Arc::new(Looked {
            dataset: data::open(&request)?,
            counted: Mutex::default(),
            request,
            files,
        });
        *locked(&self.looked) = Some(looked.clone());
        Ok(looked)
    }

    /// Lets go of what was read: nobody looks at it any more.
    pub(crate) fn forget_looked(&self) {
        *locked(&self.looked) = None;
    }

    /// Counts data in tokens, and tells how far it is. Nothing when it was told to end.
    ///
    /// Errors: no row can be used, or the model's tokenizer or template can't be.
    pub(crate) fn count_data(
        &self,
        looked: &Looked,
        how: Counting,
        watch: &mut dyn Watch,
    ) -> Result<Option<Arc<Counted>>> {
        if let Some(known) = looked.counted().filter(|it| it.how == how) {
            return Ok(Some(known));
        }
        if !watch.counted(0) {
            return Ok(None);
        }
        let find = |model| store::models::find(&self.paths, &self.settings(), model);
        let folder = how.model.as_deref().map(find).transpose()?;
        let dataset = &looked.dataset;
        let tokenizer = match &folder {
            Some(folder) => Tokenizer::load(folder)?,
            None => {
                let (_, size) = LanguageRequest::default().tokenizer_or_default();
                let mut read = 0;
                let texts = dataset.texts().take_while(|_| {
                    read += 1;
                    read % ROWS_AT_ONCE > 0 || watch.counted(0)
                });
                Tokenizer::train(texts, size)?
            }
        };
        let Some(counted) = count(dataset, &tokenizer, how, watch)? else {
            return Ok(None);
        };
        let counted = Arc::new(counted);
        *locked(&looked.counted) = Some(counted.clone());
        Ok(Some(counted))
    }
}

impl Looked {
    /// The last count.
    pub(crate) fn counted(&self) -> Option<Arc<Counted>> {
        locked(&self.counted).clone()
    }
}

fn stamp(path: PathBuf) -> Stamp {
    let about = fs::metadata(&path).ok();
    let bytes = about.as_ref().map_or(0, fs::Metadata::len);
    (path, bytes, about.and_then(|it| it.modified().ok()))
}

fn count(
    dataset: &Dataset,
    tokenizer: &Tokenizer,
    how: Counting,
    watch: &mut dyn Watch,
) -> Result<Option<Counted>> {
    let template = ChatTemplate::of(tokenizer)?;
    let max_length = match how.max_length {
        0 => usize::MAX,
        length => length,
    };
    let encode =
        |rows: &[Row]| encode_each(dataset, rows, tokenizer, &template, how.learn, max_length);
    let first = dataset.rows.first();
    let mut first = first
        .cloned()
        .ok_or_else(|| AppError::failed("there is no row"))?;
    let (mut tokens, mut refused, mut all) = (Vec::new(), HashMap::new(), Encoded::default());
    let lengths = if dataset.is_stream {
        shorten(&mut first);
        let stream = encode_stream(&dataset.rows, tokenizer)?;
        LengthSummary::of_stream(dataset.rows.len(), stream.tokens.len())
    } else {
        for rows in dataset.rows.chunks(ROWS_AT_ONCE) {
            for encoded in encode(rows) {
                // A row of several token rows has the same words in all of them but the newest turn.
                let longest = encoded.rows.iter().map(|it| it.full_length).max();
                let problem = encoded.problems.iter().chain(&encoded.cut_away).next();
                refused.extend(problem.map(|it| (tokens.len(), it.what())));
                tokens.push(longest.unwrap_or(0));
                all.add(encoded);
            }
            if !watch.counted(tokens.len()) {
                return Ok(None);
            }
        }
        LengthSummary::new(&all.rows)
    };
    let shown = encode(std::slice::from_ref(&first)).into_iter();
    let shown = shown.flat_map(|it| it.rows).next();
    let example = shown.map(|row| preview(&row, tokenizer)).transpose()?;
    let size = tokenizer.vocabulary_size();
    let speaks = |row: &Row| matches!(row.example, Example::Chat(_));
    let content = Content {
        is_stream: dataset.is_stream,
        tokenizer: match how.model {
            None => format!("a new tokenizer of {size} tokens, trained on this data"),
            Some(_) => format!("the model’s tokenizer of {size} tokens"),
        },
        template: dataset.rows.iter().any(speaks).then_some(template.reason),
        lengths,
        example_line: first.line,
        example: example.unwrap_or_default(),
    };
    let mut problems = all.problems;
    problems.extend(all.cut_away);
    Ok(Some(Counted {
        how,
        content,
        problems,
        tokens,
        refused,
    }))
}

/// Leaves only the beginning of a long text.
fn shorten(row: &mut Row) {
    if let Example::Text(text) = &mut row.example
        && let Some((end, _)) = text.char_indices().nth(STREAM_SHOWN)
    {
        text.truncate(end);
    }
}
