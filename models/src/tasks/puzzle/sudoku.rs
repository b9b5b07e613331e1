//! Sudoku of any size whose boxes are whole: what is right, how many solutions there are, puzzles of our own, and other looks of one.
//!
//! A grid of n by n cells has the digits 1 to n once in each row, column and box. Cells are numbers, 0 where nothing is known.
//! Puzzles of our own start from a random full grid, of which cells are emptied in random order while there is one solution. Their
//! rating is how often a search takes a wrong way when it proves that; it is ours, and not that of any published set.

use super::grid::View;
use crate::random::Random;

/// The most digits.
pub const MAX_SIZE: usize = 25;
/// The most digits of a grid all of whose looks are compared.
const MAX_CANONICAL: usize = 9;
/// How often it is proven that a puzzle has one solution to rate it: the search is random where it has a choice.
const PROOFS: usize = 10;
/// The most givens that a step of [`Sudoku::harder`] takes away before it looks for others.
const MAX_DROPPED: usize = 3;
/// How many looks a search may take at a puzzle before it is given up. The hardest 9 by 9 take some thousands.
const MAX_LOOKS: usize = 1_000_000;

/// The shape of a Sudoku.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sudoku {
    /// Rows, columns and digits: n.
    pub size: usize,
    /// Rows of a box.
    pub box_rows: usize,
    /// Columns of a box.
    pub box_columns: usize,
}

/// How many solutions a puzzle has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Solutions {
    /// There is none.
    None,
    /// There is one, found after so many wrong ways.
    One {
        /// The full grid.
        grid: Vec<u8>,
        /// Ways of the search that led nowhere.
        dead_ends: usize,
    },
    /// There are several.
    Several,
    /// The search was given up.
    Unknown,
}

impl Sudoku {
    /// The shape of a grid with so many cells. Nothing where there is none: 4, 6, 8, 9, 12, 15, 16, 20 and 25 digits have one.
    pub fn of_cells(cells: usize) -> Option<Self> {
        let size = cells.isqrt();
        if size * size != cells || !(4..=MAX_SIZE).contains(&size) {
            return None;
        }
        let box_rows = (2..=size.isqrt())
            .rev()
            .find(|rows| size.is_multiple_of(*rows))?;
        Some(Self {
            size,
            box_rows,
            box_columns: size / box_rows,
        })
    }

    /// Cells of the grid.
    pub fn cells(self) -> usize {
        self.size * self.size
    }

    /// The three groups that a cell is in: its row, its column after the rows, its box after the columns.
    fn groups(self, cell: usize) -> [usize; 3] {
        let (row, column) = (cell / self.size, cell % self.size);
        let boxes = self.size / self.box_columns;
        let square = row / self.box_rows * boxes + column / self.box_columns;
        [row, self.size + column, 2 * self.size + square]
    }

    /// Two cells of one group with the same digit, if there are any.
    pub fn clash(self, grid: &[u8]) -> Option<(usize, usize)> {
        let mut taken = [0u32; 3 * MAX_SIZE];
        let mut given = grid.iter().enumerate().filter(|it| *it.1 > 0);
        let (cell, digit) = given.find(|(cell, digit)| {
            let groups = self.groups(*cell);
            let is_taken = groups
                .iter()
                .any(|group| taken[*group] & (1 << **digit) != 0);
            groups
                .into_iter()
                .for_each(|group| taken[group] |= 1 << **digit);
            is_taken
        })?;
        let share = |other: &usize| {
            let pairs = self.groups(*other).into_iter().zip(self.groups(cell));
            grid[*other] == *digit && pairs.into_iter().any(|(one, other)| one == other)
        };
        (0..cell).find(share).map(|other| (other, cell))
    }

    /// All cells whose digit is in a group twice, in order.
    pub fn clashes(self, grid: &[u8]) -> Vec<usize> {
        let mut counts = vec![[0usize; MAX_SIZE + 1]; 3 * self.size];
        for (cell, digit) in grid.iter().enumerate() {
            for group in self.groups(cell) {
                counts[group][usize::from(*digit)] += 1;
            }
        }
        let is_twice = |cell: &usize| {
            let digit = usize::from(grid[*cell]);
            digit > 0 && self.groups(*cell).iter().any(|it| counts[*it][digit] > 1)
        };
        (0..grid.len()).filter(is_twice).collect()
    }

    /// Solves a puzzle, and looks for a second solution.
    pub fn solve(self, puzzle: &[u8], random: &mut Random) -> Solutions {
        if self.clash(puzzle).is_some() {
            return Solutions::None;
        }
        let mut search = Search::new(self, puzzle);
        search.look(random, 2);
        match (search.looks > MAX_LOOKS, search.found.len()) {
            (_, 2..) => Solutions::Several,
            (true, _) => Solutions::Unknown,
            (false, 0) => Solutions::None,
            (false, _) => Solutions::One {
                grid: search.found.swap_remove(0),
                dead_ends: search.dead_ends,
            },
        }
    }

    /// A random full grid.
    pub fn full(self, random: &mut Random) -> Vec<u8> {
        loop {
            let mut search = Search::new(self, &vec![0; self.cells()]);
            search.look(random, 1);
            if let Some(grid) = search.found.pop() {
                return grid;
            }
        }
    }

    /// A random puzzle with one solution, and the solution. With `givens` no more cells are emptied than leave so many.
    pub fn make(self, givens: usize, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        let solution = self.full(random);
        let mut puzzle = solution.clone();
        self.empty(&mut puzzle, givens, random);
        (puzzle, solution)
    }

    /// Empties cells of a puzzle in random order while there is one solution.
    fn empty(self, puzzle: &mut [u8], givens: usize, random: &mut Random) {
        let mut order: Vec<usize> = (0..self.cells()).filter(|it| puzzle[*it] > 0).collect();
        random.shuffle(&mut order);
        let mut left = order.len();
        for cell in order {
            if left <= givens {
                break;
            }
            let digit = std::mem::replace(&mut puzzle[cell], 0);
            match self.solve(puzzle, random) {
                Solutions::One { .. } => left -= 1,
                _ => puzzle[cell] = digit,
            }
        }
    }

    /// How hard a puzzle with one solution is: how many ways of a search lead nowhere, the mean of several searches.
    pub fn rating(self, puzzle: &[u8], random: &mut Random) -> f64 {
        let dead_ends = |_| match self.solve(puzzle, random) {
            Solutions::One { dead_ends, .. } => dead_ends,
            _ => 0,
        };
        (0..PROOFS).map(dead_ends).sum::<usize>() as f64 / PROOFS as f64
    }

    /// Another puzzle with the same solution, near a puzzle: some of its givens are others, and no cell can be emptied.
    pub fn neighbour(self, puzzle: &[u8], solution: &[u8], random: &mut Random) -> Vec<u8> {
        let mut other = puzzle.to_vec();
        let mut given: Vec<usize> = (0..self.cells()).filter(|it| puzzle[*it] > 0).collect();
        random.shuffle(&mut given);
        let dropped = 1 + random.below(MAX_DROPPED);
        given.iter().take(dropped).for_each(|cell| other[*cell] = 0);
        let mut open: Vec<usize> = (0..self.cells()).filter(|it| other[*it] == 0).collect();
        random.shuffle(&mut open);
        for cell in open {
            if matches!(self.solve(&other, random), Solutions::One { .. }) {
                break;
            }
            other[cell] = solution[cell];
        }
        self.empty(&mut other, 0, random);
        other
    }

    /// Climbs so many steps from a puzzle to ones that are rated no lower. Nothing when `continues` says no meanwhile.
    pub fn harder(
        self,
        (puzzle, solution): (&[u8], &[u8]),
        steps: usize,
        random: &mut Random,
        continues: &dyn Fn() -> bool,
    ) -> Option<Vec<u8>> {
        let mut best = puzzle.to_vec();
        let mut rating = self.rating(&best, random);
        for _ in 0..steps {
            if !continues() {
                return None;
            }
            let other = self.neighbour(&best, solution, random);
            let others = self.rating(&other, random);
            if others >= rating {
                (best, rating) = (other, others);
            }
        }
        Some(best)
    }

    /// The look of a grid that comes first of all its looks, its digits counted as they appear: the same for all of them. Of more
    /// than 9 digits there are too many looks, and only the digits are counted.
    pub fn canonical(self, grid: &[u8]) -> Vec<u8> {
        let turned: Vec<u8> = (0..self.cells())
            .map(|cell| grid[cell % self.size * self.size + cell / self.size])
            .collect();
        let is_square = self.box_rows == self.box_columns;
        let grids = if is_square {
            vec![grid, &turned]
        } else {
            vec![grid]
        };
        let lines = |of_box| match self.size <= MAX_CANONICAL {
            true => orders(self.size, of_box),
            false => vec![(0..self.size).collect()],
        };
        let (rows, columns) = (lines(self.box_rows), lines(self.box_columns));
        let mut first = vec![u8::MAX; self.cells()];
        let mut look = vec![0; self.cells()];
        for grid in grids {
            for rows in &rows {
                for columns in &columns {
                    let lines = rows
                        .iter()
                        .flat_map(|row| columns.iter().map(move |column| row * self.size + column));
                    let (mut digits, mut known, mut is_less) = ([0; MAX_SIZE + 1], 0, false);
                    let is_first = lines.zip(0..).all(|(from, to): (usize, usize)| {
                        let digit = usize::from(grid[from]);
                        if digit > 0 && digits[digit] == 0 {
                            known += 1;
                            digits[digit] = known;
                        }
                        look[to] = digits[digit];
                        is_less |= look[to] < first[to];
                        is_less || look[to] == first[to]
                    });
                    if is_first {
                        first.copy_from_slice(&look);
                    }
                }
            }
        }
        first
    }

    /// The same puzzle with other digits, turned, and with its bands, rows, stacks and columns in another order: a way to look at
    /// grids of digits, drawn at random.
    pub fn look(self, random: &mut Random) -> View {
        let mut digits: Vec<u8> = (1..=self.size as u8).collect();
        random.shuffle(&mut digits);
        digits.insert(0, 0);
        // Where boxes are no squares, a turned grid is none.
        let turns = self.box_rows == self.box_columns && random.below(2) == 1;
        let lines = |of_box: usize, random: &mut Random| {
            let mut bands: Vec<usize> = (0..self.size / of_box).collect();
            random.shuffle(&mut bands);
            let mut lines = Vec::with_capacity(self.size);
            for band in bands {
                let mut within: Vec<usize> = (0..of_box).collect();
                random.shuffle(&mut within);
                lines.extend(within.into_iter().map(|line| band * of_box + line));
            }
            lines
        };
        let (rows, columns) = (
            lines(self.box_rows, random),
            lines(self.box_columns, random),
        );
        let from = |cell: usize| {
            let (row, column) = (rows[cell / self.size], columns[cell % self.size]);
            match turns {
                true => column * self.size + row,
                false => row * self.size + column,
            }
        };
        View {
            from: (0..self.cells()).map(from).collect(),
            symbols: digits,
        }
    }
}

/// A search for solutions: the cell with the fewest digits left first.
struct Search {
    shape: Sudoku,
    grid: Vec<u8>,
    /// The digits that each group has, a bit each.
    taken: Vec<u32>,
    found: Vec<Vec<u8>>,
    dead_ends: usize,
    looks: usize,
}

impl Search {
    fn new(shape: Sudoku, puzzle: &[u8]) -> Self {
        let mut search = Self {
            shape,
            grid: vec![0; shape.cells()],
            taken: vec![0; 3 * shape.size],
            found: Vec::new(),
            dead_ends: 0,
            looks: 0,
        };
        for (cell, digit) in puzzle.iter().enumerate().filter(|it| *it.1 > 0) {
            search.toggle(cell, *digit);
            search.grid[cell] = *digit;
        }
        search
    }

    fn toggle(&mut self, cell: usize, digit: u8) {
        for group in self.shape.groups(cell) {
            self.taken[group] ^= 1 << digit;
        }
    }

    /// The digits that a cell can still have, a bit each.
    fn left(&self, cell: usize) -> u32 {
        let [row, column, square] = self.shape.groups(cell);
        let taken = self.taken[row] | self.taken[column] | self.taken[square];
        ((1 << (self.shape.size + 1)) - 2) & !taken
    }

    /// The empty cells' digits by the fewest that are left: in a cell, or for a digit in a group.
    fn narrowest(&self, random: &mut Random) -> Option<Vec<(usize, u8)>> {
        let (mut fewest, mut best, mut ties) = (usize::MAX, None, 0);
        // The digits that have a place in each group, and those that have several.
        let (mut some, mut several) = ([0u32; 3 * MAX_SIZE], [0u32; 3 * MAX_SIZE]);
        for cell in (0..self.grid.len()).filter(|it| self.grid[*it] == 0) {
            let left = self.left(cell);
            let count = left.count_ones() as usize;
            ties = match count {
                _ if count < fewest => 1,
                _ => ties + usize::from(count == fewest),
            };
            if count < fewest || (count == fewest && random.below(ties) == 0) {
                (fewest, best) = (count, Some(cell));
            }
            if fewest == 0 {
                break;
            }
            for group in self.shape.groups(cell) {
                several[group] |= some[group] & left;
                some[group] |= left;
            }
        }
        let cell = best?;
        if fewest > 1 {
            let only = |group: &usize| some[*group] & !several[*group] != 0;
            if let Some(group) = (0..3 * self.shape.size).find(only) {
                let digit = (some[group] & !several[group]).trailing_zeros();
                let holds = |cell: &usize| {
                    let is_in = self.shape.groups(*cell).contains(&group);
                    is_in && self.grid[*cell] == 0 && self.left(*cell) & (1 << digit) != 0
                };
                let place = (0..self.grid.len()).find(holds)?;
                return Some(vec![(place, digit as u8)]);
            }
        }
        Some(digits(self.left(cell)).map(|digit| (cell, digit)).collect())
    }

    /// Looks for solutions until so many are found.
    fn look(&mut self, random: &mut Random, most: usize) {
        self.looks += 1;
        if self.looks > MAX_LOOKS {
            return;
        }
        let Some(mut choices) = self.narrowest(random) else {
            self.found.push(self.grid.clone());
            return;
        };
        if choices.is_empty() {
            self.dead_ends += 1;
        }
        random.shuffle(&mut choices);
        for (cell, digit) in choices {
            self.toggle(cell, digit);
            self.grid[cell] = digit;
            self.look(random, most);
            self.grid[cell] = 0;
            self.toggle(cell, digit);
            if self.found.len() >= most || self.looks > MAX_LOOKS {
                return;
            }
        }
    }
}

/// All orders of `size` lines that keep those of a box together.
fn orders(size: usize, of_box: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for bands in permutations(size / of_box) {
        let mut some = vec![Vec::new()];
        for band in bands {
            let within = permutations(of_box);
            some = some
                .iter()
                .flat_map(|begun: &Vec<usize>| {
                    within.iter().map(move |order| {
                        let lines = order.iter().map(|line| band * of_box + line);
                        begun.iter().copied().chain(lines).collect()
                    })
                })
                .collect();
        }
        all.extend(some);
    }
    all.retain(|order| !order.is_empty());
    all
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for next in 0..count {
        let insert = |order: &Vec<usize>| {
            let at = |place: usize| {
                let mut order = order.clone();
                order.insert(place, next);
                order
            };
            (0..=order.len()).map(at).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(insert).collect();
    }
    all
}

/// The digits of bits.
fn digits(bits: u32) -> impl Iterator<Item = u8> {
    (1..=MAX_SIZE as u8).filter(move |digit| bits & (1 << digit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Vec<u8> {
        let digit = |letter: char| letter.to_digit(10).unwrap_or(0) as u8;
        text.chars().map(digit).collect()
    }

    #[test]
    fn a_published_puzzle_has_its_published_solution() {
        // The example of the article about Sudoku in the English Wikipedia.
        let puzzle = grid(
            "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
        );
        let solution = grid(
            "534678912672195348198342567859761423426853791713924856961537284287419635345286179",
        );
        let shape = Sudoku::of_cells(81).unwrap();
        let mut random = Random::new(1);
        match shape.solve(&puzzle, &mut random) {
            Solutions::One { grid, dead_ends } => {
                assert_eq!((grid, dead_ends), (solution.clone(), 0))
            }
            other => panic!("{other:?}"),
        }
        let mut open = puzzle.clone();
        open[0..9].fill(0);
        open[30..50].fill(0);
        assert_eq!(shape.solve(&open, &mut random), Solutions::Several);
        let mut wrong = puzzle.clone();
        wrong[80] = 8;
        assert_eq!(shape.clash(&wrong), Some((61, 80)));
        let mut wrong = puzzle;
        wrong[2] = 5;
        assert_eq!(shape.clash(&wrong), Some((0, 2)));
        assert_eq!(shape.solve(&wrong, &mut random), Solutions::None);
    }

    #[test]
    fn puzzles_of_our_own_have_one_solution_at_every_size() {
        let mut random = Random::new(7);
        for cells in [16, 36, 81] {
            let shape = Sudoku::of_cells(cells).unwrap();
            let (puzzle, solution) = shape.make(0, &mut random);
            let rating = shape.rating(&puzzle, &mut random);
            match shape.solve(&puzzle, &mut random) {
                Solutions::One { grid, .. } => assert_eq!(grid, solution),
                other => panic!("{other:?}"),
            }
            assert!(puzzle.iter().filter(|it| **it == 0).count() > cells / 3);
            assert!(rating < 100.0);
            let (easy, _) = shape.make(cells - 3, &mut random);
            assert_eq!(easy.iter().filter(|it| **it == 0).count(), 3);
        }
        assert_eq!(Sudoku::of_cells(49), None);
        assert_eq!(Sudoku::of_cells(17), None);
    }

    #[test]
    fn a_puzzle_becomes_harder_step_by_step_and_keeps_its_solution() {
        let mut random = Random::new(4);
        let shape = Sudoku::of_cells(81).unwrap();
        let (puzzle, solution) = shape.make(0, &mut random);
        let climb = |steps, random: &mut Random| {
            shape
                .harder((&puzzle, &solution), steps, random, &|| true)
                .unwrap()
        };
        assert_eq!(climb(0, &mut random), puzzle);
        let harder = climb(30, &mut random);
        let rated =
            [&puzzle, &harder].map(|it| (0..5).map(|_| shape.rating(it, &mut random)).sum::<f64>());
        assert!(rated[1] > rated[0], "{rated:?}");
        assert!(
            matches!(shape.solve(&harder, &mut random), Solutions::One { grid, .. } if grid == solution)
        );
        assert_eq!(
            shape.harder((&puzzle, &solution), 5, &mut random, &|| false),
            None
        );
    }

    #[test]
    fn all_looks_of_a_puzzle_have_one_canonical_look() {
        let mut random = Random::new(9);
        for cells in [16, 36] {
            let shape = Sudoku::of_cells(cells).unwrap();
            let puzzles = [(); 2].map(|()| shape.make(0, &mut random).0);
            let forms = puzzles.each_ref().map(|it| shape.canonical(it));
            assert_ne!(forms[0], forms[1]);
            for _ in 0..5 {
                let look = shape.look(&mut random).of(&puzzles[0]);
                assert_eq!(shape.canonical(&look), forms[0]);
            }
        }
        let shape = Sudoku::of_cells(81).unwrap();
        assert_eq!(orders(9, 3).len(), 1296);
        assert_eq!(orders(shape.size, shape.box_rows)[0].len(), 9);
    }

    #[test]
    fn another_look_of_a_puzzle_has_the_other_look_of_its_solution() {
        let mut random = Random::new(5);
        for cells in [16, 36, 81] {
            let shape = Sudoku::of_cells(cells).unwrap();
            let (puzzle, solution) = shape.make(0, &mut random);
            for _ in 0..20 {
                let look = shape.look(&mut random);
                let (puzzle, solution) = (look.of(&puzzle), look.of(&solution));
                assert_eq!(shape.clash(&solution), None);
                match shape.solve(&puzzle, &mut random) {
                    Solutions::One { grid, .. } => assert_eq!(grid, solution),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
