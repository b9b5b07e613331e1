//! What a kind of learning must say, so that it can be asked for, planned, forecast and trained like every other.
//!
//! The loop needs less, which is [`Task`]. Deliberately absent: which kinds there are; [`crate::tasks`] lists them.

use std::{
    collections::BTreeMap,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use candle_core::Device;
use serde_json::Value;

use super::{
    estimate::Estimate,
    fields::Field,
    fit::Measure,
    plan::{Chosen, Problem, TrainPlan},
    request::TrainRequest,
    resolve::Resolver,
    task::Task,
    tree::Part,
};
use crate::{Error, Result};

/// A kind of learning. It has no values: what it says are types, tables and functions.
pub trait Kind: Sized + 'static {
    /// Its name in a run file: `task: language`.
    const NAME: &'static str;
    /// What it learns from, in the plural: rates are in these per second.
    const UNIT: &'static str;
    /// Its fields of a run file, as a person reads them.
    const FIELDS: &'static [Field] = &[];
    /// The fields, or sections of them, that decide the shape of the weights: with another value, what was saved does not fit.
    const SHAPED_BY: &'static [&'static str] = &[];
    /// Those that decide which rows there are, and in which order they come.
    const ORDERED_BY: &'static [&'static str] = &["data"];
    /// Those that name files, which are compared by what is in them.
    const NAMES_OF_FILES: &'static [&'static str] = &["data.files"];
    /// What is done to make a run fit into memory, beside what every run can do: the cheapest first.
    const MEASURES: &'static [Measure<Self>] = &[];
    /// The smallest run of it, which the device check takes a step of. Nothing where a run starts from a model that others have made.
    const TINY: Option<Tiny> = None;

    /// Its part of a request. Everything in it is optional.
    type Request: Part + Clone + Default + PartialEq;
    /// Its part of a plan. Nothing in it is open.
    type Plan: Part + Clone + PartialEq;
    /// What was looked up before a plan can be made.
    type Facts: Clone;
    /// What was read to look it up, kept while a form asks again for the same data.
    type Read: Send + Sync + 'static;
    /// The shape of a model: all that what it takes depends on, beside the plan.
    type Shape;
    /// A model with its data.
    type Task: Task;

    /// Whether a file or folder looks like its data and like nothing else's, by names and by little more. Language is learned from
    /// whatever no kind knows.
    fn recognizes(_path: &Path) -> bool {
        false
    }

    /// The files and folders of the data that a request names.
    fn files(request: &mut Self::Request) -> &mut Vec<PathBuf>;

    /// Those of a plan.
    fn data(plan: &Self::Plan) -> &[PathBuf];

    /// Of all that is wrong with a request, what does not follow from something else that is.
    fn first_problems(problems: Vec<Problem>) -> Vec<Problem> {
        problems
    }

    /// Its part of a plan, and what the rest is chosen by.
    fn resolve(resolver: &mut Resolver<Self>) -> (Self::Plan, Basis);

    /// The shape of the model of a plan, by what was looked up. Nothing where that is not known.
    fn shape(plan: &Self::Plan, facts: &Self::Facts) -> Option<Self::Shape>;

    /// The same, read from where the plan's model is.
    fn read_shape(plan: &Self::Plan) -> Result<Self::Shape>;

    /// What a run will take, from shapes alone.
    fn estimate(plan: &TrainPlan<Self::Plan>, shape: &Self::Shape) -> Estimate;

    /// Whether some weights don't learn, so that they can be kept in fewer bytes.
    fn has_frozen_weights(_plan: &Self::Plan) -> bool {
        false
    }

    /// The model that a request starts from, if it does: a folder, or a name by which somebody finds it.
    fn model(_request: &mut Self::Request) -> Option<&mut PathBuf> {
        None
    }

    /// Makes the paths of a request absolute, and refuses those that can't be what they should be.
    fn find_files(request: &mut Self::Request) -> Result<()> {
        for file in Self::files(request) {
            *file = path::absolute(&file).map_err(Error::file("find the data", &file))?;
        }
        Ok(())
    }

    /// Changes the paths of a request that are written as seen from the folder of its run file.
    fn seen_from(request: &mut Self::Request, folder: &Path) {
        // What is not there may be the name of a model.
        if let Some(model) = Self::model(request).filter(|it| folder.join(it).exists()) {
            *model = folder.join(&model);
        }
        for file in Self::files(request) {
            *file = folder.join(&file);
        }
    }

    /// Reads what a request names. `known` is what was read for an earlier one, which is returned when it is the same.
    /// Nothing when the request names too little to read anything.
    fn read(
        request: &TrainRequest<Self::Request>,
        known: Option<&Arc<Self::Read>>,
    ) -> Result<Option<Arc<Self::Read>>>;

    /// What a plan depends on, of what was read and of the model that a request names.
    fn facts(
        request: &TrainRequest<Self::Request>,
        read: Option<&Self::Read>,
    ) -> Result<Self::Facts>;

    /// Whether a plan can be carried out, as far as that can be said without opening anything.
    fn check(_plan: &Self::Plan) -> Result<()> {
        Ok(())
    }

    /// What a person should know of the data under this plan.
    fn warnings(_plan: &TrainPlan<Self::Plan>, _read: &Self::Read) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Opens the model and the data of a plan.
    fn open(plan: &TrainPlan<Self::Plan>, place: &RunPlace) -> Result<Self::Task>;

    /// What a person can still do about memory when a run has nothing left to give up: `start it with shorter rows`.
    fn smaller(_plan: &Self::Plan) -> Option<String> {
        None
    }

    /// The files that a run learns from and starts from, by what they are for it: `data/1`, `model/config.json`. One that the
    /// plan names is among them also when it is not there.
    fn sources(plan: &Self::Plan) -> BTreeMap<String, PathBuf>;

    /// What can be done with its result, as the app calls it: `chat`.
    fn uses(_plan: &Self::Plan) -> &'static [&'static str] {
        &[]
    }

    /// What is trained, and how.
    fn subject(plan: &Self::Plan) -> Subject;
}

/// The smallest run of a kind.
pub struct Tiny {
    /// Files of made-up data, by their names in a folder that is the data of the run.
    pub files: fn() -> Vec<(&'static str, Vec<u8>)>,
    /// What is asked, as a run file in JSON, without data and device.
    pub request: &'static str,
}

/// Where a run is carried out.
#[derive(Debug, Clone, Copy)]
pub struct RunPlace<'a> {
    /// Where it computes.
    pub device: &'a Device,
    /// The newest checkpoint, where what was made from the data at the beginning of the run is to be taken from there.
    pub learned_from: Option<&'a Path>,
    /// The folder of the run, for what is made on the way and is too large to be in each checkpoint. It may not exist yet.
    pub folder: &'a Path,
}

impl<'a> RunPlace<'a> {
    /// A run that is new and has no folder of its own: what is made on the way goes where the process is.
    pub fn bare(device: &'a Device) -> Self {
        Self {
            device,
            learned_from: None,
            folder: Path::new("."),
        }
    }
}

/// What a run trains, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The folder of the model, or a number that stands for the shape of a new one. Two runs with the same model and method
    /// on one device take about the same memory for a row.
    pub model: String,
    /// How it is trained, as in a run file.
    pub method: String,
    /// Both, for a person: `adapter for SmolLM2-135M`.
    pub what: String,
    /// The folder of the model it starts from, if it does.
    pub base: Option<PathBuf>,
}

/// Why several devices can’t share the steps of a kind that has none to share.
pub const ONE_DEVICE: &str = "such a run trains on one device only";

/// What a kind says to the choices that every run has.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    /// Units in a row of a batch; 1 where a row is a unit.
    pub length: usize,
    /// Rows of batches in one pass over the data.
    pub rows: usize,
    /// Rows kept aside to measure with.
    pub held_out_rows: usize,
    /// How many units one update should see.
    pub units_per_step: usize,
    /// How many rows to compute at once, where that is not what suits the device, and there may be fewer in the data.
    pub batch_rows: Option<Chosen<usize>>,
    /// Whether the rows that are computed at once are normalized together, so that their number decides what is learned.
    pub is_normalized: bool,
    /// Why several devices can’t share its steps, where they can’t: `such a run trains on one device only`.
    pub why_one_device: Option<&'static str>,
    /// How often the data is seen.
    pub epochs: Chosen<f64>,
    /// The highest learning rate.
    pub learning_rate: Chosen<f64>,
    /// How much each weight shrinks.
    pub weight_decay: Chosen<f64>,
    /// AdamW's memory of squared gradients.
    pub beta2: Chosen<f64>,
    /// What else this kind does otherwise than others, by the names of the fields: `("ema", 0.999)`.
    pub usual: Vec<(&'static str, Chosen<Value>)>,
}
