//! The rows of data, a page at a time: those with a problem first, then the others in order. What is given at once has a bound,
//! whatever the data holds.

use models::data::{
    Dataset,
    row::{Example, Message, Problem, Role, Row},
};
use serde::Serialize;
use specta::Type;

use super::{Counted, Looked};

/// The most rows of a page.
pub(crate) const MAX_ROWS: usize = 200;
/// The most letters of a page, shared by its rows: one alone is shown whole, or nearly.
const MAX_LETTERS: usize = 100_000;
/// A search reads so many bytes of text, and no more. Tests have less.
const MAX_SEARCHED: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Some rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataRowsView {
    /// How many rows there are, those with a problem too.
    pub(crate) total: usize,
    /// How many of them have the words; as far as they were searched.
    pub(crate) matching: usize,
    /// How many were searched: fewer than all where there is too much text.
    pub(crate) searched: usize,
    pub(crate) rows: Vec<DataRowView>,
}

/// A row as a page shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataRowView {
    /// Which of the files, from 0.
    pub(crate) file: usize,
    /// The line at which it begins, from 1.
    pub(crate) line: u32,
    /// What is said, in order. A row that can't be read says nothing.
    pub(crate) parts: Vec<DataPartView>,
    /// Whether more is said than is shown: a row that is asked for alone is shown nearly whole.
    pub(crate) is_cut: bool,
    /// How many tokens it has, once they are counted.
    pub(crate) tokens: Option<usize>,
    /// What is wrong with it, and what a library said.
    pub(crate) problem: Option<String>,
    pub(crate) details: Option<String>,
}

/// What is said in a row by one, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataPartView {
    /// Who speaks, in a conversation.
    pub(crate) role: Option<Role>,
    pub(crate) text: String,
    /// Whether the model is taught to say it.
    pub(crate) learned: bool,
}

/// Something that a line of the table is about.
#[derive(Clone, Copy)]
enum Item<'a> {
    Problem(&'a Problem),
    Row(usize, &'a Row),
    /// A line of a text without rows.
    Line(usize, u32, &'a str),
}

impl Looked {
    /// The rows from the `from`th on that have all the words, at most [`MAX_ROWS`].
    pub(crate) fn page(&self, words: &str, from: usize, count: usize) -> DataRowsView {
        let count = count.clamp(1, MAX_ROWS);
        let words = words.to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        let counted = self.counted();
        let counted = counted.as_deref();
        let mut page = DataRowsView {
            total: self.items(counted).count(),
            matching: 0,
            searched: 0,
            rows: Vec::new(),
        };
        let mut read = 0;
        for item in self.items(counted) {
            if !words.is_empty() {
                read += item.bytes();
                if read > MAX_SEARCHED && page.searched > 0 {
                    break;
                }
            }
            page.searched += 1;
            if item.has(&words) {
                if (from..from.saturating_add(count)).contains(&page.matching) {
                    page.rows
                        .push(self.shown(item, counted, MAX_LETTERS / count));
                }
                page.matching += 1;
            }
            if words.is_empty() && page.rows.len() == count {
                break;
            }
        }
        if words.is_empty() {
            (page.matching, page.searched) = (page.total, page.total);
        }
        page
    }

    /// All rows in the order of the table.
    fn items<'a>(&'a self, counted: Option<&'a Counted>) -> impl Iterator<Item = Item<'a>> {
        let Dataset {
            rows,
            problems,
            is_stream,
            ..
        } = &self.dataset;
        let is_refused = move |at: &usize| counted.is_some_and(|it| it.refused.contains_key(at));
        let of_rows = move |refused| {
            let all = rows.iter().enumerate().filter(move |_| !is_stream);
            let those = all.filter(move |(at, _)| is_refused(at) == refused);
            those.map(|(at, row)| Item::Row(at, row))
        };
        let lines = rows.iter().filter(|_| *is_stream).flat_map(|row| {
            let lines = match &row.example {
                Example::Text(text) => text.lines(),
                Example::Chat(_) => "".lines(),
            };
            let some = (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty());
            some.map(|(line, text)| Item::Line(row.file as usize, line, text))
        });
        let problems = problems.iter().map(Item::Problem);
        problems
            .chain(of_rows(true))
            .chain(of_rows(false))
            .chain(lines)
    }

    fn shown(&self, item: Item, counted: Option<&Counted>, letters: usize) -> DataRowView {
        let mut left = letters;
        let mut is_cut = false;
        let mut part = |role: Option<Role>, text: &str, learned: bool| {
            let end = text.char_indices().nth(left).map(|(end, _)| end);
            is_cut |= end.is_some();
            let text = &text[..end.unwrap_or(text.len())];
            left -= text.chars().count();
            DataPartView {
                role,
                text: text.to_owned(),
                learned,
            }
        };
        let shown = match item {
            Item::Problem(problem) => DataRowView {
                file: self.file_of(problem),
                line: problem.line,
                problem: Some(sentence(problem)),
                details: problem.details.clone(),
                ..DataRowView::default()
            },
            Item::Line(file, line, text) => DataRowView {
                file,
                line,
                parts: vec![part(None, text, true)],
                ..DataRowView::default()
            },
            Item::Row(at, row) => DataRowView {
                file: row.file as usize,
                line: row.line,
                parts: match &row.example {
                    Example::Text(text) => vec![part(None, text, true)],
                    Example::Chat(turns) => {
                        let learned = |role| role == Role::Assistant;
                        let turns = turns.iter();
                        turns
                            .map(|it| part(Some(it.role), &words_of(it), learned(it.role)))
                            .collect()
                    }
                },
                tokens: counted.and_then(|it| it.tokens.get(at).copied()),
                problem: counted.and_then(|it| it.refused.get(&at).cloned()),
                ..DataRowView::default()
            },
        };
        DataRowView { is_cut, ..shown }
    }

    fn file_of(&self, problem: &Problem) -> usize {
        let mut files = self.dataset.files.iter();
        files
            .position(|file| file.path == problem.path)
            .unwrap_or(0)
    }
}

impl Item<'_> {
    fn bytes(self) -> usize {
        match self {
            Self::Problem(problem) => problem.reason.len(),
            Self::Line(.., text) => text.len(),
            Self::Row(_, row) => match &row.example {
                Example::Text(text) => text.len(),
                Example::Chat(turns) => turns.iter().map(|it| it.content.len()).sum(),
            },
        }
    }

    /// Whether all words, in small letters, are said in it.
    fn has(self, words: &[&str]) -> bool {
        let all_in = |text: &str| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        if words.is_empty() {
            return true;
        }
        match self {
            Self::Problem(problem) => all_in(&problem.what()),
            Self::Line(.., text) => all_in(text),
            Self::Row(_, row) => match &row.example {
                Example::Text(text) => all_in(text),
                Example::Chat(turns) => {
                    let said: Vec<String> = turns.iter().map(words_of).collect();
                    all_in(&said.join("\n"))
                }
            },
        }
    }
}

/// What is wrong with a row that can't be read, with what it is about.
fn sentence(problem: &Problem) -> String {
    match (&problem.field, &problem.details) {
        (Some(_), _) => problem.what(),
        (None, Some(_)) => format!("this line {}", problem.reason),
        (None, None) => format!("this row {}", problem.reason),
    }
}

/// What a turn says; where it says nothing, what else there is about it, such as the call of a tool.
fn words_of(turn: &Message) -> String {
    match turn.content.is_empty() && !turn.extra.is_empty() {
        true => serde_json::Value::from(turn.extra.clone()).to_string(),
        false => turn.content.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, sync::Arc};

    use models::data::{DataRequest, encode::Learn};
    use tempfile::TempDir;

    use super::super::{super::Host, Counting};
    use super::*;

    /// Data in a file of this name.
    fn look(name: &str, text: &str) -> (TempDir, Host, Arc<Looked>) {
        let home = tempfile::tempdir().unwrap();
        let path: PathBuf = home.path().join(name);
        fs::write(&path, text).unwrap();
        let (host, _) = Host::open(Some(home.path())).unwrap();
        let request = DataRequest {
            paths: vec![path],
            ..DataRequest::default()
        };
        let looked = host.look_at_data(&request).unwrap();
        (home, host, looked)
    }

    fn exchange(question: &str, answer: &str) -> String {
        serde_json::json!({"prompt": question, "completion": answer}).to_string() + "\n"
    }

    fn lines(page: &DataRowsView) -> Vec<u32> {
        page.rows.iter().map(|row| row.line).collect()
    }

    #[test]
    fn problems_come_first_and_the_rest_in_order_a_page_at_a_time() {
        let rows: String = (1..=5).map(|it| exchange(&format!("Q{it}"), "A")).collect();
        let (_home, _, looked) = look("rows.jsonl", &(rows + "{\"prompt\": \"Q\n"));
        let page = looked.page("", 0, 3);
        assert_eq!((page.total, page.matching, page.searched), (6, 6, 6));
        assert_eq!(lines(&page), [6, 1, 2]);
        let broken = &page.rows[0];
        assert_eq!(
            broken.problem.as_deref(),
            Some("this line is not complete JSON")
        );
        assert!(
            broken.details.as_ref().unwrap().contains("column"),
            "{broken:?}"
        );
        assert_eq!(lines(&looked.page("", 3, 3)), [3, 4, 5]);
        assert_eq!(lines(&looked.page("", 9, 3)), [] as [u32; 0]);
        assert_eq!(looked.page("", usize::MAX, usize::MAX).rows, []);
    }

    #[test]
    fn what_the_assistant_says_is_what_is_learned() {
        let (_home, _, looked) = look("rows.jsonl", &exchange("Why?", "Because."));
        let [row] = &looked.page("", 0, 9).rows[..] else {
            panic!()
        };
        let parts = row
            .parts
            .iter()
            .map(|it| (it.role, it.text.as_str(), it.learned));
        let expected = [
            (Some(Role::User), "Why?", false),
            (Some(Role::Assistant), "Because.", true),
        ];
        assert!(parts.eq(expected), "{row:?}");
        assert_eq!(row.tokens, None, "nobody counted them");
    }

    #[test]
    fn a_search_finds_all_words_in_any_case_and_counts_what_it_found() {
        let rows = exchange("Where is Köln?", "On the Rhine.")
            + &exchange("Where is Rome?", "On the Tiber.");
        let (_home, _, looked) = look("rows.jsonl", &rows);
        let page = looked.page(" rhine KÖLN ", 0, 10);
        assert_eq!((page.total, page.matching, page.searched), (2, 1, 2));
        assert_eq!(lines(&page), [1]);
        assert_eq!(looked.page("where", 1, 10).matching, 2);
        assert_eq!(lines(&looked.page("where", 1, 10)), [2]);
        assert_eq!(looked.page("rhine tiber", 0, 10).rows, []);
    }

    #[test]
    fn a_search_of_too_much_text_says_how_far_it_came() {
        let long = "word ".repeat(MAX_SEARCHED / 8);
        let rows: String = (0..3).map(|_| exchange("Q", &long)).collect();
        let (_home, _, looked) = look("rows.jsonl", &rows);
        let page = looked.page("nothing", 0, 10);
        assert_eq!((page.total, page.matching, page.searched), (3, 0, 1));
    }

    #[test]
    fn a_page_has_a_bound_and_a_row_alone_is_shown_whole() {
        let long = "é".repeat(MAX_LETTERS / 2);
        let rows: String = (0..300)
            .map(|it| {
                exchange(
                    &it.to_string(),
                    &long[..if it < 2 { long.len() } else { 2 }],
                )
            })
            .collect();
        let (_home, _, looked) = look("rows.jsonl", &rows);
        let page = looked.page("", 0, 1000);
        assert_eq!(page.rows.len(), MAX_ROWS);
        let letters = |row: &DataRowView| {
            row.parts
                .iter()
                .map(|it| it.text.chars().count())
                .sum::<usize>()
        };
        assert!(page.rows[0].is_cut && letters(&page.rows[0]) <= MAX_LETTERS / MAX_ROWS);
        let alone = looked.page("", 1, 1);
        assert!(!alone.rows[0].is_cut);
        assert_eq!(letters(&alone.rows[0]), 1 + MAX_LETTERS / 2);
    }

    #[test]
    fn a_text_without_rows_is_shown_by_its_lines() {
        let (_home, _, looked) = look("notes.txt", "Hot steel.\n\nCold water.\n");
        let page = looked.page("", 0, 10);
        assert_eq!((lines(&page), page.total), (vec![1, 3], 2));
        assert!(page.rows[1].parts[0].learned);
        assert_eq!(lines(&looked.page("water", 0, 10)), [3]);
    }

    #[test]
    fn a_count_says_how_far_it_is_is_kept_and_can_be_ended() {
        let rows: String = (0..600)
            .map(|it| exchange(&format!("What is {it}?"), "A number."))
            .collect();
        let (_home, host, looked) = look("rows.jsonl", &rows);
        let how = || Counting {
            model: None,
            learn: Learn::default(),
            max_length: 0,
        };
        let ended = host
            .count_data(&looked, how(), &mut |rows| rows == 0)
            .unwrap();
        assert!(ended.is_none() && looked.counted().is_none());
        let mut heard = Vec::new();
        let mut hear = |rows| {
            heard.push(rows);
            true
        };
        let counted = host.count_data(&looked, how(), &mut hear).unwrap().unwrap();
        assert_eq!(counted.content.lengths.rows, 600);
        assert!(heard.ends_with(&[256, 512, 600]), "{heard:?}");
        let tokens = looked.page("", 0, 1).rows[0].tokens.unwrap();
        assert_eq!(tokens, counted.tokens[0]);
        let again = host
            .count_data(&looked, how(), &mut |_| panic!("it is known"))
            .unwrap()
            .unwrap();
        assert!(Arc::ptr_eq(&again, &counted));
    }

    #[test]
    fn data_is_read_again_only_when_its_file_changed() {
        let (home, host, looked) = look("rows.jsonl", &exchange("Q", "A"));
        let path = home.path().join("rows.jsonl");
        let request = DataRequest {
            paths: vec![path.clone()],
            skip_bad_rows: true,
            ..DataRequest::default()
        };
        assert!(Arc::ptr_eq(&host.look_at_data(&request).unwrap(), &looked));
        fs::write(path, exchange("Q", "A") + &exchange("R", "B")).unwrap();
        assert_eq!(host.look_at_data(&request).unwrap().page("", 0, 1).total, 2);
    }

    #[test]
    fn a_row_without_anything_to_learn_comes_first_once_it_is_counted() {
        let (_home, host, looked) = look(
            "rows.jsonl",
            &(exchange("Q", "A") + &exchange(&"long ".repeat(90), "A")),
        );
        let how = Counting {
            model: None,
            learn: Learn::default(),
            max_length: 20,
        };
        let counted = host
            .count_data(&looked, how, &mut |_| true)
            .unwrap()
            .unwrap();
        assert_eq!(counted.problems.len(), 1);
        let page = looked.page("", 0, 10);
        assert_eq!(lines(&page), [2, 1]);
        assert!(
            page.rows[0]
                .problem
                .as_ref()
                .unwrap()
                .contains("is to be learned")
        );
    }
}
