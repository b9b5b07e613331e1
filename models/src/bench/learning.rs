//! Steps of learning, by the loop that runs learn by, on random tokens.

use std::path::Path;

use candle_core::DType;
use serde_json::{Value as Json, json};

use super::{
    BenchCase, BenchDevice, Clock, StepWork, Unit, Variation, Work, Workload, size::RepeatedWeights,
};
use crate::{
    Error, Result,
    arch::{
        decoder::Input,
        lora,
        network::{Network, NetworkConfig},
    },
    device::{Checked, DeviceKind, defaults::device_defaults, dtype::Dtype},
    parameters::Parameters,
    random::Random,
    tape::{FixedPass, Tape, Value},
    tasks::language::{
        Language, LanguageFacts, LanguagePlan, LanguageRequest, plan::DataFacts, request::Method,
    },
    train::{
        Facts, Kind, Measuring, TrainPlan, TrainRequest, TrainState, resolve,
        task::{BatchSize, Evaluation, Task},
        try_steps,
    },
};

pub(super) static LORA: Workload = Workload {
    name: "lora_step",
    title: "LoRA step",
    about: "One update of an adapter of rank 8 on all linear layers of a model that stays as it is.",
    unit: Unit::Tokens,
    feeds: None,
    advises: true,
    variations: fewer_and_more_rows,
    prepare: |case, place| learn(case, place, Method::Lora),
};

pub(super) static FULL: Workload = Workload {
    name: "full_step",
    title: "Full step",
    about: "One update of every weight of an existing model.",
    unit: Unit::Tokens,
    feeds: None,
    advises: true,
    variations: usual_rows,
    prepare: |case, place| learn(case, place, Method::Full),
};

pub(super) static SCRATCH: Workload = Workload {
    name: "scratch_step",
    title: "From-scratch step",
    about: "One update of a new model of one of the sizes that can be made from scratch.",
    unit: Unit::Tokens,
    feeds: None,
    advises: true,
    variations: usual_rows,
    prepare: |case, place| learn(case, place, Method::Scratch),
};

/// Rows are varied around what is usual, so that the figures can say how many are enough.
fn fewer_and_more_rows(kind: DeviceKind) -> Vec<Variation> {
    let usual = device_defaults(kind).batch_rows.value;
    let rows = match kind {
        DeviceKind::Cpu | DeviceKind::Rocm => [usual / 4, usual / 2, usual],
        DeviceKind::Metal | DeviceKind::Cuda => [usual / 4, usual, usual * 2],
    };
    rows.map(of_rows).to_vec()
}

fn usual_rows(kind: DeviceKind) -> Vec<Variation> {
    vec![of_rows(device_defaults(kind).batch_rows.value)]
}

fn of_rows(rows: usize) -> Variation {
    Variation {
        rows: Some(rows),
        ..Variation::default()
    }
}

fn learn(case: &BenchCase, place: &BenchDevice, method: Method) -> Result<Work> {
    let plan = plan(case, place, method)?;
    let config = shape(case, &plan)?;
    let estimate = Language::estimate(&plan, &config.clone().into());
    let estimated_bytes = estimate.bytes();
    refuse_what_does_not_fit(estimated_bytes, place)?;
    let (rows, length) = (plan.run.batch.rows, plan.run.batch.length);
    let shape = match &plan.task.scratch {
        Some(_) => format!("preset {}", case.size.preset().name()),
        None => case.size.shape_name().to_owned(),
    };
    let operations = estimate.operations / plan.run.steps as f64;
    let mut task = RandomTokens {
        network: network(&plan, config, place)?,
        random: Random::for_purpose(1, "tokens"),
        plan: plan.clone(),
    };
    let mut state = TrainState::new(&plan, &task)?;
    Ok(Work {
        step: StepWork {
            amount: (rows * length) as f64,
            operations,
            estimated_bytes: Some(estimated_bytes),
            ..StepWork::default()
        },
        config: format!("{shape}, {rows} x {length} tokens"),
        take: Box::new(move || try_steps(&plan.run, &mut task, &mut state, 1, &|| false).map(drop)),
    })
}

/// What a run would do that was asked for no more than this.
pub(super) fn plan(
    case: &BenchCase,
    place: &BenchDevice,
    method: Method,
) -> Result<TrainPlan<LanguagePlan>> {
    let device = &place.choice.device;
    let length = match method {
        Method::Scratch => match case.size.preset().config().get("max_position_embeddings") {
            Some(context) => context.as_u64().unwrap_or_default() as usize,
            None => case.size.row_length(),
        },
        Method::Lora | Method::Full => case.size.row_length(),
    };
    let is_new = method == Method::Scratch;
    let request = json!({
        "device": device.requested(), "avoid_kernels": place.avoid_kernels, "steps": Clock::most(),
        "batch": {"rows": case.rows(), "length": length, "accumulate": 1},
        "dtype": {"compute": case.dtype}, "method": method,
        "model": (!is_new).then_some("model"),
        "scratch": is_new.then(|| json!({"preset": case.size.preset()})),
        "data": {"files": ["tokens"], "max_length": length},
    });
    let request: TrainRequest<LanguageRequest> = serde_json::from_value(request)
        .map_err(|error| Error::Data(format!("the benchmark asks for no run: {error}")))?;
    let mut facts = random_text(length);
    if is_new {
        let known = case.size.preset().config().get("vocab_size").cloned();
        facts.vocab_size = known.and_then(|it| it.as_u64()).unwrap_or_default() as usize;
    } else {
        let config = case.size.config()?;
        facts.vocab_size = config.vocab_size;
        facts.model = Some(config.into());
    }
    let facts = Facts {
        task: facts,
        device: place.choice.clone(),
        // Who asks for bf16 here has seen it pass.
        checked: Checked {
            bf16: case.dtype == Some(Dtype::Bf16),
            ..Checked::default()
        },
    };
    let plan = resolve::<Language>(&request, &facts)?.plan;
    match case.dtype {
        Some(dtype) if dtype != plan.run.dtype.compute => Err(Error::setting(
            "dtype.compute",
            format!("can’t be {dtype} on {}", device.kind),
        )),
        _ => Ok(plan),
    }
}

/// Rows of noise, of one length.
fn random_text(length: usize) -> LanguageFacts {
    LanguageFacts {
        data: DataFacts {
            read_as: "random tokens".to_owned(),
            rows: 1000,
            held_out_rows: 50,
            tokens: 1000 * length,
            length_95: length,
            length_longest: length,
            ..DataFacts::default()
        },
        ..LanguageFacts::default()
    }
}

fn shape(case: &BenchCase, plan: &TrainPlan<LanguagePlan>) -> Result<NetworkConfig> {
    match &plan.task.scratch {
        Some(scratch) => scratch.shape(),
        None => case.size.config().map(NetworkConfig::Decoder),
    }
}

/// A step that does not fit would have the system take memory from everything else, or end the process.
pub(super) fn refuse_what_does_not_fit(needed: u64, place: &BenchDevice) -> Result<()> {
    let free = crate::device::memory::memory(&place.device)?.available_bytes;
    if needed <= free {
        return Ok(());
    }
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    Err(Error::Device(format!(
        "not measured: it needs about {:.1} GB, and {:.1} GB are free",
        gigabytes(needed),
        gigabytes(free)
    )))
}

fn network(
    plan: &TrainPlan<LanguagePlan>,
    config: NetworkConfig,
    place: &BenchDevice,
) -> Result<Network> {
    let stored: DType = match plan.task.method {
        Method::Lora => plan.run.dtype.storage.into(),
        Method::Full | Method::Scratch => DType::F32,
    };
    let mut weights = RepeatedWeights {
        dtype: stored,
        device: place.device.clone(),
    };
    let learns = plan.task.method != Method::Lora;
    let compute = plan.run.tensor_dtype().into();
    let mut network = Network::new(config, &mut weights, learns, compute, &place.device)?;
    if let Some(lora) = &plan.task.lora {
        weights.dtype = DType::F32;
        lora::attach(network.decoder_mut()?, &lora.config(), &mut weights)?;
    }
    Ok(network)
}

/// A task whose data is noise. Nothing of it is evaluated, saved or continued.
struct RandomTokens {
    network: Network,
    random: Random,
    plan: TrainPlan<LanguagePlan>,
}

impl Task for RandomTokens {
    /// Tokens, and those to be said next.
    type Batch = (Vec<u32>, Vec<u32>);

    fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    fn next_batch(&mut self) -> Result<Self::Batch> {
        let count = self.plan.run.batch.rows * self.plan.run.batch.length;
        let known = self.network.vocab_size();
        let mut draw = || -> Vec<u32> {
            let numbers = (0..count).map(|_| self.random.below(known));
            numbers.map(|it| it as u32).collect()
        };
        Ok((draw(), draw()))
    }

    fn size(&self, (tokens, targets): &Self::Batch) -> BatchSize {
        BatchSize {
            targets: targets.len(),
            units: tokens.len(),
        }
    }

    fn loss(&mut self, tape: &Tape, (tokens, targets): &Self::Batch, count: f64) -> Result<Value> {
        let run = &self.plan.run;
        let input = Input::new(tokens, run.batch.rows);
        let again = run.gradient_checkpointing;
        self.network
            .learning_loss(tape, input, targets, count, again)
    }

    fn fixed_pass(
        &self,
        (tokens, targets): &Self::Batch,
        count: f64,
    ) -> Result<Option<Box<dyn FixedPass>>> {
        let run = &self.plan.run;
        let input = Input::new(tokens, run.batch.rows);
        let again = run.gradient_checkpointing;
        self.network.fixed_pass(input, targets, count, again)
    }

    fn evaluate(&mut self, _: usize, _: &mut Measuring) -> Result<Option<Evaluation>> {
        Ok(None)
    }

    fn state(&self) -> Json {
        Json::Null
    }

    fn restore(&mut self, _: &Json) -> Result<()> {
        Ok(())
    }

    fn save(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn load(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }
}
