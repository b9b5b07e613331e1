//! How large what comes from outside may be: one row for each limit, with its value, its unit and its reason.
//!
//! A file from the network, a number in a run file and a line of data are read by the same rule: their size is compared with a
//! limit before anything is allocated or counted by it, and the error names both. The limits are far above what is in use and
//! far below what ends a program. `docs/guide/limits.md` is made from these rows. What the app alone reads has its own rows
//! beside it (`store/limits.rs`, `hub/limits.rs`).

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use serde_json::Value;

use crate::{
    Error, Result,
    figures::{capitalized, count},
};

/// The most of something that is accepted from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is limited, as the end of a sentence: `the header of a safetensors file`.
    pub what: &'static str,
    /// The largest value that is accepted.
    pub most: u64,
    /// What it is counted in: `bytes`.
    pub unit: &'static str,
    /// Why it is not larger, and what is known to come near it.
    pub reason: &'static str,
}

/// Makes a constant of each row, and a list of all of them. Who needs the list only in tests says so before it.
#[macro_export]
macro_rules! limits {
    ($(#[$list:meta])* $vis:vis LIMITS; $($(#[$doc:meta])* $name:ident = $what:literal, $most:expr, $unit:literal, $reason:literal;)*) => {
        $($(#[$doc])* $vis const $name: $crate::limits::Limit = $crate::limits::Limit { what: $what, most: $most, unit: $unit, reason: $reason };)*
        /// All of them, in the order of the guide.
        $(#[$list])*
        $vis const LIMITS: &[$crate::limits::Limit] = &[$($name),*];
    };
}

limits! {
    pub LIMITS;

    /// `config.json` and the other small files of a model.
    MODEL_JSON = "a JSON file of a model", 16 << 20, "bytes",
        "the list of the 91,991 tensors of a model of 671 billion parameters has 9 MB; a config.json has some thousand bytes";
    /// `tokenizer.json`.
    TOKENIZER = "the file tokenizer.json", 256 << 20, "bytes",
        "vocabularies of 262,144 tokens take 33 MB, and a tokenizer in memory ten times its file";
    /// How much longer a tokenizer may make a text.
    GROWTH = "how much longer the steps of a tokenizer can make a text", 1024, "times",
        "known tokenizers make one six times as long at most; steps that repeat multiply";
    /// A word of a tokenizer.
    TOKEN = "a token of a tokenizer", 4 << 10, "bytes",
        "the longest in use have some hundred, and the library goes a level deeper on the stack for each byte";
    /// A text with stretches that can't be cut.
    ENDLESS_WORD = "a text that its tokenizer can’t take in pieces, such as a row of 100,000 spaces", 32 << 20, "bytes",
        "the library takes 130 bytes of memory for each of them";
    /// A chat template.
    TEMPLATE = "a chat template", 64 << 10, "bytes",
        "the longest of known models have 20 kB; each byte can be a level of nesting, and the time to compile one grows with the square of that";
    /// What a rendered conversation may have.
    RENDERED = "a text that a chat template makes", 32 << 20, "bytes",
        "a conversation of a million words has 6 MB, and a template can double a text in a loop";
    /// A list in a template.
    RENDERED_LIST = "a list that a chat template sorts or joins", 1_000_000, "items",
        "a conversation has a few hundred messages";
    /// A width in a template.
    RENDERED_WIDTH = "a width or a count of a filter of a chat template", 10_000, "letters",
        "they are indents and lengths of lines";
    /// Lists in lists in a template.
    RENDERED_DEPTH = "lists within lists of a chat template", 100, "levels",
        "descriptions of tools are some ten deep, and the library uses the stack for each level";
    /// What a template makes and reads.
    RENDERED_WORK = "the texts and lists that a chat template makes and reads", 128 << 20, "bytes",
        "templates read a message some ten times, and one can double a text in a loop";
    /// Instructions of a template.
    FUEL = "the work of a chat template", 2_000_000, "instructions",
        "templates take some hundred for a message, and one can loop for ever";
    /// The same where there are many messages.
    FUEL_PER_MESSAGE = "the work of a chat template for each message of a long conversation", 100_000, "instructions",
        "a thousand times what templates take";
    /// The header of a safetensors file.
    HEADER = "the header of a safetensors file", 100_000_000, "bytes",
        "the limit of the format’s own library";
    /// What bitsandbytes says beside a weight.
    PACKED_STATE = "what stands beside a weight in NF4", 64 << 10, "bytes",
        "it is a line of JSON with some 100, and all of it is read";
    /// Keys of a GGUF file.
    GGUF_KEYS = "keys of a GGUF file", 1 << 16, "keys",
        "those of known models have some fifty";
    /// Tensors of a GGUF file.
    GGUF_TENSORS = "tensors of a GGUF file", 1 << 20, "tensors",
        "one of 671 billion parameters has 1,025, with its experts in one tensor each";
    /// A list in a GGUF file.
    GGUF_LIST = "values of a key of a GGUF file", 1 << 24, "values",
        "the largest are the tokens of a vocabulary, of which the largest in use has 262,144";
    /// A text in a GGUF file.
    GGUF_TEXT = "bytes of a text in a GGUF file", 16 << 20, "bytes",
        "the longest are chat templates, of 20 kB";
    /// `all_config.yaml`.
    TORCH_CONFIG = "the settings beside a file of PyTorch", 64 << 10, "bytes",
        "those of a run have about 2 kB";
    /// `identifiers.json`.
    IDENTIFIERS = "the names of a data set’s puzzles", 256 << 20, "bytes",
        "those of ARC-AGI-2 with 1,000 looks of each task have 36 MB";
    /// What a file of PyTorch says it holds.
    TORCH_LIST = "the list of tensors in a file of PyTorch", 1 << 20, "bytes",
        "one of 20 tensors has 3 kB, and each byte can become a value of 60";
    /// The dimensions of a tensor.
    DIMENSIONS = "the shape of a tensor", 8, "dimensions",
        "weights of known models have at most five";
    /// A file of text that is read whole.
    TEXT_FILE = "a file of text, JSON or a table", 64 << 30, "bytes",
        "it is read whole and needs about three times its size in memory; Parquet stays on the disk, and several files can be named";
    /// A file of tasks of ARC, or what describes a folder of puzzles.
    PUZZLE_JSON = "a JSON file of puzzles", 256 << 20, "bytes",
        "the 1,000 tasks of ARC-AGI-2 have 4 MB, and the names of 1.2 million looks of them 60 MB";
    /// A puzzle to be solved.
    PUZZLE = "the file of a puzzle to solve", 4 << 20, "bytes",
        "the largest task of ARC takes some 60 kB with a number in each line, and a maze of 64 by 64 takes 4 kB";
    /// `votes.json` of a checkpoint.
    VOTES = "the votes of a run of ARC", 4 << 30, "bytes",
        "a thousand answers to each of 400 pairs, all different and of 900 cells, have 400 MB";
    /// Puzzles of a table.
    PUZZLES = "puzzles of a table", 10_000_000, "puzzles",
        "published sets of Sudoku have some million, and those that are wanted are held in memory";
    /// A row of a table of puzzles.
    PUZZLE_ROW = "a row of a table of puzzles", 64 << 10, "bytes",
        "a maze of 64 by 64 with its way has 8 kB, and a row is held in memory to find its columns";
    /// Looks of a task.
    LOOKS = "other looks of a task of ARC", 10_000, "looks",
        "runs have a thousand, each with a vector of its own, and all are drawn again wherever a task is asked";
    /// Cells of a puzzle of arrays.
    PUZZLE_CELLS = "cells of a puzzle in arrays", 1 << 16, "cells",
        "those of ARC have 900, and a model attends from each to each";
    /// Steps of thinking.
    SOLVE_STEPS = "steps of thinking about a puzzle", 1 << 10, "steps",
        "models learn with 16, and what each step thought is shown";
    /// Looks that vote.
    SOLVE_VOTES = "looks at a task that vote", 64, "looks",
        "all of them are computed at once";
    /// The header of an array.
    ARRAY_HEADER = "the header of an array of NumPy", 64 << 10, "bytes",
        "most have 118";
    /// The part of a Parquet file that says what it holds.
    PARQUET_FOOTER = "the footer of a Parquet file", 16 << 20, "bytes",
        "100,000 column chunks take half of it, and each byte can make the library ask for 200";
    /// What stands before the values of a page.
    PARQUET_HEADER = "the header of a page of a Parquet file", 16 << 20, "bytes",
        "most have some dozen; it can hold the smallest and the largest text of its page, twice";
    /// The values of a page.
    PARQUET_PAGE = "a page of a Parquet file without its compression", 256 << 20, "bytes",
        "most writers begin another at 1 MB, and room is made for all of it before anything is unpacked";
    /// Columns in columns.
    PARQUET_DEPTH = "columns of a Parquet file inside one another", 64, "levels",
        "data to learn from is nested three or four deep, and the library uses the stack for each level";
    /// Texts in one page.
    PARQUET_TEXTS = "texts in a page of a Parquet file whose lengths stand before them", 1 << 26, "texts",
        "pages of most files have a few thousand, and room is made for all of them at once";
    /// What the Hub's library says in a Parquet file.
    PARQUET_FEATURES = "what a Parquet file says of its columns for the Hub’s library", 16 << 20, "bytes",
        "a thousand names of classes have 20 kB; what is longer is not read";
    /// Texts of a folder of hidden states.
    STATES_ROWS = "the texts of a folder of hidden states", 1 << 30, "texts",
        "a probe needs some thousand, and all of them are read with their labels";
    /// Vectors of a site.
    STATES_VECTORS = "the hidden states of a site", 1 << 34, "vectors",
        "each token can be one, and a trillion bytes hold 60 million of the largest models";
    /// Numbers of a hidden state.
    STATES_WIDTH = "the width of hidden states", 1 << 20, "numbers",
        "the widest models have 18,432, and the mean and the largest values together twice that";
    /// Places of a decoder.
    STATES_SITES = "the sites of a folder of hidden states", 1 << 12, "sites",
        "a model has one for each block, and the deepest has some hundred";
    /// `rows.jsonl` of a folder of hidden states.
    STATES_TEXT = "the texts of hidden states in a file", 16 << 30, "bytes",
        "they are read whole; 31,500 short texts have 20 MB";
    /// How far values of HDF5 unfold.
    STATES_UNFOLDED = "how much longer the values of an HDF5 file are than the file", 1_100, "times",
        "deflate packs 1,032 bytes into one at best; values that nobody stored are made of nothing";
    /// `probes.safetensors`.
    PROBES = "the weights of probes", 16 << 30, "bytes",
        "those of 45 labels at each of 34 sites have 16 MB, and they are read whole";
    /// `probes.json`.
    PROBES_JSON = "the report of probes", 256 << 20, "bytes",
        "that of 45 labels at 26 sites has 1 MB, and it grows with both";
    /// The file of a picture.
    PICTURE_FILE = "the file of a picture", 512 << 20, "bytes",
        "100 million pixels take 300 MB as they are, and packed a tenth; it is read whole";
    /// The pixels of a picture.
    PICTURE_PIXELS = "a picture", 100_000_000, "pixels",
        "telephones make 12 to 50 million, and 200 million in a mode that few use; a hundred bytes can declare four billion";
    /// What decoding takes.
    PICTURE_MEMORY = "a picture while it is decoded", 512 << 20, "bytes",
        "the largest picture takes 300 MB with a byte for each colour";
    /// The sides that pictures are scaled to.
    PICTURE_SIDE = "the side of the pictures of a data set", 4_096, "pixels",
        "networks see 32 to 600";
    /// How many pictures.
    PICTURES = "pictures of a data set", 1 << 24, "pictures",
        "the largest in use that are labelled have 14 million; their names and labels are held in memory";
    /// The pixels of all pictures.
    PICTURE_SET = "the pixels of a data set", 1 << 40, "bytes",
        "a million pictures of 256 x 256 have 197 GB, in a file that is mapped";
    /// An array of pictures in a file.
    PICTURE_ARRAY = "an array of pictures", 16 << 30, "bytes",
        "it is held in memory; 60,000 pictures of 28 x 28 have 47 MB, and 814,255 of them 638 MB";
    /// A batch of CIFAR that Python wrote.
    PICTURE_PICKLE = "a batch of pictures that Python wrote", 512 << 20, "bytes",
        "the largest, the training part of CIFAR-100, has 155 MB";
    /// What is packed in an archive of CIFAR.
    PICTURE_ARCHIVE = "an archive of pictures without its compression", 2 << 30, "bytes",
        "those of CIFAR have some 180 MB, and 2 MB can unfold to this";
    /// Values of a pickle.
    PICTURE_VALUES = "values in a batch of pictures that Python wrote", 4 << 20, "values",
        "the training part of CIFAR-100 has some 200,000";
    /// What says the labels of pictures.
    PICTURE_METADATA = "the list of labels of a folder of pictures", 1 << 30, "bytes",
        "a million names with their labels have some 40 MB";
    /// Folders in folders.
    PICTURE_DEPTH = "folders of pictures inside one another", 32, "levels",
        "a class has three or four; a link can lead in circles";
    /// A vocabulary that is made from the data.
    NEW_VOCABULARY = "the vocabulary of a new tokenizer", 1 << 24, "tokens",
        "the largest in use have 262,144, and room for all of them is made before the first is found";
    /// Rows at once.
    BATCH_ROWS = "rows in a batch", 1 << 20, "rows",
        "each smaller number is looked at for one that fits";
    /// Batches of an update.
    ACCUMULATE = "batches in an update", 1 << 20, "batches",
        "the rows of an update are counted, and with the limit above the count stays exact";
    /// Devices that train one run.
    DEVICES = "devices of a run", 4096, "devices",
        "each may open four connections to the first";
    /// Tokens of a row.
    ROW_LENGTH = "the length of a row", 1 << 24, "tokens",
        "the longest context that a config.json may have";
    /// The width of an adapter.
    ADAPTER_RANK = "the rank of an adapter", 1 << 16, "columns",
        "wider than the weights that it stands beside";
    /// Steps of a run.
    STEPS = "steps in a run", 1 << 30, "steps",
        "at a hundred a second they take four months, and a forecast still goes through all of them in a moment";
}

/// The fields of a plan with a limit, by their paths.
pub const SETTINGS: [(&str, Limit); 13] = [
    ("batch.rows", BATCH_ROWS),
    ("batch.accumulate", ACCUMULATE),
    ("devices", DEVICES),
    ("batch.length", ROW_LENGTH),
    ("data.max_length", ROW_LENGTH),
    ("sample.tokens", ROW_LENGTH),
    ("scratch.vocab_size", NEW_VOCABULARY),
    ("lora.rank", ADAPTER_RANK),
    ("steps", STEPS),
    ("schedule.warmup_steps", STEPS),
    ("evaluate.every", STEPS),
    ("evaluate.batches", STEPS),
    ("save.keep_last", STEPS),
];

/// The first field of a plan that is above its limit, and what is wrong with it: a plan that was made here has none, and a person
/// can write one.
pub fn exceeded_setting(tree: &Value) -> Option<(&'static str, String)> {
    SETTINGS.iter().find_map(|(field, limit)| {
        let value = tree
            .pointer(&format!("/{}", field.replace('.', "/")))?
            .as_f64()?;
        // What is no number at all is said by whoever reads the field.
        Some((*field, limit.exceeded(value as u64)?))
    })
}

impl Limit {
    /// Whether so many are too many, and the end of a sentence that says so: `is 2,000,000, and 1,048,576 rows are the most`.
    pub fn exceeded(&self, found: u64) -> Option<String> {
        let (most, unit) = (count(self.most), self.unit);
        (found > self.most).then(|| format!("is {}, and {most} {unit} are the most", count(found)))
    }

    /// Reads a file whole, unless it is larger than this.
    ///
    /// Errors: [`Error::File`] when it can't be read, [`Error::Format`] with both sizes when it is too large.
    pub fn read(&self, path: &Path, action: &'static str) -> Result<Vec<u8>> {
        let file = File::open(path).map_err(Error::file(action, path))?;
        self.read_rest(Vec::new(), file, path, action)
    }

    /// The same of a file that is open, of which these bytes were read.
    pub fn read_rest(
        &self,
        mut bytes: Vec<u8>,
        file: File,
        path: &Path,
        action: &'static str,
    ) -> Result<Vec<u8>> {
        let failed = || Error::file(action, path);
        let length = file.metadata().map_err(failed())?.len();
        self.check_file(length, path)?;
        // What a file says of its length is not always so, as with pipes, and room for it is not always there.
        let room = usize::try_from(length).ok();
        let room = room.and_then(|length| bytes.try_reserve_exact(length).ok());
        room.ok_or_else(|| failed()(ErrorKind::OutOfMemory.into()))?;
        let mut rest = file.take(self.most.saturating_add(1));
        rest.read_to_end(&mut bytes).map_err(failed())?;
        self.check_file(bytes.len() as u64, path)?;
        Ok(bytes)
    }

    /// The same as text, or nothing where there is no file.
    pub fn read_text_if_there(&self, path: &Path, action: &'static str) -> Result<Option<String>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::file(action, path))?,
        };
        let bytes = self.read_rest(Vec::new(), file, path, action)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::format(path, format!("not UTF-8 at byte {at}"))
        });
        text.map(Some)
    }

    fn check_file(&self, length: u64, path: &Path) -> Result<()> {
        if length <= self.most {
            return Ok(());
        }
        let (most, unit) = (count(self.most), self.unit);
        let found = count(length);
        Err(Error::format(
            path,
            format!("the file has {found} {unit}, and {most} are the most that are read"),
        ))
    }
}

/// Rows as a table of the guide.
pub fn table(limits: &[Limit]) -> String {
    let head = "| What | At most | Why |\n|---|---|---|\n".to_owned();
    limits.iter().fold(head, |table, it| {
        let (what, most) = (capitalized(it.what), count(it.most));
        table + &format!("| {what} | {most} {} | {} |\n", it.unit, it.reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Limit = Limit {
        what: "a small file",
        most: 1_000,
        unit: "bytes",
        reason: "a test",
    };

    #[test]
    fn what_is_too_large_is_refused_by_its_size_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = File::create(&path).unwrap();
        file.set_len(1_000).unwrap();
        assert_eq!(FEW.read(&path, "read").unwrap().len(), 1_000);
        // No disk has so much: it is a hole, and its size alone is looked at.
        file.set_len(1 << 40).unwrap();
        let error = FEW.read(&path, "read").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "the file has 1,099,511,627,776 bytes, and 1,000 are the most that are read"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_number_above_its_limit_is_named_with_it() {
        assert_eq!(BATCH_ROWS.exceeded(1 << 20), None);
        assert_eq!(
            BATCH_ROWS.exceeded(1_000_000_000_000).unwrap(),
            "is 1,000,000,000,000, and 1,048,576 rows are the most"
        );
    }

    #[test]
    fn products_of_the_largest_batch_are_exact() {
        for other in [ACCUMULATE, ROW_LENGTH] {
            let product = BATCH_ROWS.most.checked_mul(other.most);
            assert!(product.is_some_and(|it| it < 1 << 53), "{}", other.what);
        }
    }

    #[test]
    fn a_plan_above_a_limit_is_refused_by_its_field() {
        let plan = |rows: f64| serde_json::json!({"steps": 10, "batch": {"rows": rows}});
        assert_eq!(exceeded_setting(&plan(8.0)), None);
        let (field, problem) = exceeded_setting(&plan(4_294_967_296.0)).unwrap();
        assert_eq!(field, "batch.rows");
        assert_eq!(problem, "is 4,294,967,296, and 1,048,576 rows are the most");
    }
}
