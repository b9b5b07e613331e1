//! What is written where: results on stdout; progress, notes, warnings and errors on stderr.
//!
//! Colours and progress bars appear only on a terminal. A reader that goes away, such as `head`, is no error.

use std::{
    fmt::Display,
    io::{self, BufRead, IsTerminal, Write},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use console::{StyledObject, Term, style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike, WeakProgressBar};
use serde::Serialize;

use crate::{
    lock::locked,
    wire::error::{AppError, Result},
};

/// Where the answers go, and how they look.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Whether answers are JSON.
    pub(crate) json: bool,
    /// Whether only answers are written.
    pub(crate) quiet: bool,
}

impl Terminal {
    pub(crate) fn new(json: bool, quiet: bool, no_color: bool) -> Self {
        // An empty NO_COLOR means nothing by its standard, https://no-color.org.
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if no_color || unwanted || json {
            console::set_colors_enabled(false);
            console::set_colors_enabled_stderr(false);
        }
        Self { json, quiet }
    }

    /// Whether a progress bar can be seen.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.json && !self.quiet && console::user_attended_stderr()
    }

    /// A line of the answer.
    pub(crate) fn line(&self, text: impl Display) {
        let _ = writeln!(io::stdout().lock(), "{text}");
    }

    /// A part of the answer, seen at once.
    pub(crate) fn part(&self, text: impl Display) {
        let mut stdout = io::stdout().lock();
        let _ = write!(stdout, "{text}").and_then(|()| stdout.flush());
    }

    /// The answer, or one event of it, in one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        let text =
            serde_json::to_string(value).map_err(|error| AppError::failed(error.to_string()))?;
        self.line(text);
        Ok(())
    }

    /// A table of the answer.
    pub(crate) fn table(&self, rows: &[Vec<String>]) {
        for line in table(rows) {
            self.line(line);
        }
    }

    /// A question, with room for an answer behind it.
    pub(crate) fn ask(&self, question: impl Display) {
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    }

    /// Asks a question that is answered with yes or no. Without somebody to answer, nothing is done, and `instead` says what
    /// to do.
    pub(crate) fn confirm(&self, question: impl Display, instead: &str) -> Result<bool> {
        if !io::stdin().is_terminal() {
            let question = question.to_string();
            return Err(
                AppError::invalid(format!("nobody can be asked here: {question}"))
                    .with_hint(instead),
            );
        }
        self.ask(format_args!("{question} [y/N] "));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| AppError::failed(format!("could not read the answer: {error}")))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Something beside the answer.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet && !self.json {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// A bar with more beside it, which takes so many letters mostly, and its message at the end, of which is shown what fits into
    /// the line. Nobody sees it before [`Self::show`].
    pub(crate) fn bar(&self, beside: &str, letters: usize) -> ProgressBar {
        let bar = ProgressBar::hidden();
        let width = usize::from(Term::stderr().size().1);
        let width = width.saturating_sub(letters).clamp(4, 30);
        let template = format!("{{bar:{width}.cyan/dim}} {beside}{{wide_msg}}");
        if let Ok(shape) = ProgressStyle::with_template(&template) {
            bar.set_style(shape.progress_chars("━╸ "));
        }
        bar
    }

    /// Shows a bar, where somebody wants to see one.
    pub(crate) fn show(&self, bar: &ProgressBar) {
        if self.shows_progress() {
            let screen = Box::new(RoomForInterrupt(Term::buffered_stderr()));
            bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(
                screen,
                DRAWS_A_SECOND,
            ));
            *locked(&SHOWN) = Some(bar.downgrade());
        }
    }

    /// A line about what is running, where there is no bar to show it, and not too often: `last` is when there was one.
    pub(crate) fn note_without_bar(
        &self,
        bar: &ProgressBar,
        last: &mut Option<Instant>,
        text: impl FnOnce() -> String,
    ) {
        if bar.is_hidden() && last.is_none_or(|last| last.elapsed() > LINE_EVERY) {
            self.note(text());
            *last = Some(Instant::now());
        }
    }

    /// Something that is probably not wanted, above a bar if one is seen.
    pub(crate) fn warn_above(&self, bar: &ProgressBar, text: impl Display) {
        self.note_above(bar, format_args!("{} {text}", warning()));
    }

    /// Something beside the answer, above a bar if one is seen.
    pub(crate) fn note_above(&self, bar: &ProgressBar, text: impl Display) {
        bar.suspend(|| self.note(text));
    }

    /// Something that is probably not wanted.
    pub(crate) fn warn(&self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{} {text}", warning());
    }

    /// What went wrong, and what to try.
    pub(crate) fn error(&self, error: &AppError) {
        let mut stderr = io::stderr().lock();
        if self.json {
            let value = serde_json::json!({ "error": error });
            let _ = writeln!(stderr, "{value}");
            return;
        }
        let word = style("error:").for_stderr().red().bold();
        let _ = writeln!(stderr, "{word} {error}");
        for other in &error.others {
            let _ = writeln!(stderr, "{word} {other}");
        }
        if let Some(details) = &error.details {
            let word = style("details:").for_stderr().bold();
            let _ = writeln!(stderr, "{word} {details}");
        }
        if let Some(hint) = &error.hint {
            let word = style("hint:").for_stderr().cyan().bold();
            let _ = writeln!(stderr, "{word} {hint}");
        }
    }
}

fn warning() -> StyledObject<&'static str> {
    style("warning:").for_stderr().yellow().bold()
}

/// Without a terminal there is no progress bar, but a line this often.
const LINE_EVERY: Duration = Duration::from_secs(15);
/// The bar that was last shown.
static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);
/// How often a bar is drawn at most.
const DRAWS_A_SECOND: u8 = 20;

/// A terminal whose last columns are left free by what draws lines of its full width. A terminal shows Ctrl-C by itself, as `^C`
/// where the cursor is; behind a full line that begins the next one, and a bar clears only the line where the cursor is.
#[derive(Debug)]
struct RoomForInterrupt<T>(T);

impl<T: TermLike> RoomForInterrupt<T> {
    /// Two letters, and one for the cursor.
    const COLUMNS: u16 = 3;
}

impl<T: TermLike> TermLike for RoomForInterrupt<T> {
    fn width(&self) -> u16 {
        self.0.width().saturating_sub(Self::COLUMNS)
    }

    fn height(&self) -> u16 {
        self.0.height()
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Text that a model wrote or a file held, without what would steer the terminal: control characters become signs.
pub(crate) fn printable(text: &str) -> String {
    let sign = |letter: char| match letter {
        '\n' | '\t' => letter,
        '\0'..='\x1f' => {
            char::from_u32(0x2400 + letter as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\x7f' => '\u{2421}',
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    };
    text.chars().map(sign).collect()
}

/// A table whose columns are as wide as their widest cell. Cells may have colours.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| console::measure_text_width(cell))
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| {
            console::pad_str(cell, width, console::Alignment::Left, None).into_owned()
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// How often Ctrl-C was pressed since this was called. The second time, the program ends at once.
///
/// A process has one handler, so a command that trains and then chats asks twice for the same count.
pub(crate) fn count_interrupts() -> Result<&'static AtomicUsize> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let handler = || {
        if COUNT.fetch_add(1, Ordering::SeqCst) > 0 {
            let shown = locked(&SHOWN).take();
            if let Some(bar) = shown.and_then(|bar| bar.upgrade()) {
                bar.finish_and_clear();
            }
            // Asked twice: nothing may keep the program, so this is the one place that ends it at once.
            #[allow(clippy::disallowed_methods)]
            std::process::exit(i32::from(super::STOPPED));
        }
    };
    let set =
        HANDLER.get_or_init(|| ctrlc::set_handler(handler).map_err(|error| error.to_string()));
    if let Err(words) = set {
        return Err(AppError::failed(format!(
            "could not listen for Ctrl-C: {words}"
        )));
    }
    COUNT.store(0, Ordering::SeqCst);
    Ok(&COUNT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn text_cannot_steer_the_terminal() {
        let text = "a\tb\nc\x1b[31m\r\0\x7f\u{9b}é";
        assert_eq!(printable(text), "a\tb\nc␛[31m␍␀␡\u{fffd}é");
    }

    /// What is written to a terminal of 40 columns.
    #[derive(Debug, Clone, Default)]
    struct Written(Arc<Mutex<String>>);

    impl TermLike for Written {
        fn width(&self) -> u16 {
            40
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            locked(&self.0).push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\r")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_terminal_shows_of_an_interrupt_stays_on_the_line_that_a_bar_clears() {
        let written = Written::default();
        let narrow = usize::from(u16::MAX);
        let bar = Terminal::new(false, false, true).bar("{pos}/{len}  {eta} left  ", narrow);
        let screen = Box::new(RoomForInterrupt(written.clone()));
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(screen, 255));
        bar.set_length(7);
        for message in ["", "short", "much longer than there is room for in a line"] {
            bar.set_message(message);
            bar.force_draw();
        }
        let text = locked(&written.0).clone();
        assert!(text.contains("short"), "{text:?}");
        for line in text.split('\r') {
            assert!(
                console::measure_text_width(line) + "^C".len() < 40,
                "{line:?}"
            );
        }
        bar.finish_and_clear();
        assert!(locked(&written.0).ends_with('\r'));
    }

    #[test]
    fn columns_of_a_table_line_up() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), ["a    bb  c", "aaa  b"]);
    }
}
