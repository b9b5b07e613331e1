//! Whether a run fits into memory, how many rows at once do, and what would make it fit.
//!
//! All from an [`Estimate`]; nothing is tried. A run fits when a fifth of what is free is left to everything else. What
//! would make it fit is data: fields of the run file with their values, in the order of what they cost.

use serde::{Deserialize, Serialize};

use super::{
    estimate::Estimate,
    plan::{DataFacts, Facts, LoraPlan, TrainPlan},
    preset,
    request::Method,
};
use crate::{
    arch::config::DecoderConfig,
    device::{
        check::Checked,
        dtype::{DeviceClass, Dtype, Role, dtype_rule},
    },
    figures::count,
};

/// The share of free memory that a run leaves to everything else.
pub const SPARE: f64 = 0.2;
/// The shortest rows that are offered: what is shorter says little.
const SHORTEST_ROW: usize = 64;

/// What a run needs beside what there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Whether it fits with a fifth to spare.
    pub fits: bool,
    /// What it needs at most, estimated.
    pub needed_bytes: u64,
    /// What is free on its device.
    pub free_bytes: u64,
    /// The most rows at once that fit, if any do, with the rows of an update kept.
    pub most_rows: Option<usize>,
    /// What would make it fit, the cheapest first. Empty when it fits, or nothing that can be changed here is enough.
    pub ways: Vec<Way>,
}

/// A change of a run that makes it fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// What is changed.
    pub changes: Vec<Change>,
    /// What that is and what it costs: `checkpointing: 33 % slower`.
    pub words: String,
    /// What the run needs then.
    pub needed_bytes: u64,
}

/// A field of the run file, and its value there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `batch.rows`.
    pub field: String,
    /// `4`.
    pub value: String,
}

impl Fit {
    /// How a plan fits, where the shape of its model and what is free are known.
    pub fn new(plan: &TrainPlan, facts: &Facts) -> Option<Self> {
        let config = facts.shape(plan)?;
        let free_bytes = facts.device.device.free_bytes?;
        let needed_bytes = Estimate::new(plan, &config).bytes();
        let fits = needed_bytes <= room(free_bytes);
        let search = Search {
            config: &config,
            facts,
            room: room(free_bytes),
        };
        let ways = if fits { Vec::new() } else { search.ways(plan) };
        Some(Self {
            fits,
            needed_bytes,
            free_bytes,
            most_rows: most_rows(plan, &config, room(free_bytes)),
            ways,
        })
    }

    /// What is wrong, with the numbers.
    pub fn refusal(&self) -> String {
        let (needed, free) = (amount(self.needed_bytes), amount(self.free_bytes));
        match self.needed_bytes > self.free_bytes {
            true => format!("the run needs about {needed}, and {free} are free"),
            false => format!(
                "the run needs about {needed} of the {free} that are free, which leaves less than a fifth to everything \
                 else"
            ),
        }
    }
}

impl Facts {
    /// The shape of the model that a plan trains, if it can be read.
    pub fn shape(&self, plan: &TrainPlan) -> Option<DecoderConfig> {
        match (&plan.scratch, &self.model) {
            (Some(scratch), _) => {
                let config = serde_json::Value::Object(scratch.config.clone());
                DecoderConfig::from_json(&config).ok()
            }
            (None, model) => model.as_ref()?.config.clone(),
        }
    }
}

/// What a run may take of so much free memory.
pub fn room(free_bytes: u64) -> u64 {
    (free_bytes as f64 * (1.0 - SPARE)) as u64
}

/// The most rows at once that fit into `room_bytes`, at most those of the plan, with so many batches for one update that
/// the update stays what it is. Nothing where not even the fewest do.
pub fn most_rows(plan: &TrainPlan, config: &DecoderConfig, room_bytes: u64) -> Option<usize> {
    fewer_rows(plan).find(|&rows| {
        let fewer = with_rows(plan, rows);
        Estimate::new(&fewer, config).bytes() <= room_bytes
    })
}

/// The plan with other rows at once, and as many batches for one update as keep it what it is.
pub fn with_rows(plan: &TrainPlan, rows: usize) -> TrainPlan {
    let mut plan = plan.clone();
    plan.limit_rows(rows);
    plan
}

/// How many rows at once divide the rows of an update, from those of the plan down to 1.
pub fn fewer_rows(plan: &TrainPlan) -> impl Iterator<Item = usize> {
    let whole = plan.batch.rows * plan.batch.accumulate;
    (1..=plan.batch.rows)
        .rev()
        .filter(move |&rows| whole.is_multiple_of(rows))
}

/// What every way is judged by.
struct Search<'a> {
    config: &'a DecoderConfig,
    facts: &'a Facts,
    room: u64,
}

/// A plan that was changed, and how.
#[derive(Clone)]
struct Changed {
    plan: TrainPlan,
    changes: Vec<Change>,
    words: Vec<String>,
}

/// A single kind of change: makes the plan need less, as little changed as is enough, or as much as can be. Nothing where
/// there is nothing to change.
type Measure = fn(&Search, &Changed) -> Option<Changed>;

/// All kinds, the cheapest first.
const MEASURES: [Measure; 5] = [
    |search, from| search.fewer_rows(from),
    |search, from| search.checkpointing(from),
    |search, from| search.narrower_dtype(from),
    |search, from| search.shorter_rows(from),
    |search, from| search.adapter(from),
];

/// Where rows stand in that list, and the order in which several changes are made: those that know no more or less before
/// those that change as little as is still needed.
const ROWS: usize = 0;
const TOGETHER: [usize; 4] = [1, 2, 4, 3];

impl Search<'_> {
    /// Each change that is enough by itself, and the cheapest that are together where none of them is.
    fn ways(&self, plan: &TrainPlan) -> Vec<Way> {
        let begin = Changed {
            plan: plan.clone(),
            changes: Vec::new(),
            words: Vec::new(),
        };
        let mut ways = Vec::new();
        for (at, measure) in MEASURES.iter().enumerate() {
            let alone = measure(self, &begin).and_then(|changed| self.way(&changed));
            let way = match ways.is_empty() {
                true => alone.or_else(|| self.cheapest(&begin, at)),
                false => alone,
            };
            ways.extend(way);
        }
        ways
    }

    /// The changes up to this one, without those that are not needed beside it.
    fn cheapest(&self, begin: &Changed, last: usize) -> Option<Way> {
        let mut measures: Vec<usize> = (0..=last).collect();
        let mut way = self.way(&self.together(begin, &measures))?;
        for at in (0..last).rev() {
            let fewer: Vec<usize> = measures.iter().copied().filter(|it| *it != at).collect();
            if let Some(enough) = self.way(&self.together(begin, &fewer)) {
                (measures, way) = (fewer, enough);
            }
        }
        Some(way)
    }

    /// The plan with several changes, as many rows at once as they let it have.
    fn together(&self, begin: &Changed, measures: &[usize]) -> Changed {
        let mut changed = begin.clone();
        let rows = measures.contains(&ROWS);
        if rows {
            changed.plan = with_rows(&begin.plan, 1);
        }
        for at in TOGETHER.into_iter().filter(|at| measures.contains(at)) {
            changed = MEASURES[at](self, &changed).unwrap_or(changed);
        }
        if rows {
            changed.plan.batch.rows = begin.plan.batch.rows;
            changed.plan.batch.accumulate = begin.plan.batch.accumulate;
            changed.plan.evaluate = begin.plan.evaluate.clone();
            changed = self.fewer_rows(&changed).unwrap_or(changed);
        }
        changed
    }

    fn needed(&self, plan: &TrainPlan) -> u64 {
        Estimate::new(plan, self.config).bytes()
    }

    fn way(&self, changed: &Changed) -> Option<Way> {
        let needed_bytes = self.needed(&changed.plan);
        (needed_bytes <= self.room).then(|| Way {
            changes: changed.changes.clone(),
            words: changed.words.join(", and "),
            needed_bytes,
        })
    }

    /// Learns the same: the rows of an update come one after another.
    fn fewer_rows(&self, from: &Changed) -> Option<Changed> {
        let before = from.plan.batch.rows;
        let rows = most_rows(&from.plan, self.config, self.room).unwrap_or(1);
        let plan = with_rows(&from.plan, rows);
        let changes = [
            ("batch.rows", rows.to_string()),
            ("batch.accumulate", plan.batch.accumulate.to_string()),
        ];
        let words = format!(
            "{} at once instead of {before}: learns the same",
            counted(rows, "row")
        );
        (rows < before).then(|| from.with(plan, &changes, words))
    }

    fn checkpointing(&self, from: &Changed) -> Option<Changed> {
        if from.plan.checkpointing {
            return None;
        }
        let mut plan = from.plan.clone();
        plan.checkpointing = true;
        let operations = |plan| Estimate::new(plan, self.config).operations;
        let slower = operations(&plan) / operations(&from.plan) - 1.0;
        let words = format!("checkpointing: {:.0} % slower", slower * 100.0);
        let changes = [("checkpointing", "true".to_owned())];
        Some(from.with(plan, &changes, words))
    }

    /// Formats that the device's table allows and the device check has not found wrong.
    fn narrower_dtype(&self, from: &Changed) -> Option<Changed> {
        let Facts {
            device, checked, ..
        } = self.facts;
        let class = DeviceClass::of(&device.device, checked.bf16);
        let mut to = from.clone();
        for role in [Role::Storage, Role::Compute] {
            let present = to.plan.dtype.of(role);
            // Weights that learn are f32, however others are stored.
            let matters = role == Role::Compute || from.plan.method == Method::Lora;
            let Some(dtype) = narrower(class, role, present, checked).filter(|_| matters) else {
                continue;
            };
            let what = match role {
                Role::Storage => "frozen weights",
                _ => "computing",
            };
            to.words.push(format!(
                "{what} in {dtype} instead of {present}: fewer digits"
            ));
            to.change(role.field(), dtype.to_string());
            to.plan.dtype.set(role, dtype);
            if self.needed(&to.plan) <= self.room {
                break;
            }
        }
        (to.plan != from.plan).then_some(to)
    }

    fn shorter_rows(&self, from: &Changed) -> Option<Changed> {
        let before = from.plan.batch.length;
        let shorter = |length: usize| {
            let mut plan = from.plan.clone();
            plan.batch.length = length;
            plan.data.max_length = plan.data.max_length.min(length);
            plan
        };
        let half = before.next_power_of_two() / 2;
        let halves = std::iter::successors(Some(half), |length| Some(length / 2));
        // Of rows that are cut, the end is lost: where most are, a smaller model learns more.
        let most_cut = self.facts.data.rows / 2;
        let cut = |length: usize| self.facts.data.longer_than(length).unwrap_or(0);
        let lengths: Vec<usize> = halves
            .take_while(|&it| it >= SHORTEST_ROW && cut(it) <= most_cut)
            .collect();
        let fits = |length: &&usize| self.needed(&shorter(**length)) <= self.room;
        let &length = lengths.iter().find(fits).or(lengths.last())?;
        let cost = match self.facts.data.longer_than(length) {
            Some(0) => "cuts no row".to_owned(),
            Some(rows) => format!("cuts {}", counted(rows, "row")),
            None => "the model sees less text at once".to_owned(),
        };
        let words = format!(
            "rows of {} instead of {}: {cost}",
            count(length as u64),
            count(before as u64)
        );
        let plan = shorter(length);
        let changes = [
            ("batch.length", length.to_string()),
            ("data.max_length", plan.data.max_length.to_string()),
        ];
        Some(from.with(plan, &changes, words).with_its_batch())
    }

    fn adapter(&self, from: &Changed) -> Option<Changed> {
        if from.plan.method != Method::Full {
            return None;
        }
        let linears = self.config.linears().iter();
        let mut plan = from.plan.clone();
        plan.method = Method::Lora;
        plan.lora = Some(LoraPlan {
            rank: preset::LORA_RANK,
            alpha: 2.0 * preset::LORA_RANK as f64,
            dropout: 0.0,
            targets: linears.map(|&name| name.to_owned()).collect(),
            layers: (0..self.config.layers.len()).collect(),
            rslora: false,
        });
        let words = "an adapter instead of all weights: can learn less".to_owned();
        let changes = [("method", "lora".to_owned())];
        Some(from.with(plan, &changes, words).with_its_batch())
    }
}

impl Changed {
    fn with(&self, plan: TrainPlan, changes: &[(&str, String)], words: String) -> Self {
        let mut changed = Self {
            plan,
            ..self.clone()
        };
        for (field, value) in changes {
            changed.change(field, value.clone());
        }
        changed.words.push(words);
        changed
    }

    fn change(&mut self, field: &str, value: String) {
        self.changes.retain(|change| change.field != field);
        let field = field.to_owned();
        self.changes.push(Change { field, value });
    }

    /// Says the rows of a batch and the batches of an update too: they could otherwise be chosen anew for the rest.
    fn with_its_batch(mut self) -> Self {
        self.change("batch.rows", self.plan.batch.rows.to_string());
        self.change("batch.accumulate", self.plan.batch.accumulate.to_string());
        self
    }
}

/// A format that is safe there, if one is narrower than the present one. Never f16: whether its range is enough is a question
/// of the model, so it is for who asks for it.
pub fn narrower(
    class: DeviceClass,
    role: Role,
    present: Dtype,
    checked: &Checked,
) -> Option<Dtype> {
    let mut allowed = dtype_rule(class, role).allowed.iter().map(|it| it.dtype);
    allowed.find(|it| {
        *it != Dtype::F16 && it.bytes() < present.bytes() && !checked.refused_dtypes.contains(it)
    })
}

impl DataFacts {
    /// How many rows have more tokens than so many, a power of two. Nothing for text that has no rows.
    pub fn longer_than(&self, length: usize) -> Option<usize> {
        let first = self.longer.iter().find(|(from, _)| *from >= length);
        match self.longer.is_empty() {
            true => None,
            false => Some(first.map_or(0, |&(_, rows)| rows)),
        }
    }
}

/// `2.4 GB`.
pub fn amount(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// `1 row`, `1,024 rows`.
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number as u64))
}
