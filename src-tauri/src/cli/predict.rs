//! `anneal predict`: what pictures show, by a trained model.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use console::{Color, style};
use models::{
    device::RequestedDevice,
    figures::counted,
    tasks::picture::classifier::{MAX_RANKED, Ranked},
    train::exhibit::HeatMap,
};
use serde_json::{Value, json};

use super::{
    Ended,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::{Host, predict::title},
    store::picture_files::pictures_in,
    wire::{
        error::{AppError, Result},
        predict::{AskedPicture, PictureAnswer, Predicted},
    },
};

/// The longest name that the others are lined up with, in letters.
const MAX_NAME: usize = 40;
/// Pixels in a line of a picture with its map.
const WIDTH: usize = 48;
/// How strongly a place speaks, where there are no colours.
const SHADES: [&str; 5] = ["  ", "░░", "▒▒", "▓▓", "██"];

/// Classify pictures.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run that was trained on pictures, or the folder of one of its checkpoints.
    #[arg(value_name = "RUN_OR_FOLDER")]
    model: String,
    /// Pictures, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many of the most probable classes to name for each picture.
    #[arg(long, value_name = "CLASSES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MAX_RANKED as i64))]
    top: u8,
    /// Show which parts of a picture speak for its class.
    #[arg(long)]
    map: bool,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let pictures = pictures_in(&arguments.files)?;
    if pictures.is_empty() {
        let named: Vec<String> = arguments
            .files
            .iter()
            .map(|it| format!("`{}`", it.display()))
            .collect();
        let named = named.join(", ");
        return Err(AppError::invalid(format!("there is no picture in {named}")));
    }
    let mut classifier = host.open_classifier(&arguments.model, arguments.device)?;
    for warning in &classifier.warnings {
        terminal.warn(warning);
    }
    let classes = &classifier.about.classes;
    terminal.note(format_args!(
        "{}, {}",
        title(&classifier.about),
        counted(classes.len() as u64, "class")
    ));
    let widths = Widths {
        name: widest(pictures.iter().map(|it| name(it))).min(MAX_NAME),
        class: widest(classes.iter().map(|it| printable(it))),
    };
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let side = if arguments.map { WIDTH } else { 0 };
    let mut unread = 0;
    for path in &pictures {
        if stop() {
            break;
        }
        let answer = classifier.predict(AskedPicture::File(path.clone()), side)?;
        unread += usize::from(matches!(answer, PictureAnswer::Unread(_)));
        if terminal.json {
            terminal.json(&told(path, &answer, &arguments))?;
            continue;
        }
        match answer {
            PictureAnswer::Predicted(it) => show(&name(path), &it, &widths, &arguments, terminal),
            PictureAnswer::Unread(problem) => {
                terminal.warn(format_args!("{} {problem}", name(path)));
            }
        }
    }
    match (stop(), unread) {
        (true, _) => Ok(Ended::Stopped),
        (false, 0) => Ok(Ended::Done),
        (false, unread) => Err(AppError::failed(format!(
            "{unread} of {} can’t be read",
            counted(pictures.len() as u64, "picture")
        ))),
    }
}

/// How wide the columns are.
struct Widths {
    name: usize,
    class: usize,
}

fn widest(words: impl Iterator<Item = String>) -> usize {
    words
        .map(|it| console::measure_text_width(&it))
        .max()
        .unwrap_or_default()
}

/// What a picture is called in a line.
fn name(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// A picture in JSON.
fn told(path: &Path, answer: &PictureAnswer, arguments: &Arguments) -> Value {
    let it = match answer {
        PictureAnswer::Unread(problem) => return json!({"picture": path, "problem": problem}),
        PictureAnswer::Predicted(it) => it,
    };
    let ranked = it.ranked.iter().take(arguments.top.into());
    let ranked: Vec<Value> = ranked
        .map(|it| {
            let mut told = json!({"class": it.class, "probability": it.probability});
            if let (Some(map), true) = (&it.map, arguments.map) {
                told["map"] = json!(map.strengths.chunks(map.columns.max(1)).collect::<Vec<_>>());
            }
            told
        })
        .collect();
    json!({"picture": path, "predictions": ranked, "millis": it.millis})
}

fn show(name: &str, it: &Predicted, widths: &Widths, arguments: &Arguments, terminal: &Terminal) {
    let line = line(name, it, widths, arguments.top.into());
    terminal.line(line.trim_end());
    if !arguments.map {
        return;
    }
    match it.ranked.first().and_then(|it| it.map.as_ref()) {
        Some(map) => {
            for line in match console::colors_enabled() {
                true => painted(it, map),
                false => shaded(map),
            } {
                terminal.line(line);
            }
        }
        None => terminal.note("the network has no map of places"),
    }
}

/// The line of a picture: its name, its class, how probable that is, and how long it took; then the next classes.
fn line(name: &str, it: &Predicted, widths: &Widths, top: usize) -> String {
    let pad = |text: &str, width| {
        console::pad_str(text, width, console::Alignment::Left, None).into_owned()
    };
    let Some((first, others)) = it.ranked.split_first() else {
        return name.to_owned();
    };
    let others: Vec<String> = others
        .iter()
        .take(top.saturating_sub(1))
        .map(|it| format!("{} {}", printable(&it.class), percent(it)))
        .collect();
    format!(
        "{}  {}  {:>7}  {:>6}  {}",
        pad(name, widths.name),
        pad(&printable(&first.class), widths.class),
        percent(first),
        format!("{:.0} ms", it.millis),
        style(others.join(", ")).dim()
    )
}

fn percent(it: &Ranked) -> String {
    format!("{:.1} %", it.probability * 100.0)
}

/// A map in shades.
fn shaded(map: &HeatMap) -> Vec<String> {
    let shade = |strength: &u8| SHADES[usize::from(*strength) * SHADES.len() / 256];
    let rows = map.strengths.chunks(map.columns.max(1));
    rows.map(|row| format!("  {}", row.iter().map(shade).collect::<String>()))
        .collect()
}

/// A picture with what speaks for its class in the colour of heat, two rows a line.
fn painted(it: &Predicted, map: &HeatMap) -> Vec<String> {
    let shape = it.shown.shape;
    let pixels = it.shown.clone().colours();
    let colour = |row: usize, column: usize| {
        let at = 3 * (row * shape.width + column);
        let pixel = pixels.get(at..at + 3)?;
        let place =
            row * map.rows / shape.height * map.columns + column * map.columns / shape.width;
        let heat = f32::from(*map.strengths.get(place)?) / 255.0;
        let grey = pixel.iter().map(|it| f32::from(*it)).sum::<f32>() / 3.0;
        let mixed = [240.0, 90.0, 30.0].map(|it| (grey + (it - grey) * heat * 0.7) as u8);
        Some(Color::TrueColor(mixed[0], mixed[1], mixed[2]))
    };
    let line = |row: usize| {
        let pair = |column| {
            let upper = colour(row, column)?;
            let lower = colour(row + 1, column).unwrap_or(Color::Black);
            Some(style("▀").fg(upper).bg(lower).to_string())
        };
        let all: Option<String> = (0..shape.width).map(pair).collect();
        format!("  {}", all.unwrap_or_default())
    };
    (0..shape.height).step_by(2).map(line).collect()
}

#[cfg(test)]
mod tests {
    use models::tasks::picture::pixels::{Picture, Shape};

    use super::*;

    fn predicted() -> Predicted {
        let ranked = |class: &str, probability| Ranked {
            class: class.to_owned(),
            probability,
            map: Some(HeatMap {
                rows: 2,
                columns: 2,
                strengths: vec![0, 60, 200, 255],
            }),
        };
        Predicted {
            ranked: vec![ranked("rose\u{7}", 0.912), ranked("tulip", 0.05)],
            millis: 12.4,
            width: 9,
            height: 9,
            shown: Picture {
                shape: Shape::square(4, 1),
                pixels: vec![100; 16],
            },
        }
    }

    #[test]
    fn a_picture_is_a_line_with_its_classes() {
        let widths = Widths { name: 6, class: 8 };
        let said = |top| {
            let line = line("a.png", &predicted(), &widths, top);
            console::strip_ansi_codes(&line).trim_end().to_owned()
        };
        assert_eq!(said(1), "a.png   rose␇      91.2 %   12 ms");
        assert_eq!(said(5), "a.png   rose␇      91.2 %   12 ms  tulip 5.0 %");
    }

    #[test]
    fn a_map_is_shaded_without_colours_and_painted_with_them() {
        let it = predicted();
        let map = it.ranked[0].map.clone().unwrap();
        assert_eq!(shaded(&map), ["    ░░", "  ▓▓██"]);
        let painted = painted(&it, &map);
        assert_eq!(painted.len(), 2, "two rows a line");
        let plain: Vec<_> = painted
            .iter()
            .map(|it| console::strip_ansi_codes(it))
            .collect();
        assert_eq!(plain, ["  ▀▀▀▀"; 2]);
    }
}
