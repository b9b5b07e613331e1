//! The first rows of data that is not here, of which no more is fetched than they need.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use models::data::first_rows::{self, ReadAt, first_rows, first_rows_of_parquet};
use reqwest::Url;

use super::{
    Hub,
    http::{Http, Trouble},
    limits,
    repository::Repository,
    wait,
};
use crate::wire::error::{AppError, Result};

/// How many rows are shown.
const ROWS: usize = 20;

/// The first rows of a file, and what it took to know them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FirstRows {
    pub(crate) rows: first_rows::FirstRows,
    pub(crate) fetched_bytes: u64,
}

/// A file of which parts are fetched as they are read.
struct Remote {
    http: Http,
    url: Url,
    bytes: u64,
    fetched: Arc<AtomicU64>,
}

impl Hub {
    /// The first rows of a part of a data set.
    pub(crate) fn first_rows(
        &self,
        repository: &Repository,
        config: &str,
        split: &str,
    ) -> Result<FirstRows> {
        let splits = repository.split(config, split)?;
        let split = splits.iter().find(|split| split.problem().is_none());
        let file = split.and_then(|split| split.files.first());
        let file = file
            .ok_or_else(|| AppError::failed(format!("`{}` has no rows of text", repository.id)))?;
        let http = self.http()?;
        let url = http.file_url(
            repository.kind,
            &repository.id,
            &repository.commit,
            &file.path,
        );
        let fetched = Arc::new(AtomicU64::new(0));
        let remote = Remote {
            http,
            url,
            bytes: file.bytes,
            fetched: fetched.clone(),
        };
        let rows = match file.path.to_ascii_lowercase().ends_with(".parquet") {
            true => first_rows_of_parquet(remote, ROWS)?,
            false => {
                let beginning = remote.fetch(0, limits::PREVIEW.most.min(file.bytes) as usize)?;
                let is_whole = beginning.len() as u64 == file.bytes;
                first_rows(&file.path, &beginning, is_whole, ROWS)?
            }
        };
        Ok(FirstRows {
            rows,
            fetched_bytes: fetched.load(Ordering::Relaxed),
        })
    }
}

impl Remote {
    fn fetch(&self, start: u64, length: usize) -> Result<Vec<u8>> {
        let (http, url) = (self.http.clone(), self.url.clone());
        let bytes = wait(async move {
            http.range("look at the first rows", &url, start, length)
                .await
        })?;
        let bytes = bytes.map_err(Trouble::error)?;
        self.fetched
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl ReadAt for Remote {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<Vec<u8>> {
        self.fetch(start, length)
            .map_err(|error| io::Error::other(error.message))
    }
}
