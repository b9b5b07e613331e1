//! Tasks of ARC (the Abstraction and Reasoning Corpus): pairs of grids of which the second follows from the first, by a rule that has
//! to be found from a few of them.
//!
//! Each task is stored once. What is learned from is one of its looks: turned or mirrored, with other colours, in another place of
//! the 30 by 30 cells. Each look of a task is a puzzle with a vector of its own in the table, and the looks of a task are a group. As
//! the reference does it, but made when it is asked for: 7 GB of its files are 3 MB here.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    examples::{Pick, row},
    grid::{TURNED_BACK, TURNS, UNLABELLED, turned, turned_size},
    halting::Row,
};
use crate::random::Random;

/// Rows and columns of all cells.
pub const SIDE: usize = 30;
/// Cells.
pub const CELLS: usize = SIDE * SIDE;
/// Symbols: no cell, the end of a grid, and ten colours.
pub const SYMBOLS: usize = 12;
/// Colours of a grid.
pub const COLOURS: usize = 10;
/// The symbol of colour 0.
const FIRST_COLOUR: u8 = 2;
/// The symbol beside and below a grid.
const END: u8 = 1;
/// For so many looks as are wanted, so many times as many are drawn: a task with few colours has few of them.
const TRIES: usize = 5;

/// A grid of colours, 0 to 9.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grid {
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// The colours, row by row.
    pub cells: Vec<u8>,
}

/// A grid and the one that follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// What is given.
    pub input: Grid,
    /// What follows from it, if that is known.
    pub output: Option<Grid>,
}

/// A task of ARC: pairs that show a rule, and inputs to apply it to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name: `007bbfb7`.
    pub name: String,
    /// Pairs that show the rule.
    pub train: Vec<Pair>,
    /// Pairs that ask for it.
    pub test: Vec<Pair>,
    /// Whether the pairs that ask are measured with. Otherwise they are learned from too.
    pub is_measured: bool,
}

/// A way to see a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// How it is turned or mirrored, as in [`turned`].
    pub turn: u8,
    /// For each colour, the one that stands for it. 0 stands for itself.
    pub colours: [u8; COLOURS],
}

/// Tasks with their looks.
#[derive(Debug, PartialEq)]
pub struct Tasks {
    /// So many other looks of each, at most.
    pub augmentations: usize,
    /// What they are drawn from.
    pub seed: u64,
    /// The tasks as their files have them, in the order of `looks` and `ids`.
    pub tasks: Vec<Task>,
    /// The looks of each. The first is the task as it is.
    pub looks: Vec<Vec<Look>>,
    /// The vector of the first look of each task. The others follow it.
    pub ids: Vec<u32>,
}

/// The pairs of tasks that are learned from, or those that are measured with.
#[derive(Debug, Clone, PartialEq)]
pub struct ArcExamples {
    /// What the pairs belong to. `pairs` refers to its tasks by their place.
    pub tasks: Arc<Tasks>,
    /// The task of each group, and which of its pairs: those that show come first, then those that ask.
    pub pairs: Vec<(usize, Range<usize>)>,
    /// The number of the first example of each group.
    before: Vec<usize>,
}

impl Grid {
    /// Its colours, row by row.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let rows = self.cells.chunks(self.columns.max(1));
        rows.map(<[u8]>::to_vec).collect()
    }

    /// The grid as symbols of all cells, its corner the first of them, without what shows where it ends.
    pub fn on_all_cells(&self) -> Vec<u32> {
        let symbol = |symbol: u8| match symbol {
            END => 0,
            symbol => u32::from(symbol),
        };
        encode(self, (0, 0)).map(symbol).to_vec()
    }

    fn seen(&self, look: &Look) -> Self {
        let (rows, columns) = turned_size(self.rows, self.columns, look.turn);
        let from = turned(self.rows, self.columns, look.turn);
        let colour = |from: usize| look.colours[usize::from(self.cells[from])];
        Self {
            rows,
            columns,
            cells: from.into_iter().map(colour).collect(),
        }
    }
}

impl Look {
    /// The task as it is.
    pub const PLAIN: Self = Self {
        turn: 0,
        colours: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    };

    fn draw(random: &mut Random) -> Self {
        let turn = random.below(TURNS) as u8;
        let mut colours = Self::PLAIN.colours;
        random.shuffle(&mut colours[1..]);
        Self { turn, colours }
    }

    /// A grid, seen so.
    pub fn of(&self, grid: &Grid) -> Grid {
        grid.seen(self)
    }

    /// A grid that was seen so, as it is.
    pub fn undo(&self, grid: &Grid) -> Grid {
        let mut colours = [0; COLOURS];
        for (colour, seen) in (0u8..).zip(self.colours) {
            colours[usize::from(seen)] = colour;
        }
        let back = Self {
            turn: TURNED_BACK[usize::from(self.turn)],
            colours,
        };
        back.of(grid)
    }

    /// The name of a task that is seen so, as the reference writes it.
    pub fn name(&self, task: &str) -> String {
        match *self == Self::PLAIN {
            true => task.to_owned(),
            false => {
                let colours: String = self.colours.iter().map(u8::to_string).collect();
                format!("{task}|||t{}|||{colours}", self.turn)
            }
        }
    }
}

impl Task {
    /// A pair: those that show come first, then those that ask.
    pub fn pair(&self, index: usize) -> &Pair {
        let asking = index.checked_sub(self.train.len());
        asking.map_or_else(|| &self.train[index], |index| &self.test[index])
    }

    /// A pair, seen so, with a vector, its upper left corner at a row and a column.
    pub fn row(&self, pair: usize, look: &Look, id: u32, place: (usize, usize)) -> Row {
        let pair = self.pair(pair);
        let output = pair.output.as_ref().map(|it| look.of(it));
        example((&look.of(&pair.input), output.as_ref()), id, place)
    }

    /// The task as it is and up to `most` other looks of it, no two of which look the same.
    pub fn looks(&self, most: usize, seed: u64) -> Vec<Look> {
        let mut random = Random::for_purpose(seed, &format!("looks of task {}", self.name));
        let forms: Vec<(Vec<u8>, Vec<u8>)> = (0..TURNS as u8).map(|turn| self.form(turn)).collect();
        // Two looks are the same where the turned task is, but for its colours, and each of them gets the same colour.
        let key = |look: &Look| {
            let (form, order) = &forms[usize::from(look.turn)];
            let same = forms.iter().position(|(other, _)| other == form);
            let colours: Vec<u8> = order
                .iter()
                .map(|it| look.colours[usize::from(*it)])
                .collect();
            (same, colours)
        };
        let mut looks = vec![Look::PLAIN];
        let mut seen = BTreeSet::from([key(&Look::PLAIN)]);
        for _ in 0..most.saturating_mul(TRIES) {
            if looks.len() > most {
                break;
            }
            let look = Look::draw(&mut random);
            if seen.insert(key(&look)) {
                looks.push(look);
            }
        }
        looks
    }

    /// All grids of the task, turned, with its colours numbered as they appear, and in which order they do. 0 stays 0.
    fn form(&self, turn: u8) -> (Vec<u8>, Vec<u8>) {
        let look = Look {
            turn,
            ..Look::PLAIN
        };
        let pairs = self.train.iter().chain(&self.test);
        let grids = pairs.flat_map(|it| std::iter::once(&it.input).chain(&it.output));
        let (mut form, mut order) = (Vec::new(), Vec::new());
        for grid in grids {
            let grid = look.of(grid);
            form.extend([grid.rows as u8, grid.columns as u8]);
            for colour in grid.cells {
                if colour > 0 && !order.contains(&colour) {
                    order.push(colour);
                }
                let number = order.iter().position(|it| *it == colour);
                form.push(number.map_or(0, |it| it as u8 + 1));
            }
        }
        (form, order)
    }
}

impl Tasks {
    /// Tasks with up to so many other looks of each, drawn from a seed.
    pub fn new(tasks: Vec<Task>, augmentations: usize, seed: u64) -> Self {
        let looks: Vec<Vec<Look>> = tasks
            .iter()
            .map(|it| it.looks(augmentations, seed))
            .collect();
        // 0 is the vector of what is known of no task.
        let mut next = 1;
        let first = |looks: &Vec<Look>| {
            let id = next;
            next += looks.len() as u32;
            id
        };
        Self {
            augmentations,
            seed,
            ids: looks.iter().map(first).collect(),
            looks,
            tasks,
        }
    }

    /// Vectors of the table.
    pub fn id_count(&self) -> usize {
        1 + self.looks.iter().map(Vec::len).sum::<usize>()
    }
}

impl ArcExamples {
    /// What is learned from, and what is measured with.
    pub fn split(tasks: Tasks) -> (Self, Self) {
        let tasks = Arc::new(tasks);
        let pairs = |of: &dyn Fn(&Task) -> Range<usize>| {
            let all = tasks.tasks.iter().map(of).enumerate();
            Self::of(&tasks, all.filter(|(_, pairs)| !pairs.is_empty()).collect())
        };
        let all = |task: &Task| task.train.len() + task.test.len();
        let learned = pairs(&|task| match task.is_measured {
            true => 0..task.train.len(),
            // An answer that is not known teaches nothing.
            false if task.test.iter().any(|it| it.output.is_none()) => 0..task.train.len(),
            false => 0..all(task),
        });
        let measured = pairs(&|task| match task.is_measured {
            true => task.train.len()..all(task),
            false => 0..0,
        });
        (learned, measured)
    }

    fn of(tasks: &Arc<Tasks>, pairs: Vec<(usize, Range<usize>)>) -> Self {
        let mut count = 0;
        let before = |(task, pairs): &(usize, Range<usize>)| {
            let first = count;
            count += tasks.looks[*task].len() * pairs.len();
            first
        };
        let mut before: Vec<usize> = pairs.iter().map(before).collect();
        before.push(count);
        Self {
            tasks: tasks.clone(),
            pairs,
            before,
        }
    }

    /// Tasks that have a pair here.
    pub fn groups(&self) -> usize {
        self.pairs.len()
    }

    /// Looks of a task.
    pub fn puzzles(&self, group: usize) -> usize {
        self.tasks.looks[self.pairs[group].0].len()
    }

    /// Pairs of a task.
    pub fn examples(&self, group: usize) -> usize {
        self.pairs[group].1.len()
    }

    /// Pairs of all looks of all tasks.
    pub fn len(&self) -> usize {
        self.before.last().copied().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The example with a number, look after look of task after task.
    pub fn pick(&self, index: usize) -> Pick {
        let group = self.before.partition_point(|first| *first <= index) - 1;
        let (rest, pairs) = (index - self.before[group], self.examples(group));
        Pick {
            group: group as u32,
            puzzle: (rest / pairs) as u32,
            example: (rest % pairs) as u32,
        }
    }

    /// The first pair with an answer of so many tasks from all over, as they are, by the names of the tasks.
    pub fn shown(&self, most: usize) -> Vec<(String, Arc<Row>)> {
        let is_answered = |group: &usize| {
            let (task, pairs) = &self.pairs[*group];
            self.tasks.tasks[*task].pair(pairs.start).output.is_some()
        };
        let groups: Vec<usize> = (0..self.groups()).filter(is_answered).collect();
        let count = most.min(groups.len());
        let shown = |at: usize| {
            let group = groups[at * groups.len() / count];
            let pick = Pick {
                group: group as u32,
                puzzle: 0,
                example: 0,
            };
            let name = &self.tasks.tasks[self.pairs[group].0].name;
            (format!("Task {name}"), Arc::new(self.row(pick, None)))
        };
        (0..count).map(shown).collect()
    }

    /// The task, the look and the number among the task's pairs of an example.
    pub fn find(&self, pick: Pick) -> (&Task, &Look, usize) {
        let (task, pairs) = &self.pairs[pick.group as usize];
        let look = &self.tasks.looks[*task][pick.puzzle as usize];
        (
            &self.tasks.tasks[*task],
            look,
            pairs.start + pick.example as usize,
        )
    }

    /// An example. With `random`, at a place that it draws, but for one pair of a look, on average.
    pub fn row(&self, pick: Pick, random: Option<&mut Random>) -> Row {
        let (task, look, index) = self.find(pick);
        let pair = task.pair(index);
        let input = look.of(&pair.input);
        let output = pair.output.as_ref().map(|it| look.of(it));
        let examples = self.examples(pick.group as usize);
        let place = random.filter(|_| examples > 1).and_then(|random| {
            let room = |of: fn(&Grid) -> usize| {
                let largest = output.as_ref().map_or(0, of).max(of(&input));
                SIDE.saturating_sub(largest) + 1
            };
            let place = (
                random.below(room(|it| it.rows)),
                random.below(room(|it| it.columns)),
            );
            (random.below(examples) > 0).then_some(place)
        });
        let first = self.tasks.ids[self.pairs[pick.group as usize].0];
        let place = place.unwrap_or_default();
        example((&input, output.as_ref()), first + pick.puzzle, place)
    }
}

/// A pair as symbols of all cells. Only what follows is learned, with where it ends.
fn example((input, output): (&Grid, Option<&Grid>), id: u32, place: (usize, usize)) -> Row {
    let labels = match output {
        Some(output) => encode(output, place).map(|it| if it == 0 { UNLABELLED } else { it }),
        None => [UNLABELLED; CELLS],
    };
    row(&encode(input, place), &labels, id)
}

/// A grid among all cells, its upper left corner at a row and a column. Below it and beside it stands where it ends.
pub fn encode(grid: &Grid, (top, left): (usize, usize)) -> [u8; CELLS] {
    let mut cells = [0; CELLS];
    let (bottom, right) = (top + grid.rows, left + grid.columns);
    for (row, colours) in grid.cells.chunks(grid.columns.max(1)).enumerate() {
        for (column, colour) in colours.iter().enumerate() {
            cells[(top + row) * SIDE + left + column] = colour + FIRST_COLOUR;
        }
    }
    if bottom < SIDE {
        cells[bottom * SIDE + left..bottom * SIDE + right].fill(END);
    }
    if right < SIDE {
        (top..bottom).for_each(|row| cells[row * SIDE + right] = END);
    }
    cells
}

/// The largest grid whose corner is the first cell and all of whose cells have a colour. Of equal ones, that with the fewest rows.
pub fn crop(cells: &[u32]) -> Grid {
    let colour = |row: usize, column: usize| {
        let symbol = cells[row * SIDE + column].checked_sub(u32::from(FIRST_COLOUR));
        symbol
            .filter(|it| (*it as usize) < COLOURS)
            .map(|it| it as u8)
    };
    let (mut most, mut size) = (0, (0, 0));
    let mut columns = SIDE;
    for rows in 1..=SIDE {
        let full = (0..columns).take_while(|column| colour(rows - 1, *column).is_some());
        columns = full.count();
        if rows * columns > most {
            (most, size) = (rows * columns, (rows, columns));
        }
    }
    let (rows, columns) = size;
    let all = (0..rows).flat_map(|row| (0..columns).filter_map(move |column| colour(row, column)));
    Grid {
        rows,
        columns,
        cells: all.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn grid(rows: &[&[u8]]) -> Grid {
        Grid {
            rows: rows.len(),
            columns: rows[0].len(),
            cells: rows.concat(),
        }
    }

    fn task(pairs: &[(Grid, Grid)]) -> Task {
        let pair = |(input, output): &(Grid, Grid)| Pair {
            input: input.clone(),
            output: Some(output.clone()),
        };
        Task {
            name: "a".to_owned(),
            train: pairs.iter().map(pair).collect(),
            test: pairs[..1].iter().map(pair).collect(),
            is_measured: true,
        }
    }

    #[test]
    fn a_look_is_turned_then_coloured_and_is_undone() {
        let look = Look {
            turn: 1,
            colours: [0, 2, 3, 4, 5, 6, 7, 8, 9, 1],
        };
        let plain = grid(&[&[1, 0, 2], &[3, 9, 4]]);
        let seen = look.of(&plain);
        assert_eq!(seen, grid(&[&[3, 5], &[0, 1], &[2, 4]]));
        assert_eq!(look.undo(&seen), plain);
        assert_eq!(look.name("ab"), "ab|||t1|||0234567891");
        let mut random = Random::new(2);
        for _ in 0..50 {
            let look = Look::draw(&mut random);
            assert_eq!(look.undo(&look.of(&plain)), plain);
            assert_eq!(look.colours[0], 0);
        }
    }

    #[test]
    fn an_encoded_grid_has_its_end_below_and_beside_it() {
        let cells = encode(&grid(&[&[0, 9], &[1, 2]]), (1, 2));
        let row = |row: usize| &cells[row * SIDE..row * SIDE + 6];
        assert_eq!(row(0), [0; 6]);
        assert_eq!(row(1), [0, 0, 2, 11, 1, 0]);
        assert_eq!(row(2), [0, 0, 3, 4, 1, 0]);
        assert_eq!(row(3), [0, 0, 1, 1, 0, 0]);
        let full = Grid {
            rows: SIDE,
            columns: SIDE,
            cells: vec![3; CELLS],
        };
        assert_eq!(encode(&full, (0, 0)), [5; CELLS]);
    }

    #[test]
    fn a_grid_is_cut_out_of_what_was_answered() {
        let cut = |change: &dyn Fn(&mut [u32])| {
            let plain = encode(&grid(&[&[1, 2, 3], &[4, 5, 6]]), (0, 0));
            let mut cells: Vec<u32> = plain.iter().map(|it| u32::from(*it)).collect();
            change(&mut cells);
            crop(&cells)
        };
        assert_eq!(cut(&|_| {}), grid(&[&[1, 2, 3], &[4, 5, 6]]));
        // A hole in the second row: two columns of two rows are more than three of one.
        assert_eq!(cut(&|cells| cells[SIDE + 2] = 0), grid(&[&[1, 2], &[4, 5]]));
        // Three cells of one row are more than two of one column.
        assert_eq!(cut(&|cells| cells[SIDE + 1] = 1), grid(&[&[1, 2, 3]]));
        // As many of one row as of two: what was found first stays.
        assert_eq!(
            cut(&|cells| {
                cells[3] = 9;
                cells[SIDE + 2] = 0;
            }),
            grid(&[&[1, 2, 3, 7]])
        );
        assert_eq!(cut(&|cells| cells[0] = 1), Grid::default());
    }

    #[test]
    fn looks_that_look_the_same_are_one() {
        // One colour and all turns alike: nine colours are all there is.
        let one = task(&[(grid(&[&[1]]), grid(&[&[1]]))]);
        assert_eq!(one.looks(1000, 1).len(), 9);
        // Two colours that a mirror swaps: of 8 turns 4 differ, each with 9 times 8 colours, of which half are another's.
        let two = task(&[(grid(&[&[1, 2]]), grid(&[&[1, 2]]))]);
        assert_eq!(two.looks(1000, 1).len(), 2 * 72);
        let many = task(&[(grid(&[&[1, 2, 3], &[4, 5, 6]]), grid(&[&[7]]))]);
        let looks = many.looks(1000, 1);
        assert_eq!(looks.len(), 1001);
        assert_eq!(many.looks(10, 1), looks[..11]);
        let images: BTreeSet<Grid> = looks.iter().map(|it| it.of(&many.train[0].input)).collect();
        assert!(images.len() > 900);
    }

    #[test]
    fn pairs_that_show_are_learned_and_those_that_ask_are_measured() {
        let pairs = [1, 2, 3].map(|colour| (grid(&[&[colour, 0]]), grid(&[&[0], &[colour]])));
        let mut other = task(&pairs);
        other.is_measured = false;
        other.name = "b".to_owned();
        let (learned, measured) = ArcExamples::split(Tasks::new(vec![task(&pairs), other], 3, 1));
        assert_eq!((learned.groups(), measured.groups()), (2, 1));
        assert_eq!((learned.len(), measured.len()), (4 * 3 + 4 * 4, 4));
        assert_eq!(learned.tasks.id_count(), 9);
        let pick = measured.pick(3);
        assert_eq!(measured.find(pick).2, 3);
        let row = measured.row(pick, None);
        assert_eq!(row.puzzle, 4);
        let last = learned.pick(learned.len() - 1);
        assert_eq!((last.group, last.puzzle, last.example), (1, 3, 3));
        assert_eq!(learned.row(last, None).puzzle, 8);
        // Where they stand differs, and what they are does not.
        let mut random = Random::new(1);
        let rows: Vec<Row> = (0..20)
            .map(|_| learned.row(learned.pick(0), Some(&mut random)))
            .collect();
        let corners = |row: &Row| row.cells.iter().position(|it| *it > 0);
        let places: BTreeSet<_> = rows.iter().map(corners).collect();
        assert!(places.len() > 5 && places.contains(&Some(0)));
        assert!(
            rows.iter()
                .all(|row| row.cells.iter().filter(|it| **it > 1).count() == 2)
        );
    }
}
