//! Pictures: steps of learning from them by the loop that runs learn by, and their batches, made by the loader alone.
//!
//! The pictures are noise, 32 x 32 in colour as those of CIFAR, changed as the recipe says.

use std::sync::Arc;

use serde_json::json;

use super::{
    BenchCase, BenchDevice, Clock, Size, StepWork, Unit, Variation, Work, Workload, just_one,
    learning::refuse_what_does_not_fit,
};
use crate::{
    Error, Result,
    device::{Checked, DeviceKind, dtype::Dtype},
    tasks::picture::{
        Picture, PictureFacts,
        loader::Loader,
        pixels::Shape,
        request::{PicturePlan, PictureRequest},
        source::PictureSet,
        task::PictureTask,
    },
    train::{Facts, Kind, RunPlace, TrainPlan, TrainRequest, TrainState, resolve, try_steps},
};

pub(super) static STEP: Workload = Workload {
    name: "picture_step",
    title: "Picture step",
    about: "One update of a new network for pictures.",
    unit: Unit::Pictures,
    feeds: None,
    advises: false,
    variations: just_one,
    prepare: learn,
};

pub(super) static LOADER: Workload = Workload {
    name: "picture_loader",
    title: "Making batches of pictures",
    about: "Changes pictures as a recipe says, puts batches of them together, and brings them to the device.",
    unit: Unit::Pictures,
    feeds: Some(STEP.name),
    advises: false,
    variations: with_workers,
    prepare: load,
};

const PICTURES: usize = 2048;
const SIDE: usize = 32;
const CLASSES: usize = 10;

fn with_workers(_: DeviceKind) -> Vec<Variation> {
    let of = |workers| Variation {
        workers: Some(workers),
        ..Variation::default()
    };
    [1, 2, 4].map(of).to_vec()
}

/// The recipe whose network is of this size.
fn recipe(size: Size) -> &'static str {
    match size {
        Size::Small => "small",
        Size::Medium => "airbench94",
        Size::Large => "resnet18",
    }
}

/// What a run would do that was asked for no more than this, and its pictures.
fn plan(case: &BenchCase, place: &BenchDevice) -> Result<(TrainPlan<PicturePlan>, PictureSet)> {
    let set = PictureSet::noise(PICTURES, Shape::square(SIDE, 3), CLASSES);
    let request = json!({
        "device": place.choice.device.requested(), "avoid_kernels": place.avoid_kernels, "steps": Clock::most(),
        "dtype": {"compute": case.dtype}, "data": {"files": ["pictures"], "held_out": 0.0},
        "picture": {"recipe": recipe(case.size), "workers": case.variation.workers},
    });
    let request: TrainRequest<PictureRequest> = serde_json::from_value(request)
        .map_err(|error| Error::Data(format!("the benchmark asks for no run: {error}")))?;
    let facts = Facts {
        task: PictureFacts::of(&set),
        device: place.choice.clone(),
        // Who asks for bf16 here has seen it pass.
        checked: Checked {
            bf16: case.dtype == Some(Dtype::Bf16),
            ..Checked::default()
        },
    };
    let plan = resolve::<Picture>(&request, &facts)?.plan;
    match case.dtype {
        Some(dtype) if dtype != plan.run.dtype.compute => Err(Error::setting(
            "dtype.compute",
            format!("can’t be {dtype} on {}", place.choice.device.kind),
        )),
        _ => Ok((plan, set)),
    }
}

fn config(plan: &TrainPlan<PicturePlan>) -> String {
    let (rows, recipe) = (plan.run.batch.rows, &plan.task.picture.recipe);
    format!("recipe {recipe}, {rows} pictures of {SIDE} x {SIDE}")
}

fn learn(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let (plan, set) = plan(case, place)?;
    let estimate = Picture::estimate(&plan, &plan.task.picture.net(None));
    let estimated_bytes = estimate.bytes();
    refuse_what_does_not_fit(estimated_bytes, place)?;
    let mut task = PictureTask::new(&plan, &RunPlace::bare(&place.device), set)?;
    let mut state = TrainState::new(&plan, &task)?;
    Ok(Work {
        step: StepWork {
            amount: plan.run.batch.rows as f64,
            operations: estimate.operations / plan.run.steps as f64,
            estimated_bytes: Some(estimated_bytes),
            ..StepWork::default()
        },
        config: config(&plan),
        take: Box::new(move || try_steps(&plan.run, &mut task, &mut state, 1, &|| false).map(drop)),
    })
}

fn load(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let (plan, set) = plan(case, place)?;
    let rows = plan.run.batch.rows;
    let all = (0..set.len()).collect();
    let mut loader = Loader::new(Arc::new(set), all, &plan.task.picture, plan.run.seed, rows);
    let (device, mut number) = (place.device.clone(), 0);
    Ok(Work {
        step: StepWork {
            amount: rows as f64,
            ..StepWork::default()
        },
        config: config(&plan),
        take: Box::new(move || {
            loader.batch(number, &device)?;
            number += 1;
            Ok(())
        }),
    })
}
