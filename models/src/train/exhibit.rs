//! What a model shows of itself while it learns, as data: each form is drawn by one part of the window and one of the terminal.

use serde::{Deserialize, Serialize};

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exhibit {
    /// A text, such as what a language model wrote.
    Text {
        /// What it was given.
        title: String,
        /// What it made of that.
        text: String,
    },
    /// Cells in rows, such as a puzzle.
    Grid {
        /// What it is.
        title: String,
        /// The cells, row by row. All rows are of one length.
        rows: Vec<Vec<String>>,
        /// Cells that are marked, by row and column from 0.
        marks: Vec<Mark>,
    },
    /// A puzzle that is filled in, step by step. Grids are texts of one letter for each cell, row by row, with a dot where nothing is
    /// known.
    Puzzle {
        /// What it is, the same whenever it is shown: `Puzzle 1`.
        title: String,
        /// How its cells are drawn. Runs of earlier versions have symbols only.
        #[serde(default)]
        drawn: Drawn,
        /// Cells of a row.
        columns: usize,
        /// Rows of a box. 0 where there are no boxes.
        box_rows: usize,
        /// Cells in a row of a box.
        box_columns: usize,
        /// What is given.
        given: String,
        /// What it should be.
        target: String,
        /// What it was after each step of thinking.
        guesses: Vec<String>,
        /// How probable it was to the model then that all is right, from 0 to 1.
        halts: Vec<f32>,
    },
    /// A picture with what a model sees in it.
    Image {
        /// What it is.
        title: String,
        /// What the model says it shows.
        label: String,
        /// What it shows, if that is known.
        expected: Option<String>,
        /// Pixels in a row.
        width: usize,
        /// Red, green and blue of each pixel, row by row, as base64.
        #[serde(with = "packed")]
        #[cfg_attr(feature = "specta", specta(type = String))]
        pixels: Vec<u8>,
        /// How sure the model is of what it says, from 0 to 1, if it says so.
        #[serde(default)]
        confidence: Option<f32>,
        /// Which places speak for what it says, if that is known.
        #[serde(default)]
        map: Option<HeatMap>,
    },
    /// What was said of things of each class.
    Confusion {
        /// What it is.
        title: String,
        /// The classes, in the order of rows and columns.
        classes: Vec<String>,
        /// How many of the class of a row were said to be of the class of a column.
        counts: Vec<Vec<u32>>,
        /// Some of the pictures that were counted. Runs of earlier versions have none.
        #[serde(default)]
        examples: Vec<Example>,
    },
    /// Figures in rows.
    Table {
        /// What it is.
        title: String,
        /// The names of the columns.
        columns: Vec<String>,
        /// The rows, as long as the columns.
        rows: Vec<Vec<String>>,
    },
}

/// A picture that is counted in a cell of a confusion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Example {
    /// The class that it is of, from 0.
    pub row: usize,
    /// The class that it was said to be of, from 0.
    pub column: usize,
    /// What it is called.
    pub title: String,
    /// How sure the model was of what it said, from 0 to 1.
    pub confidence: f32,
    /// Pixels in a row.
    pub width: usize,
    /// Red, green and blue of each pixel, row by row, as base64.
    #[serde(with = "packed")]
    #[cfg_attr(feature = "specta", specta(type = String))]
    pub pixels: Vec<u8>,
}

/// How strongly the places of a picture speak for something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct HeatMap {
    /// Places from top to bottom.
    pub rows: usize,
    /// Places from left to right.
    pub columns: usize,
    /// How strongly each speaks, row by row: 255 is the strongest, 0 nothing. As base64.
    #[serde(with = "packed")]
    #[cfg_attr(feature = "specta", specta(type = String))]
    pub strengths: Vec<u8>,
}

/// Bytes in a line of JSON as base64: four letters for three bytes.
pub(crate) mod packed {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(de::Error::custom)
    }
}

/// How the cells of a grid are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// As they are written; what is given stays.
    #[default]
    Symbols,
    /// `#` is a wall, `S` and `G` are the ends of a way, and `o` is on it; what is given stays.
    Maze,
    /// Digits are colours, and a dot is no cell. What is given is another grid than what is found.
    Colours,
}

/// A marked cell of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Mark {
    /// From the top, from 0.
    pub row: usize,
    /// From the left, from 0.
    pub column: usize,
    /// What is said of it.
    pub meaning: Meaning,
}

/// What a mark says of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// It was given, not found.
    Given,
    /// It was found, and is right.
    Right,
    /// It was found, and is wrong.
    Wrong,
}
