//! Files that stand where another one was wanted: what Git or a download left there, known by how it begins.

/// So much of a file is looked at, in bytes.
pub(crate) const LOOKED_AT: usize = 64;

/// What a file is, as a sentence, where it begins as one that nobody wanted; see [`LOOKED_AT`].
pub(crate) fn found(start: &[u8]) -> Option<&'static str> {
    let text = beginning(start);
    if text.starts_with("<!doctype") || text.starts_with("<html") {
        Some(
            "the file is a page of a website: the download was answered with a page, often to log in",
        )
    } else if text.starts_with("<?xml") {
        Some("the file is an XML message of a server")
    } else {
        pointer(start)
    }
}

/// The same for what can't even be a text that was wanted.
pub(crate) fn pointer(start: &[u8]) -> Option<&'static str> {
    beginning(start).starts_with("version https://git-lfs").then_some(
        "the file is a pointer of Git LFS: Git fetched only the name of the large file; run `git lfs pull` there, or \
         download it again",
    )
}

fn beginning(start: &[u8]) -> String {
    let start = &start[..start.len().min(LOOKED_AT)];
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
    text.trim_start_matches('\u{feff}').trim_start().to_owned()
}
