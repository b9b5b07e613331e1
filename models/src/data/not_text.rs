//! Files that people try although they hold no text: recognized by their names, by how they begin, and by bytes that
//! never occur in text.

use std::path::Path;

use crate::{Error, ReadAs, Result};

/// What is said of a file that could never be learned from.
const ONLY_TEXT: &str =
    "only text can be learned from: JSON lines, JSON, CSV, TSV, Parquet or plain text";
const UNPACK: &str = "unpack it first";
const SAVE_TEXT: &str = "save its text first";
const SAVE_TABLE: &str = "save its rows as CSV first";
const TO_LINES: &str = "convert it to JSON lines first";
const IS_MODEL: &str = "models are added in Models";

const PICTURE: (&str, &str) = ("a picture", ONLY_TEXT);
const SOUND: (&str, &str) = ("a sound file", ONLY_TEXT);
const VIDEO: (&str, &str) = ("a video", ONLY_TEXT);
const ARCHIVE: (&str, &str) = ("an archive", UNPACK);
const DOCUMENT: (&str, &str) = ("a document", SAVE_TEXT);
const TABLE: (&str, &str) = ("a spreadsheet", SAVE_TABLE);
const DATABASE: (&str, &str) = ("a database", SAVE_TABLE);
const ARROW: (&str, &str) = ("an Arrow file", TO_LINES);
const WEIGHTS: (&str, &str) = ("a file of a model", IS_MODEL);
const PROGRAM: (&str, &str) = ("a program", ONLY_TEXT);

/// Endings of names, in small letters, with what such a file is and what can be done about it.
#[rustfmt::skip]
const ENDINGS: [(&[&str], (&str, &str)); 10] = [
    (&["png", "jpg", "jpeg", "gif", "bmp", "webp", "tif", "tiff", "heic", "heif", "avif", "ico", "svg", "psd", "raw"], PICTURE),
    (&["mp3", "wav", "flac", "ogg", "oga", "opus", "m4a", "aac", "aiff", "wma", "mid", "midi"], SOUND),
    (&["mp4", "m4v", "mov", "mkv", "avi", "webm", "wmv", "mpg", "mpeg"], VIDEO),
    (&["zip", "gz", "tgz", "tar", "bz2", "xz", "zst", "7z", "rar", "lz4", "jar"], ARCHIVE),
    (&["pdf", "doc", "docx", "odt", "rtf", "pages", "ppt", "pptx", "odp", "epub", "mobi"], DOCUMENT),
    (&["xls", "xlsx", "ods", "numbers"], TABLE),
    (&["db", "sqlite", "sqlite3", "mdb"], DATABASE),
    (&["arrow", "feather"], ARROW),
    (&["gguf", "safetensors", "pt", "pth", "ckpt", "onnx", "mlmodel", "npz", "npy"], WEIGHTS),
    (&["exe", "dll", "so", "dylib", "bin", "o", "class", "pyc", "wasm", "dmg", "iso", "msi", "deb", "rpm"], PROGRAM),
];

/// How files begin that are no text.
const BEGINNINGS: [(&[u8], (&str, &str)); 22] = [
    (b"PARE", ("an encrypted Parquet file", "decrypt it first")),
    (b"ARROW1", ARROW),
    (b"\x1f\x8b", ("compressed with gzip", UNPACK)),
    (b"\x28\xb5\x2f\xfd", ("compressed with zstd", UNPACK)),
    (b"PK\x03\x04", ("a zip archive", UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", ARCHIVE),
    (b"Rar!\x1a\x07", ARCHIVE),
    (b"\xfd7zXZ\0", ARCHIVE),
    (b"%PDF-", ("a PDF", SAVE_TEXT)),
    (b"\x89PNG\r\n", PICTURE),
    (b"\xff\xd8\xff", PICTURE),
    (b"GIF8", PICTURE),
    (b"II*\0", PICTURE),
    (b"RIFF", ("a picture, a sound file or a video", ONLY_TEXT)),
    (b"OggS", SOUND),
    (b"fLaC", SOUND),
    (b"ID3", SOUND),
    (b"\x1a\x45\xdf\xa3", VIDEO),
    (b"GGUF", WEIGHTS),
    (b"SQLite format 3\0", DATABASE),
    (b"\x7fELF", PROGRAM),
    (b"MZ", PROGRAM),
];

/// So much of a file is looked at for bytes that no text has.
const LOOKED_AT: usize = 1 << 16;
/// Of text that is none, at least one byte in so many is a control character.
const CONTROLS_ONE_IN: usize = 10;

/// An error for a file whose name says that it holds no text, such as a picture or an archive.
pub fn check_name(path: &Path) -> Result<()> {
    let ending = path.extension().unwrap_or_default();
    let ending = ending.to_string_lossy().to_ascii_lowercase();
    let known = ENDINGS
        .iter()
        .find(|(endings, _)| endings.contains(&ending.as_str()));
    match known {
        None => Ok(()),
        Some((_, (what, advice))) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Err(Error::format(path, format!("{name} is {what}; {advice}")))
        }
    }
}

/// An error for bytes that are no text in any encoding, or not in the one that is named.
pub(super) fn check_bytes(path: &Path, bytes: &[u8], encoding: Option<&str>) -> Result<()> {
    let binary = is_binary(bytes);
    let known = BEGINNINGS.iter().find(|(start, _)| {
        // A text may begin with the letters that some other file begins with.
        bytes.starts_with(start) && (binary || !start.iter().all(u8::is_ascii_alphanumeric))
    });
    if let Some((_, (what, advice))) = known {
        return Err(Error::format(path, format!("this is {what}; {advice}")));
    }
    let is_named = |label: &str| label.to_ascii_lowercase().contains("16");
    match (encoding, wide(bytes)) {
        (None, Some(label)) => {
            let proposal = ReadAs::Encoding(label.to_owned());
            Err(Error::reading(path, "the text is UTF-16", proposal))
        }
        (Some(label), _) if is_named(label) => Ok(()),
        _ if !binary => Ok(()),
        _ => {
            let problem = format!("the file holds bytes that no text has; {ONLY_TEXT}");
            Err(Error::format(path, problem))
        }
    }
}

/// Whether bytes are those of no text: one is zero, or many are control characters.
fn is_binary(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
    let is_control = |byte: &&u8| **byte < b' ' && !b"\t\n\r\x0c\x1b".contains(byte);
    bytes.contains(&0) || bytes.iter().filter(is_control).count() * CONTROLS_ONE_IN > bytes.len()
}

/// The name of UTF-16 where bytes are that: by the mark at their beginning, or since every second one is zero.
fn wide(bytes: &[u8]) -> Option<&'static str> {
    let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
    let zeros = |first: usize| {
        bytes
            .iter()
            .skip(first)
            .step_by(2)
            .filter(|&&it| it == 0)
            .count()
    };
    let (even, odd, half) = (zeros(0), zeros(1), bytes.len() / 2);
    match bytes {
        [0xFF, 0xFE, ..] => Some("utf-16le"),
        [0xFE, 0xFF, ..] => Some("utf-16be"),
        _ if odd > half / 2 && even == 0 => Some("utf-16le"),
        _ if even > half / 2 && odd == 0 => Some("utf-16be"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(name: &str, bytes: &[u8], encoding: Option<&str>) -> String {
        let path = Path::new(name);
        let checked = check_name(path).and_then(|()| check_bytes(path, bytes, encoding));
        let error = checked.unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn a_file_whose_name_says_that_it_is_no_text_is_refused_by_name() {
        for (name, begins) in [
            (
                "pic.png",
                "pic.png is a picture; only text can be learned from",
            ),
            ("IMG 1.JPEG", "IMG 1.JPEG is a picture; "),
            ("talk.mp3", "talk.mp3 is a sound file; "),
            (
                "rows.jsonl.gz",
                "rows.jsonl.gz is an archive; unpack it first: ",
            ),
            (
                "report.docx",
                "report.docx is a document; save its text first: ",
            ),
            (
                "tiny.gguf",
                "tiny.gguf is a file of a model; models are added in Models: ",
            ),
        ] {
            let error = refused(name, b"x", None);
            assert!(error.starts_with(begins), "{error}");
        }
        for name in ["rows.jsonl", "notes", "TREC_10.label", "a.b.txt", "png"] {
            check_name(Path::new(name)).unwrap();
        }
    }

    #[test]
    fn bytes_of_no_text_are_refused_whatever_the_name_says_and_latin_1_is_no_way_out() {
        let noise: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for (bytes, begins) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "this is a picture; "),
            (b"GIF89a\x01\0\x01\0", "this is a picture; "),
            (b"PK\x03\x04", "this is a zip archive; unpack it first: "),
            (b"%PDF-1.7", "this is a PDF; save its text first: "),
            (&noise, "the file holds bytes that no text has; "),
            (
                b"{\"text\": \"a\0b\"}",
                "the file holds bytes that no text has; ",
            ),
        ] {
            for encoding in [None, Some("latin-1")] {
                let error = refused("rows.jsonl", bytes, encoding);
                assert!(error.starts_with(begins), "{error}");
                assert!(!error.contains("latin"), "{error}");
            }
        }
    }

    #[test]
    fn text_is_text_in_any_encoding() {
        let latin = b"caf\xe9 cr\xe8me\r\n\tand more\x0c";
        let koi8 = b"\xf0\xd2\xc9\xd7\xc5\xd4";
        for bytes in [
            &latin[..],
            koi8,
            "漢字 🙂".as_bytes(),
            b"GIFts, MZ and RIFF",
            b"PARED apples",
            b"",
        ] {
            check_bytes(Path::new("a.txt"), bytes, None).unwrap();
        }
        for (bytes, label) in [
            (&b"a\0b\0c\0"[..], "utf-16le"),
            (b"\0a\0b\0c", "utf-16be"),
            (b"\xff\xfea\0", "utf-16le"),
        ] {
            assert!(refused("a.txt", bytes, None).contains(label));
            check_bytes(Path::new("a.txt"), bytes, Some(label)).unwrap();
        }
    }
}
