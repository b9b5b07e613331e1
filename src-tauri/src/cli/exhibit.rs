//! What a model shows of itself, in a terminal.

use std::fmt::Write;

use console::{Color, style};
use models::train::exhibit::{Drawn, Exhibit, Meaning};

use super::terminal::{printable, table};

/// The most characters that a picture is wide.
const IMAGE_WIDTH: usize = 48;

/// The lines of an exhibit.
pub(super) fn drawn(exhibit: &Exhibit) -> String {
    match exhibit {
        Exhibit::Text { title, text } => {
            let title = style(printable(title)).for_stderr().dim();
            format!("{title}{}", printable(text))
        }
        Exhibit::Grid { title, rows, marks } => {
            let mut lines = vec![heading(title)];
            let width = rows
                .iter()
                .flatten()
                .map(|cell| printable(cell).chars().count())
                .max();
            for (row, cells) in rows.iter().enumerate() {
                let mut line = String::new();
                for (column, cell) in cells.iter().enumerate() {
                    let mark = marks.iter().find(|it| (it.row, it.column) == (row, column));
                    let cell = format!("{:>1$} ", printable(cell), width.unwrap_or(1));
                    let cell = style(cell).for_stderr();
                    let cell = match mark.map(|it| it.meaning) {
                        Some(Meaning::Given) => cell.dim(),
                        Some(Meaning::Right) => cell.green(),
                        Some(Meaning::Wrong) => cell.red().bold(),
                        None => cell,
                    };
                    // Writing to a string can't fail.
                    let _ = write!(line, "{cell}");
                }
                lines.push(line.trim_end().to_owned());
            }
            lines.join("\n")
        }
        Exhibit::Puzzle { .. } => puzzle(exhibit),
        Exhibit::Image { .. } => image(exhibit),
        Exhibit::Confusion {
            title,
            classes,
            counts,
            ..
        } => confusion(title, classes, counts),
        Exhibit::Table {
            title,
            columns,
            rows,
        } => {
            let cells = |row: &[String]| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>();
            let rows = rows.iter().map(|row| cells(row));
            let all: Vec<_> = std::iter::once(cells(columns)).chain(rows).collect();
            format!("{}\n{}", heading(title), table(&all).join("\n"))
        }
    }
}

/// A picture with what the model says of it.
fn image(exhibit: &Exhibit) -> String {
    let Exhibit::Image {
        title,
        label,
        expected,
        width,
        pixels,
        confidence,
        ..
    } = exhibit
    else {
        return String::new();
    };
    let seen = match expected {
        Some(expected) if expected != label => format!(
            "{}, and is {}",
            style(printable(label)).for_stderr().red(),
            printable(expected)
        ),
        _ => style(printable(label)).for_stderr().green().to_string(),
    };
    let sure = confidence.map(|it| format!(" ({:.0} %)", it * 100.0));
    let picture = picture(*width, pixels).unwrap_or_default();
    format!(
        "{}: {seen}{}{picture}",
        heading(title),
        sure.unwrap_or_default()
    )
}

/// What was said of each class, a row each.
fn confusion(title: &str, classes: &[String], counts: &[Vec<u32>]) -> String {
    let names = classes.iter().map(|it| printable(it));
    let head = std::iter::once("is / said".to_owned()).chain(names.clone());
    let mut all: Vec<Vec<String>> = vec![head.collect()];
    for (name, counts) in names.zip(counts) {
        let counts = counts.iter().map(|it| match it {
            0 => "·".to_owned(),
            count => count.to_string(),
        });
        all.push(std::iter::once(name).chain(counts).collect());
    }
    format!("{}\n{}", heading(title), table(&all).join("\n"))
}

/// A puzzle as it was filled in at last.
fn puzzle(exhibit: &Exhibit) -> String {
    let Exhibit::Puzzle {
        title,
        drawn,
        columns,
        given,
        target,
        guesses,
        ..
    } = exhibit
    else {
        return String::new();
    };
    let last = guesses.last().map_or(given.as_str(), String::as_str);
    let cells: Vec<(char, char, char)> = given
        .chars()
        .zip(target.chars())
        .zip(last.chars())
        .map(|((given, target), guess)| match drawn {
            // A grid of colours is found whole: all of it is open, and where neither has a cell there is none.
            Drawn::Colours if (target, guess) == ('.', '.') => (' ', target, ' '),
            Drawn::Colours => ('.', target, guess),
            Drawn::Symbols | Drawn::Maze => (given, target, guess),
        })
        .collect();
    let open = cells.iter().filter(|it| it.0 == '.').count();
    let wrong = cells
        .iter()
        .filter(|it| it.0 == '.' && it.1 != it.2)
        .count();
    let came = match wrong {
        0 => "solved".to_owned(),
        _ => format!("{} of {open} right", open - wrong),
    };
    let mut lines = vec![heading(&format!("{title}: {came}"))];
    for row in cells.chunks((*columns).max(1)) {
        let cell = |(given, target, guess): &(char, char, char)| {
            let cell = style(format!("{guess} ")).for_stderr();
            let cell = match (*given == '.', target == guess) {
                (false, _) => cell.dim(),
                (true, true) => cell.green(),
                (true, false) => cell.red().bold(),
            };
            cell.to_string()
        };
        // Rows beyond a grid of colours have nothing.
        if row.iter().any(|it| it.0 != ' ') {
            let line: String = row.iter().map(cell).collect();
            lines.push(line.trim_end().to_owned());
        }
    }
    lines.join("\n")
}

fn heading(title: &str) -> String {
    style(printable(title)).for_stderr().dim().to_string()
}

/// Pixels as half blocks, two rows a line, where the terminal has colours.
fn picture(width: usize, pixels: &[u8]) -> Option<String> {
    if !console::colors_enabled_stderr() || width == 0 {
        return None;
    }
    let height = pixels.len() / 3 / width;
    let step = width.div_ceil(IMAGE_WIDTH).max(1);
    let color = |row: usize, column: usize| {
        let at = 3 * (row * width + column);
        let pixel = pixels.get(at..at + 3)?;
        Some(Color::TrueColor(pixel[0], pixel[1], pixel[2]))
    };
    let mut drawn = String::new();
    for row in (0..height).step_by(2 * step) {
        drawn.push('\n');
        for column in (0..width).step_by(step) {
            let upper = color(row, column)?;
            let lower = color(row + step, column).unwrap_or(Color::Black);
            let _ = write!(drawn, "{}", style("▀").for_stderr().fg(upper).bg(lower));
        }
    }
    Some(drawn)
}

#[cfg(test)]
mod tests {
    use models::train::exhibit::Mark;

    use super::*;

    #[test]
    fn every_exhibit_is_drawn_in_words() {
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let mark = Mark {
            row: 1,
            column: 0,
            meaning: Meaning::Wrong,
        };
        let title = || "It".to_owned();
        let cases = [
            (
                Exhibit::Text {
                    title: "To be".to_owned(),
                    text: ", or not\u{1b}[2J".to_owned(),
                },
                "To be, or not␛[2J",
            ),
            (
                Exhibit::Grid {
                    title: title(),
                    rows: vec![words(&["1", "2"]), words(&["10", "4"])],
                    marks: vec![mark],
                },
                "It\n 1  2\n10  4",
            ),
            (
                Exhibit::Puzzle {
                    title: title(),
                    drawn: Drawn::Symbols,
                    columns: 2,
                    box_rows: 0,
                    box_columns: 0,
                    given: "1...".to_owned(),
                    target: "1234".to_owned(),
                    guesses: vec!["1233".to_owned()],
                    halts: vec![0.5],
                },
                "It: 2 of 3 right\n1 2\n3 3",
            ),
            (
                Exhibit::Image {
                    title: title(),
                    label: "cat".to_owned(),
                    expected: Some("dog".to_owned()),
                    width: 1,
                    pixels: vec![0, 0, 0],
                    confidence: Some(0.8),
                    map: None,
                },
                "It: cat, and is dog (80 %)",
            ),
            (
                Exhibit::Table {
                    title: title(),
                    columns: words(&["layer", "accuracy"]),
                    rows: vec![words(&["10", "0.75"])],
                },
                "It\nlayer  accuracy\n10     0.75",
            ),
        ];
        for (exhibit, expected) in cases {
            let plain = console::strip_ansi_codes(&drawn(&exhibit)).into_owned();
            let plain = plain
                .lines()
                .map(str::trim_end)
                .collect::<Vec<_>>()
                .join("\n");
            assert_eq!(plain, expected);
        }
    }

    #[test]
    fn what_was_said_of_each_class_is_a_row_of_counts() {
        let exhibit = Exhibit::Confusion {
            title: "It".to_owned(),
            classes: ["cat", "dog"].map(str::to_owned).to_vec(),
            counts: vec![vec![3, 0], vec![1, 12]],
            examples: Vec::new(),
        };
        let plain = console::strip_ansi_codes(&drawn(&exhibit)).into_owned();
        let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
        let expected = [
            "It",
            "is / said  cat  dog",
            "cat        3    ·",
            "dog        1    12",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_grid_of_colours_is_judged_whole_and_ends_where_it_ends() {
        let exhibit = Exhibit::Puzzle {
            title: "It".to_owned(),
            drawn: Drawn::Colours,
            columns: 2,
            box_rows: 0,
            box_columns: 0,
            given: "1.2.".to_owned(),
            target: "12..".to_owned(),
            guesses: vec!["13..".to_owned()],
            halts: vec![0.5],
        };
        let plain = console::strip_ansi_codes(&drawn(&exhibit)).into_owned();
        assert_eq!(plain, "It: 1 of 2 right\n1 3");
    }
}
