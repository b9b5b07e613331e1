//! Mazes: a start, a goal, and the shortest way between them, which is to be found.
//!
//! A maze is a text of its cells, row by row: `#` a wall, a space where one can walk, `S` the start, `G` the goal, and in the answer
//! `o` the path between them. Mazes of our own have exactly one shortest path, so that what is another answer is a wrong one.

use std::{collections::VecDeque, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::{figures::counted, random::Random};

/// Symbols: no cell, and the five below.
pub const SYMBOLS: usize = 6;
/// The letters of the symbols from 1.
pub const LETTERS: [char; SYMBOLS - 1] = ['#', ' ', 'S', 'G', 'o'];
/// Nobody can walk here.
pub const WALL: u32 = 1;
/// One can walk here.
pub const FREE: u32 = 2;
/// Where the path begins.
pub const START: u32 = 3;
/// Where the path ends.
pub const GOAL: u32 = 4;
/// A cell of the path.
pub const PATH: u32 = 5;
/// Rows of a maze, which are its columns too.
pub const SIZES: RangeInclusive<usize> = 5..=64;

/// A maze and its answer, as symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maze {
    /// What is given.
    pub cells: Vec<u8>,
    /// The same with the path.
    pub answer: Vec<u8>,
    /// Steps from the start to the goal.
    pub length: usize,
}

/// What is right about an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judgement {
    /// It has the maze as it is, and a path from the start to the goal without detours or other marks.
    pub is_path: bool,
    /// And no path is shorter.
    pub is_shortest: bool,
}

/// The way of an answer, in steps from the start to the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct PathLengths {
    /// Of its path. Nothing where the answer is no path.
    pub length: Option<usize>,
    /// Of the shortest one there is.
    pub shortest: usize,
}

/// The letter of a symbol.
pub fn letter(symbol: u32) -> char {
    let index = (symbol as usize).checked_sub(1);
    index.and_then(|it| LETTERS.get(it)).copied().unwrap_or(' ')
}

/// The symbols of a text. Errors name the cell.
pub fn symbols(text: &str, size: usize) -> Result<Vec<u8>, String> {
    let symbol = |(cell, letter): (usize, char)| {
        let found = LETTERS.iter().position(|it| *it == letter);
        found.map(|it| it as u8 + 1).ok_or_else(|| {
            let (row, column) = (cell / size + 1, cell % size + 1);
            format!(
                "row {row}, column {column} is “{letter}”, and has to be one of # S G o or a space"
            )
        })
    };
    text.chars().enumerate().map(symbol).collect()
}

/// The text of symbols.
pub fn text(cells: &[u8]) -> String {
    cells.iter().map(|it| letter(u32::from(*it))).collect()
}

/// Cells beside a cell.
fn beside(cell: usize, size: usize) -> impl Iterator<Item = usize> {
    let (row, column) = (cell / size, cell % size);
    let up = (row > 0).then(|| cell - size);
    let left = (column > 0).then(|| cell - 1);
    let right = (column + 1 < size).then(|| cell + 1);
    let down = (row + 1 < size).then(|| cell + size);
    [up, left, right, down].into_iter().flatten()
}

/// For each cell, the steps from `start` to it through cells where one can walk, and in how many shortest ways, up to 2.
fn distances(size: usize, start: usize, walks: impl Fn(usize) -> bool) -> Vec<Option<(usize, u8)>> {
    let mut found = vec![None; size * size];
    found[start] = Some((0, 1u8));
    let mut next = VecDeque::from([start]);
    while let Some(cell) = next.pop_front() {
        let Some((steps, ways)) = found[cell] else {
            continue;
        };
        for other in beside(cell, size).filter(|it| walks(*it)) {
            match &mut found[other] {
                Some((known, others)) if *known == steps + 1 => *others = (*others + ways).min(2),
                Some(_) => {}
                none => {
                    *none = Some((steps + 1, ways));
                    next.push_back(other);
                }
            }
        }
    }
    found
}

/// Goes back from the goal by cells each of which is a step nearer to the start, and marks them.
fn mark_way(size: usize, found: &[Option<(usize, u8)>], goal: usize, mark: &mut dyn FnMut(usize)) {
    let steps = |cell: usize| found[cell].map_or(usize::MAX, |it| it.0);
    let mut at = goal;
    while steps(at) > 1 {
        let nearer = beside(at, size).find(|it| steps(*it) == steps(at) - 1);
        let Some(cell) = nearer else { return };
        mark(cell);
        at = cell;
    }
}

/// Where the one cell with a symbol is.
fn only(cells: &[u32], symbol: u32) -> Option<usize> {
    let mut found = (0..cells.len()).filter(|cell| cells[*cell] == symbol);
    found.next().filter(|_| found.next().is_none())
}

/// What is right about an answer to a maze. A path that touches itself could be cut short, and is none.
pub fn judge(maze: &[u32], answer: &[u32]) -> Judgement {
    let size = maze.len().isqrt();
    let (Some(start), Some(goal)) = (only(maze, START), only(maze, GOAL)) else {
        return Judgement::default();
    };
    let is_kept = |(given, found): (&u32, &u32)| given == found || (*given, *found) == (FREE, PATH);
    if size * size != maze.len()
        || answer.len() != maze.len()
        || !maze.iter().zip(answer).all(is_kept)
    {
        return Judgement::default();
    }
    let steps = |walks: &dyn Fn(usize) -> bool| distances(size, start, walks)[goal].map(|it| it.0);
    let marked = answer.iter().filter(|it| **it == PATH).count();
    let walked = steps(&|cell| matches!(answer[cell], PATH | GOAL));
    let is_path = walked == Some(marked + 1);
    Judgement {
        is_path,
        is_shortest: is_path && walked == steps(&|cell| maze[cell] != WALL),
    }
}

/// How long the path of an answer is, beside the shortest way. Nothing where a maze has no way.
pub fn way(maze: &[u32], answer: &[u32]) -> Option<PathLengths> {
    let size = maze.len().isqrt();
    let (start, goal) = (only(maze, START)?, only(maze, GOAL)?);
    let (shortest, _) = distances(size, start, |cell| maze[cell] != WALL)[goal]?;
    let marked = answer.iter().filter(|it| **it == PATH).count();
    Some(PathLengths {
        length: judge(maze, answer).is_path.then_some(marked + 1),
        shortest,
    })
}

/// The cells that were filled in and can’t be of one path: marks where it ends or branches, and what is neither free nor a mark.
pub fn loose(maze: &[u32], answer: &[u32]) -> Vec<usize> {
    let size = maze.len().isqrt();
    let is_loose = |cell: &usize| match answer[*cell] {
        _ if maze[*cell] != FREE => false,
        FREE => false,
        PATH => {
            let next = beside(*cell, size).filter(|it| matches!(answer[*it], START | GOAL | PATH));
            next.count() != 2
        }
        _ => true,
    };
    (0..maze.len()).filter(is_loose).collect()
}

/// The answer to a maze, and whether it is the only shortest one. Errors say what the maze lacks.
pub fn solve(maze: &[u32]) -> Result<(Vec<u32>, bool), String> {
    let size = maze.len().isqrt();
    let place = |cell: usize| format!("row {}, column {}", cell / size + 1, cell % size + 1);
    let one = |symbol: u32, what: &str| {
        let found: Vec<usize> = (0..maze.len()).filter(|it| maze[*it] == symbol).collect();
        match found[..] {
            [cell] => Ok(cell),
            [] => Err(format!("the maze has no {what}")),
            [one, other, ..] => Err(format!(
                "the maze has {} of a {what}, and one is allowed: the first are in {} and in {}",
                found.len(),
                place(one),
                place(other)
            )),
        }
    };
    let (start, goal) = (one(START, "start (S)")?, one(GOAL, "goal (G)")?);
    let found = distances(size, start, |cell| maze[cell] != WALL);
    let Some((_, ways)) = found[goal] else {
        return Err(format!(
            "the maze has no way from its start in {} to its goal in {}",
            place(start),
            place(goal)
        ));
    };
    let mut answer = maze.to_vec();
    mark_way(size, &found, goal, &mut |cell| answer[cell] = PATH);
    Ok((answer, ways == 1))
}

/// The symbols of a maze as a person gives it: its cells in one line, or a line for each row, with spaces or dots where one can walk.
/// Spaces that were lost at the end of a line count. Errors name the row and the cell.
pub fn read(text: &str, size: usize) -> Result<Vec<u32>, String> {
    let text = text.trim_matches(['\r', '\n']).replace('.', " ");
    let text = match text.contains('\n') {
        true => joined(&text, size)?,
        false => text,
    };
    let count = text.chars().count();
    if count != size * size {
        let cells = counted(count as u64, "cell");
        return Err(format!(
            "the maze has {cells}, and the model’s have {size} rows of {size}: {}",
            size * size
        ));
    }
    let cells = symbols(&text, size)?;
    match cells.iter().position(|it| u32::from(*it) == PATH) {
        Some(cell) => Err(format!(
            "row {}, column {} is “o”: the path is what the model finds; leave the cell free",
            cell / size + 1,
            cell % size + 1
        )),
        None => Ok(cells.into_iter().map(u32::from).collect()),
    }
}

/// The rows of a maze as one line.
fn joined(text: &str, size: usize) -> Result<String, String> {
    let mut cells = String::new();
    for (row, line) in (1..).zip(text.lines()) {
        let count = line.chars().count();
        if count > size {
            return Err(format!(
                "row {row} of the maze has {count} cells, and the model’s have {size}"
            ));
        }
        cells.push_str(line);
        cells.extend(std::iter::repeat_n(' ', size - count));
    }
    match text.lines().count() {
        rows if rows == size => Ok(cells),
        rows => Err(format!(
            "the maze has {rows} rows, and the model’s have {size}"
        )),
    }
}

/// What is wrong with a maze and its answer, if anything is.
pub fn check(maze: &[u8], answer: &[u8]) -> Result<(), String> {
    let size = maze.len().isqrt();
    let place = |cell: usize| format!("row {}, column {}", cell / size + 1, cell % size + 1);
    let wide = |cells: &[u8]| cells.iter().map(|it| u32::from(*it)).collect::<Vec<u32>>();
    let (maze, answer) = (wide(maze), wide(answer));
    for (symbol, what) in [(START, "start (S)"), (GOAL, "goal (G)")] {
        if only(&maze, symbol).is_none() {
            let count = maze.iter().filter(|it| **it == symbol).count();
            return Err(format!("the maze has to have one {what}, and has {count}"));
        }
    }
    if let Some(cell) = maze.iter().position(|it| *it == PATH) {
        return Err(format!(
            "{} is “o” in the maze: the path is for the answer",
            place(cell)
        ));
    }
    let differs =
        |cell: &usize| maze[*cell] != answer[*cell] && (maze[*cell], answer[*cell]) != (FREE, PATH);
    if let Some(cell) = (0..maze.len()).find(differs) {
        let (given, found) = (letter(maze[cell]), letter(answer[cell]));
        return Err(format!(
            "{} is “{given}” in the maze and “{found}” in its answer",
            place(cell)
        ));
    }
    match judge(&maze, &answer).is_path {
        true => Ok(()),
        false => Err(
            "the marked cells of the answer are no path from S to G without other marks".to_owned(),
        ),
    }
}

/// How long the way of a maze is where nobody says so: longer than an eighth of its cells, 112 steps of 30 by 30.
pub fn usual_length(size: usize) -> usize {
    size * size / 8
}

/// A random maze whose only shortest path has more than so many steps. Nothing when this try has none.
pub fn make(size: usize, min_length: usize, random: &mut Random) -> Option<Maze> {
    let is_open = carve(size, random);
    let open: Vec<usize> = (0..is_open.len()).filter(|cell| is_open[*cell]).collect();
    let start = *random.choose(&open);
    let walks = |cell: usize| is_open[cell];
    let found = distances(size, start, walks);
    let far = |cell: &&usize| matches!(found[**cell], Some((steps, 1)) if steps > min_length);
    let goals: Vec<&usize> = open.iter().filter(far).collect();
    if goals.is_empty() {
        return None;
    }
    let goal = **random.choose(&goals);
    let mut cells: Vec<u8> = is_open
        .iter()
        .map(|it| if *it { FREE as u8 } else { WALL as u8 })
        .collect();
    (cells[start], cells[goal]) = (START as u8, GOAL as u8);
    let mut answer = cells.clone();
    mark_way(size, &found, goal, &mut |cell| answer[cell] = PATH as u8);
    Some(Maze {
        cells,
        answer,
        length: found[goal]?.0,
    })
}

/// Which cells of a random maze are open. It grows from one cell, mostly from where it grew last, and never beside two open cells, so
/// that there is one way to each; then some walls are taken away, so that there are several.
fn carve(size: usize, random: &mut Random) -> Vec<bool> {
    let mut is_open = vec![false; size * size];
    let first = random.below(size * size);
    is_open[first] = true;
    let mut ends = vec![first];
    // How winding it is differs from maze to maze.
    let winding = 0.5 + 0.5 * random.uniform();
    while !ends.is_empty() {
        let at = match random.uniform() < winding {
            true => ends.len() - 1,
            false => random.below(ends.len()),
        };
        let fits = |cell: &usize| {
            !is_open[*cell] && beside(*cell, size).filter(|it| is_open[*it]).count() == 1
        };
        let next: Vec<usize> = beside(ends[at], size).filter(fits).collect();
        match next.is_empty() {
            true => drop(ends.remove(at)),
            false => {
                let cell = *random.choose(&next);
                is_open[cell] = true;
                ends.push(cell);
            }
        }
    }
    for _ in 0..random.below(size * size / 40 + 1) {
        is_open[random.below(size * size)] = true;
    }
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAZE: &str = "S #  \
                        # ## \
                        #    \
                        ###  \
                        G    ";

    fn wide(cells: &[u8]) -> Vec<u32> {
        cells.iter().map(|it| u32::from(*it)).collect()
    }

    fn cells(text: &str) -> Vec<u8> {
        symbols(text, 5).unwrap()
    }

    #[test]
    fn an_answer_is_a_path_and_may_be_the_shortest() {
        let maze = cells(MAZE);
        let short = "So#  #o## #ooo ###o Gooo ";
        let long = "So#  #o## #oooo###  G    ";
        let detour = "So#  #o## #oooo###ooGoooo";
        let round = "So#  #o## #oooo### oGoooo";
        let cases = [
            (short, true, true),
            (long, false, false),
            (detour, false, false),
            (round, true, false),
            (MAZE, false, false),
            ("So#  #o## #ooo ###o Gooo#", false, false),
            ("So#  #oo# #ooo ###o Gooo ", false, false),
        ];
        for (answer, is_path, is_shortest) in cases {
            let answer = cells(answer);
            let found = judge(&wide(&maze), &wide(&answer));
            let expected = Judgement {
                is_path,
                is_shortest,
            };
            assert_eq!(found, expected, "{}", text(&answer));
            assert_eq!(check(&maze, &answer).is_ok(), is_path);
        }
        let error = check(&maze, &cells("So#  #oo# #ooo ###o Gooo ")).unwrap_err();
        assert_eq!(
            error,
            "row 2, column 3 is “#” in the maze and “o” in its answer"
        );
        let error = symbols("S..G", 2).unwrap_err();
        assert_eq!(
            error,
            "row 1, column 2 is “.”, and has to be one of # S G o or a space"
        );
    }

    #[test]
    fn mazes_of_our_own_have_one_shortest_path_that_is_long_enough() {
        let mut random = Random::new(3);
        for (size, min_length) in [(8, 10), (15, 30), (30, 110)] {
            let mut tries = 0;
            let some: Vec<Maze> = (0..4000)
                .inspect(|_| tries += 1)
                .filter_map(|_| make(size, min_length, &mut random))
                .take(10)
                .collect();
            assert_eq!(some.len(), 10, "{size}: {tries} tries");
            for maze in some {
                let (cells, answer) = (wide(&maze.cells), wide(&maze.answer));
                assert!(judge(&cells, &answer).is_shortest);
                assert!(maze.length > min_length);
                assert_eq!(
                    answer.iter().filter(|it| **it == PATH).count() + 1,
                    maze.length
                );
                let start = only(&cells, START).unwrap();
                let goal = only(&cells, GOAL).unwrap();
                assert_eq!(
                    distances(size, start, |it| cells[it] != WALL)[goal],
                    Some((maze.length, 1))
                );
            }
        }
    }
}
