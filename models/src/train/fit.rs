//! Whether a run fits into memory, how many rows at once do, and what would make it fit.
//!
//! All from an [`Estimate`]; nothing is tried. A run fits when a fifth of what is free is left to everything else. What
//! would make it fit is data: fields of the run file with their values, in the order of what they cost.

use serde::{Deserialize, Serialize};

use super::{
    fields::{MAX_ACCUMULATE, OPTIMIZER},
    kind::Kind,
    plan::{Facts, RunPlan, TrainPlan},
    request::OptimizerKind,
};
use crate::{
    device::{
        Checked,
        dtype::{DeviceClass, Dtype, Role, dtype_rule},
    },
    figures::{bytes, counted},
};

/// The share of free memory that a run leaves to everything else.
pub const SPARE: f64 = 0.2;

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
    pub fixes: Vec<Fix>,
}

/// A change of a run that makes it fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// What is changed.
    pub changes: Vec<Change>,
    /// What that is and what it costs: `gradient_checkpointing: 33 % slower`.
    pub message: String,
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
    /// How a plan fits that trains a model of this shape, where it is known what is free.
    pub fn new<K: Kind>(
        plan: &TrainPlan<K::Plan>,
        shape: &K::Shape,
        facts: &Facts<K::Facts>,
    ) -> Option<Self> {
        let free_bytes = facts.device.device.free_bytes?;
        let needed_bytes = K::estimate(plan, shape).bytes();
        let fits = needed_bytes <= room(free_bytes);
        let search: Search<K> = Search {
            shape,
            facts,
            room: room(free_bytes),
        };
        let fixes = if fits { Vec::new() } else { search.fixes(plan) };
        Some(Self {
            fits,
            needed_bytes,
            free_bytes,
            most_rows: most_rows::<K>(plan, shape, room(free_bytes)),
            fixes,
        })
    }

    /// What is wrong, with the numbers.
    pub fn refusal(&self) -> String {
        let (needed, free) = (bytes(self.needed_bytes), bytes(self.free_bytes));
        match self.needed_bytes > self.free_bytes {
            true => format!("the run needs about {needed}, and {free} are free"),
            false => format!(
                "the run needs about {needed} of the {free} that are free, which leaves less than a fifth to everything \
                 else"
            ),
        }
    }
}

/// What a run may take of so much free memory.
pub fn room(free_bytes: u64) -> u64 {
    (free_bytes as f64 * (1.0 - SPARE)) as u64
}

/// The most rows at once that fit into `room_bytes`, at most those of the plan, with so many batches for one update that
/// the update stays what it is. Nothing where not even the fewest do.
pub fn most_rows<K: Kind>(
    plan: &TrainPlan<K::Plan>,
    shape: &K::Shape,
    room_bytes: u64,
) -> Option<usize> {
    fewer_rows(&plan.run).find(|&rows| {
        let fewer = with_rows(plan, rows);
        K::estimate(&fewer, shape).bytes() <= room_bytes
    })
}

/// The plan with other rows at once, and as many batches for one update as keep it what it is.
pub fn with_rows<T: Clone>(plan: &TrainPlan<T>, rows: usize) -> TrainPlan<T> {
    let mut plan = plan.clone();
    plan.run.limit_rows(rows);
    plan
}

/// How many rows at once divide the rows of an update, from those of the plan down to 1.
pub fn fewer_rows(plan: &RunPlan) -> impl Iterator<Item = usize> {
    let whole = plan.batch.rows * plan.batch.accumulate;
    (plan.batch.least_rows()..=plan.batch.rows)
        .rev()
        .filter(move |&rows| whole.is_multiple_of(rows) && whole / rows <= MAX_ACCUMULATE)
}

/// What every way is judged by.
pub struct Search<'a, K: Kind> {
    shape: &'a K::Shape,
    facts: &'a Facts<K::Facts>,
    room: u64,
}

/// A plan that was changed, and how.
pub struct Changed<K: Kind> {
    /// The plan as it would be.
    pub plan: TrainPlan<K::Plan>,
    changes: Vec<Change>,
    message: Vec<String>,
}

/// A single kind of change: makes the plan need less, as little changed as is enough, or as much as can be. Nothing where
/// there is nothing to change.
pub struct Measure<K: Kind> {
    /// Makes the change.
    pub change: fn(&Search<K>, &Changed<K>) -> Option<Changed<K>>,
    /// When it is made where several are: first those that know no more or less, then those that change as little as is still
    /// needed, the lowest first.
    pub turn: usize,
}

/// What every run can do, the cheapest first. What its kind can do comes after.
const fn measures<K: Kind>() -> [Measure<K>; 4] {
    [
        Measure {
            change: |search, from| search.fewer_rows(from),
            turn: 0,
        },
        Measure {
            change: |search, from| search.gradient_checkpointing(from),
            turn: 1,
        },
        Measure {
            change: |search, from| search.smaller_state(from),
            turn: 2,
        },
        Measure {
            change: |search, from| search.narrower_dtype(from),
            turn: 3,
        },
    ]
}

/// Where rows stand in that list.
const ROWS: usize = 0;

impl<'a, K: Kind> Search<'a, K> {
    /// Each change that is enough by itself, and the cheapest that are together where none of them is.
    fn fixes(&self, plan: &TrainPlan<K::Plan>) -> Vec<Fix> {
        let begin = Changed {
            plan: plan.clone(),
            changes: Vec::new(),
            message: Vec::new(),
        };
        let mut fixes = Vec::new();
        for at in 0..measures::<K>().len() + K::MEASURES.len() {
            let alone = self
                .change(at, &begin)
                .and_then(|changed| self.fix(&changed));
            let fix = match fixes.is_empty() {
                true => alone.or_else(|| self.cheapest(&begin, at)),
                false => alone,
            };
            fixes.extend(fix);
        }
        fixes
    }

    /// The changes up to this one, without those that are not needed beside it.
    fn cheapest(&self, begin: &Changed<K>, last: usize) -> Option<Fix> {
        let mut measures: Vec<usize> = (0..=last).collect();
        let mut fix = self.fix(&self.together(begin, &measures))?;
        for at in (0..last).rev() {
            let fewer: Vec<usize> = measures.iter().copied().filter(|it| *it != at).collect();
            if let Some(enough) = self.fix(&self.together(begin, &fewer)) {
                (measures, fix) = (fewer, enough);
            }
        }
        Some(fix)
    }

    /// The plan with several changes, as many rows at once as they let it have.
    fn together(&self, begin: &Changed<K>, measures: &[usize]) -> Changed<K> {
        let mut changed = begin.clone();
        let rows = measures.contains(&ROWS);
        if rows {
            changed.plan = with_rows(&begin.plan, 1);
        }
        let mut others: Vec<usize> = measures.iter().copied().filter(|&at| at != ROWS).collect();
        others.sort_by_key(|&at| measure::<K>(at).map_or(usize::MAX, |it| it.turn));
        for at in others {
            changed = self.change(at, &changed).unwrap_or(changed);
        }
        if rows {
            changed.plan.run.batch.rows = begin.plan.run.batch.rows;
            changed.plan.run.batch.accumulate = begin.plan.run.batch.accumulate;
            changed.plan.run.evaluate = begin.plan.run.evaluate.clone();
            changed = self.fewer_rows(&changed).unwrap_or(changed);
        }
        changed
    }

    fn change(&self, at: usize, from: &Changed<K>) -> Option<Changed<K>> {
        (measure::<K>(at)?.change)(self, from)
    }

    /// The shape of the model.
    pub fn shape(&self) -> &'a K::Shape {
        self.shape
    }

    /// What was looked up.
    pub fn facts(&self) -> &'a Facts<K::Facts> {
        self.facts
    }

    /// Whether a plan takes no more than it may.
    pub fn fits(&self, plan: &TrainPlan<K::Plan>) -> bool {
        self.needed(plan) <= self.room
    }

    fn needed(&self, plan: &TrainPlan<K::Plan>) -> u64 {
        K::estimate(plan, self.shape).bytes()
    }

    fn fix(&self, changed: &Changed<K>) -> Option<Fix> {
        let needed_bytes = self.needed(&changed.plan);
        (needed_bytes <= self.room).then(|| Fix {
            changes: changed.changes.clone(),
            message: changed.message.join(", and "),
            needed_bytes,
        })
    }

    /// Learns the same: the rows of an update come one after another.
    fn fewer_rows(&self, from: &Changed<K>) -> Option<Changed<K>> {
        let before = from.plan.run.batch.rows;
        let least = from.plan.run.batch.least_rows();
        let rows = most_rows::<K>(&from.plan, self.shape, self.room).unwrap_or(least);
        let plan = with_rows(&from.plan, rows);
        let rows = plan.run.batch.rows;
        let changes = [
            ("batch.rows", rows.to_string()),
            ("batch.accumulate", plan.run.batch.accumulate.to_string()),
        ];
        let learns = match plan.run.batch.normalized {
            true => "changes what batch norm sees",
            false => "learns the same",
        };
        let message = format!(
            "{} at once instead of {before}: {learns}",
            counted(rows as u64, "row")
        );
        (rows < before).then(|| from.with(plan, &changes, message))
    }

    fn gradient_checkpointing(&self, from: &Changed<K>) -> Option<Changed<K>> {
        if from.plan.run.gradient_checkpointing {
            return None;
        }
        let mut plan = from.plan.clone();
        plan.run.gradient_checkpointing = true;
        let operations = |plan| K::estimate(plan, self.shape).operations;
        let slower = operations(&plan) / operations(&from.plan) - 1.0;
        let message = format!("gradient checkpointing: {:.0} % slower", slower * 100.0);
        let changes = [("gradient_checkpointing", "true".to_owned())];
        Some(from.with(plan, &changes, message))
    }

    /// What AdamW keeps of large matrices, in 8 bits.
    fn smaller_state(&self, from: &Changed<K>) -> Option<Changed<K>> {
        if from.plan.run.optimizer.kind != OptimizerKind::Adamw {
            return None;
        }
        let mut plan = from.plan.clone();
        plan.run.optimizer.kind = OptimizerKind::Adamw8Bit;
        let saved = self.needed(&from.plan).checked_sub(self.needed(&plan));
        let saved = saved.filter(|&saved| saved > 0)?;
        let message = format!(
            "AdamW in 8 bits keeps {} less: nearly the same steps",
            bytes(saved)
        );
        Some(from.with(plan, &[(OPTIMIZER, "adamw_8bit".to_owned())], message))
    }

    /// Formats that the device's table allows and the device check has not found wrong.
    fn narrower_dtype(&self, from: &Changed<K>) -> Option<Changed<K>> {
        let Facts {
            device, checked, ..
        } = self.facts;
        let class = DeviceClass::of(&device.device, checked.bf16);
        let mut to = from.clone();
        for role in [Role::Storage, Role::Compute] {
            let present = to.plan.run.dtype.of(role);
            // Weights that learn are f32, however others are stored.
            let matters = role == Role::Compute || K::has_frozen_weights(&from.plan.task);
            let Some(dtype) = narrower(class, role, present, checked).filter(|_| matters) else {
                continue;
            };
            let what = match role {
                Role::Storage => "frozen weights",
                _ => "computing",
            };
            to.message.push(format!(
                "{what} in {dtype} instead of {present}: fewer digits"
            ));
            to.change(role.field(), dtype.to_string());
            to.plan.run.dtype.set(role, dtype);
            if self.fits(&to.plan) {
                break;
            }
        }
        (to.plan != from.plan).then_some(to)
    }
}

fn measure<K: Kind>(at: usize) -> Option<Measure<K>> {
    let (common, own) = (measures::<K>(), K::MEASURES);
    let own = at.checked_sub(common.len()).and_then(|at| own.get(at));
    common.get(at).or(own).copied()
}

// Not derived, which would ask for kinds that can be copied.
impl<K: Kind> Clone for Measure<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Measure<K> {}

impl<K: Kind> Clone for Changed<K> {
    fn clone(&self) -> Self {
        Self {
            plan: self.plan.clone(),
            changes: self.changes.clone(),
            message: self.message.clone(),
        }
    }
}

impl<K: Kind> Changed<K> {
    /// Another plan, with the fields that are different, and the difference in words.
    pub fn with(
        &self,
        plan: TrainPlan<K::Plan>,
        changes: &[(&str, String)],
        message: String,
    ) -> Self {
        let mut changed = Self {
            plan,
            ..self.clone()
        };
        for (field, value) in changes {
            changed.change(field, value.clone());
        }
        changed.message.push(message);
        changed
    }

    fn change(&mut self, field: &str, value: String) {
        self.changes.retain(|change| change.field != field);
        let field = field.to_owned();
        self.changes.push(Change { field, value });
    }

    /// Says the rows of a batch and the batches of an update too: they could otherwise be chosen anew for the rest.
    pub fn with_its_batch(mut self) -> Self {
        self.change("batch.rows", self.plan.run.batch.rows.to_string());
        self.change(
            "batch.accumulate",
            self.plan.run.batch.accumulate.to_string(),
        );
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
    // There a narrower product keeps its tensors as they are.
    if role == Role::Compute && class == DeviceClass::CpuBf16 {
        return None;
    }
    let mut allowed = dtype_rule(class, role).allowed.iter().map(|it| it.dtype);
    allowed.find(|it| {
        *it != Dtype::F16 && it.bytes() < present.bytes() && !checked.refused_dtypes.contains(it)
    })
}
