//! Grids of puzzles in a terminal: a Sudoku with its boxes, a maze with its walls, a grid of ARC in its colours.

use console::style;
use models::tasks::puzzle::{
    arc,
    board::{Board, BoardKind},
    maze,
};

use super::terminal::printable;

/// The ground of each colour of ARC, as terminals number them, and whether the digit on it is white.
const COLOURS: [(u8, bool); arc::COLOURS] = [
    (16, true),
    (26, true),
    (160, true),
    (34, true),
    (220, false),
    (246, false),
    (163, true),
    (208, false),
    (117, false),
    (88, true),
];

/// A wall of a maze, as wide as all of its cells.
pub(super) const WALL: &str = "██";

/// The lines of a grid. What `look` makes of a cell and its symbol is how it is seen.
pub(super) fn drawn(
    board: &Board,
    cells: &[u32],
    look: &dyn Fn(usize, String) -> String,
) -> Vec<String> {
    match board.kind {
        BoardKind::Sudoku => boxes(board, cells, look),
        BoardKind::Maze => cells
            .chunks(board.columns)
            .enumerate()
            .map(|(row, line)| walls(row * board.columns, line, look))
            .collect(),
        BoardKind::Arc => coloured(&arc::crop(cells).lines()),
    }
}

/// A row of a maze whose first cell has this number: each cell is two letters wide, so that it is about as wide as high.
fn walls(first: usize, line: &[u32], look: &dyn Fn(usize, String) -> String) -> String {
    let cell = |(cell, symbol): (usize, &u32)| match *symbol {
        maze::WALL => look(cell, WALL.to_owned()),
        symbol => {
            let letter = maze::letter(symbol);
            let beside = if letter == ' ' { "  " } else { " " };
            match letter {
                ' ' => beside.to_owned(),
                letter => look(cell, letter.to_string()) + beside,
            }
        }
    };
    (first..).zip(line).map(cell).collect()
}

/// The lines of a grid of colours: their digits, on their colours where the terminal has some.
pub(super) fn coloured(rows: &[Vec<u8>]) -> Vec<String> {
    let cell = |colour: &u8| {
        let (ground, is_white) = COLOURS[usize::from(*colour) % arc::COLOURS];
        let text = style(format!("{colour} ")).on_color256(ground);
        match is_white {
            true => text.color256(231),
            false => text.color256(16),
        }
        .to_string()
    };
    let line = |row: &Vec<u8>| row.iter().map(cell).collect();
    rows.iter().map(line).collect()
}

/// Lines beside each other. Those on the left have so many columns.
pub(super) fn beside(left: &[String], right: &[String]) -> Vec<String> {
    let width = |line: &String| console::measure_text_width(line);
    let widest = left.iter().map(width).max().unwrap_or(0);
    let line = |at: usize| {
        let one = left.get(at).cloned().unwrap_or_default();
        let other = right.get(at).map_or("", String::as_str);
        let room = " ".repeat(widest - width(&one));
        format!("{one}{room}    {other}").trim_end().to_owned()
    };
    (0..left.len().max(right.len())).map(line).collect()
}

/// The lines of a Sudoku, with lines between its boxes.
fn boxes(board: &Board, cells: &[u32], look: &dyn Fn(usize, String) -> String) -> Vec<String> {
    let width = board
        .symbols
        .iter()
        .map(|it| it.chars().count())
        .max()
        .unwrap_or(1);
    let mut lines = Vec::new();
    let is_edge = |at: usize, of_box: usize| of_box > 0 && at > 0 && at.is_multiple_of(of_box);
    for row in 0..board.rows {
        let mut line = String::new();
        let mut rule = String::new();
        for column in 0..board.columns {
            if is_edge(column, board.box_columns) {
                line += "│ ";
                rule += "┼─";
            }
            let cell = row * board.columns + column;
            let symbol = board.text(&cells[cell..=cell]);
            line += &look(cell, format!("{:>width$}", printable(&symbol)));
            line.push(' ');
            rule += &"─".repeat(width + 1);
        }
        if is_edge(row, board.box_rows) {
            rule.pop();
            lines.push(rule);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use models::tasks::puzzle::grid::Shape;

    use super::*;

    fn plain(lines: &[String]) -> Vec<String> {
        let plain = |line: &String| console::strip_ansi_codes(line).trim_end().to_owned();
        lines.iter().map(plain).collect()
    }

    #[test]
    fn a_sudoku_is_drawn_with_its_boxes() {
        let board = Board::of(Shape::of(16, 6)).unwrap();
        let cells: Vec<u32> = (0..16).map(|cell| cell % 4 + 1).collect();
        let expected = [
            ". 1 │ 2 3",
            ". 1 │ 2 3",
            "────┼────",
            ". 1 │ 2 3",
            ". 1 │ 2 3",
        ];
        assert_eq!(plain(&drawn(&board, &cells, &|_, symbol| symbol)), expected);
    }

    #[test]
    fn a_maze_is_drawn_with_its_walls_and_a_task_with_the_digits_of_its_colours() {
        let board = Board::of(Shape::Maze(5)).unwrap();
        let cells = maze::symbols("So#  #o## #ooo ###o Gooo ", 5).unwrap();
        let cells: Vec<u32> = cells.into_iter().map(u32::from).collect();
        let expected = ["S o ██", "██o ████", "██o o o", "██████o", "G o o o"];
        assert_eq!(plain(&drawn(&board, &cells, &|_, symbol| symbol)), expected);
        let (one, other) = (coloured(&[vec![1, 0], vec![2, 9]]), coloured(&[vec![3]]));
        assert_eq!(plain(&beside(&one, &other)), ["1 0     3", "2 9"]);
    }
}
