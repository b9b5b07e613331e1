//! The record of one forward pass, played back once to get gradients.
//!
//! A [`Value`] is a tensor and, if somebody wants its gradient, a slot on a [`Tape`]. An operation computes its output
//! on plain tensors and, when an input has a slot, records one closure: gradient of the output in, gradients of the
//! inputs out. [`Tape::backward`] walks the record from its end and drops each closure as it goes, so that what an
//! operation saved is freed while backward runs. A value without a slot costs nothing: frozen weights, masks and rope
//! tables have none, and generation runs the same code with no tape at all.
//!
//! Deliberately absent: any formula (see `ops`), second derivatives, and playing a record twice.

mod complete;
mod moment;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use candle_core::Tensor;
pub use complete::Complete;
use complete::Completion;
pub use moment::Moment;

use crate::{
    Error, Result,
    ops::{kernels::Kernel, sum::sum},
    profile::{self, Made, Place},
};

/// A tensor in a forward pass, and the place where its gradient is collected if somebody wants it.
#[derive(Clone)]
pub struct Value {
    tensor: Tensor,
    slot: Option<Slot>,
}

/// Where a gradient is collected: a number on one tape.
#[derive(Clone)]
struct Slot {
    index: usize,
    record: Rc<RefCell<Record>>,
}

/// The record of one forward pass.
#[derive(Clone)]
pub struct Tape {
    record: Rc<RefCell<Record>>,
    /// Masks of dropout are drawn from this seed and the name of the place, so a segment run twice draws the same.
    dropout_seed: DropoutSeed,
    /// False while the first run of a checkpointed segment is under way.
    recording: bool,
}

#[derive(Default)]
struct Record {
    steps: Vec<Step>,
    slots: usize,
    /// The slot of each parameter already asked for, so that a weight used twice collects into one.
    parameters: BTreeMap<String, usize>,
    /// The trainable parameters that were asked for while nothing was recorded.
    met: BTreeSet<String>,
    /// What the gradient of the loss will be multiplied with.
    loss_scale: Option<f64>,
    /// The rows of tables that were used, by the names of the tables.
    rows: BTreeMap<String, BTreeSet<u32>>,
}

/// What a pass computes beside its loss, which whoever asked for the pass understands.
pub type Left = Vec<Tensor>;

/// A forward pass that reads nothing but tensors which are there before it begins. With other numbers in them, it is another pass
/// with the same operations: so it can be recorded once and played again.
pub trait FixedPass {
    /// What it reads that differs from pass to pass.
    fn inputs(&self) -> Vec<Tensor>;

    /// What decides its operations, beside the shapes of its inputs.
    fn form(&self) -> String;

    /// Computes the loss from the inputs and records on the tape what its gradients need.
    fn loss(&self, tape: &Tape) -> Result<Value>;

    /// Hands over what [`FixedPass::loss`] computed beside the loss, such as the means that norms saw.
    fn take_left(&self) -> Left {
        Vec::new()
    }
}

/// What the masks of dropout in a pass are drawn from: a number, and another one where a pass that is recorded finds its own.
#[derive(Debug, Clone)]
pub struct DropoutSeed {
    number: u64,
    /// The lower half and the upper [2], u32.
    placed: Option<Tensor>,
}

impl From<u64> for DropoutSeed {
    fn from(number: u64) -> Self {
        Self {
            number,
            placed: None,
        }
    }
}

impl DropoutSeed {
    /// A number that lies on a device: its lower half and its upper [2], u32.
    #[cfg(feature = "cuda")]
    pub(crate) fn placed_at(halves: Tensor) -> Self {
        Self {
            number: 0,
            placed: Some(halves),
        }
    }

    /// The key of a place with this hash.
    pub(crate) fn at(&self, place: u64) -> Self {
        Self {
            number: self.number ^ place,
            placed: self.placed.clone(),
        }
    }

    /// The whole number, read from where it lies.
    pub(crate) fn read(&self) -> Result<u64> {
        let placed = match &self.placed {
            Some(halves) => halves.to_vec1::<u32>()?,
            None => Vec::new(),
        };
        let placed = placed.iter().rev();
        let placed = placed.fold(0, |number, half| number << 32 | u64::from(*half));
        Ok(self.number ^ placed)
    }

    /// The part that is known without reading.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The part that lies on a device.
    #[cfg(feature = "cuda")]
    pub(crate) fn placed(&self) -> Option<&Tensor> {
        self.placed.as_ref()
    }
}

/// One recorded operation.
struct Step {
    output: usize,
    inputs: Vec<Option<usize>>,
    /// The parameters that are used inside of a checkpointed segment.
    inside: BTreeSet<String>,
    backward: Backward,
    /// Nothing unless the pass is profiled.
    made: Option<Made>,
}

/// Gradient of the output in; a gradient for each input out, `None` where there is none.
type Backward = Box<dyn FnOnce(Tensor, Others) -> Result<Vec<Option<Tensor>>>>;

/// What a way back may change besides what it returns.
struct Others<'a> {
    /// What came back to its first input so far. Whoever takes it returns the sum for that input.
    to_first: &'a mut Option<Tensor>,
    gradients: &'a mut Gradients,
}

/// The gradients of parameters, by name. Gradients of several passes add up.
#[derive(Debug, Clone, Default)]
pub struct Gradients {
    by_name: BTreeMap<String, Tensor>,
    rows: BTreeMap<String, BTreeSet<u32>>,
    /// Those which were complete before the end of the last pass, where somebody wants to know.
    /// They are told of so many bytes at once.
    complete: Option<(usize, Vec<Complete>)>,
}

impl Value {
    /// A value whose gradient nobody wants.
    pub fn constant(tensor: Tensor) -> Self {
        Self { tensor, slot: None }
    }

    /// What was computed, without its place on the tape.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether somebody wants the gradient of this value.
    pub fn wants_gradient(&self) -> bool {
        self.slot.is_some()
    }

    /// What the gradient of the loss will be multiplied with: see [`Tape::with_loss_scale`].
    pub(crate) fn loss_scale(&self) -> f64 {
        let scale = self.slot.as_ref().map(|it| it.record.borrow().loss_scale);
        scale.flatten().unwrap_or(1.0)
    }

    /// The result of an operation on `inputs`.
    ///
    /// `backward` gets the gradient of `output` and returns one gradient per input, each in its input's shape and
    /// dtype (f32 for a weight kept in f32). It is dropped unused when no input wants a gradient.
    pub fn record(
        output: Tensor,
        inputs: &[&Value],
        backward: impl FnOnce(Tensor) -> Result<Vec<Option<Tensor>>> + 'static,
    ) -> Self {
        Self::with_way_back(output, inputs, Box::new(|gradient, _| backward(gradient)))
    }

    /// The same, whose `backward` also gets what came back to its first input so far, and returns the sum for it: an operation that
    /// adds where it computes reads and writes less.
    pub(crate) fn record_adding(
        output: Tensor,
        inputs: &[&Value],
        backward: impl FnOnce(Tensor, Option<Tensor>) -> Result<Vec<Option<Tensor>>> + 'static,
    ) -> Self {
        let form = |it: &Tensor| (it.dtype(), it.shape().clone());
        let first = inputs.first().map(|input| form(&input.tensor));
        let backward: Backward = Box::new(move |gradient, others| {
            // A kernel takes it as it lies.
            let so_far = others.to_first.take_if(|it| Some(form(it)) == first);
            backward(gradient, so_far)
        });
        Self::with_way_back(output, inputs, backward)
    }

    /// Results of one operation on `inputs`, all of which have to be used. Its `backward` gets the gradients of all: it is that of the
    /// first, which comes last on the way back.
    pub(crate) fn record_together(
        outputs: Vec<Tensor>,
        inputs: &[&Self],
        backward: impl FnOnce(Vec<Tensor>) -> Result<Vec<Option<Tensor>>> + 'static,
    ) -> Vec<Self> {
        let returned: Rc<RefCell<Vec<Tensor>>> = Rc::default();
        let (count, mut backward) = (outputs.len(), Some(backward));
        // One that wants a gradient makes the other results want theirs, and gets nothing of them.
        let any = inputs.iter().find(|it| it.wants_gradient()).copied();
        let any: Vec<&Self> = any.into_iter().collect();
        let record = |output: Tensor| {
            let returned = returned.clone();
            let Some(backward) = backward.take() else {
                let keep = move |gradient| {
                    returned.borrow_mut().insert(0, gradient);
                    Ok(vec![None])
                };
                return Self::record(output, &any, keep);
            };
            let all = move |gradient| {
                let mut gradients = returned.take();
                gradients.insert(0, gradient);
                if gradients.len() != count {
                    let used = gradients.len();
                    let problem =
                        format!("{used} of {count} results that belong together were used");
                    return Err(Error::Data(problem));
                }
                backward(gradients)
            };
            Self::record(output, inputs, all)
        };
        outputs.into_iter().map(record).collect()
    }

    fn with_way_back(output: Tensor, inputs: &[&Value], backward: Backward) -> Self {
        let made = profile::made(&output, inputs.iter().map(|input| &input.tensor));
        match inputs.iter().find_map(|input| input.slot.as_ref()) {
            None => Self::constant(output),
            Some(slot) => push(&slot.record, output, inputs, (backward, made)),
        }
    }
}

impl Tape {
    /// An empty record. `dropout_seed` decides every dropout mask of the pass.
    pub fn new(dropout_seed: impl Into<DropoutSeed>) -> Self {
        Self {
            record: Rc::default(),
            dropout_seed: dropout_seed.into(),
            recording: true,
        }
    }

    /// Says with which scale [`Tape::backward`] will be called. An operation that computes gradients on the way forward
    /// multiplies them with it there, before they are rounded to a narrow dtype in which they could vanish.
    pub fn with_loss_scale(self, scale: f64) -> Self {
        self.record.borrow_mut().loss_scale = Some(scale);
        self
    }

    /// Notes that these rows of a table are used, for a rule that leaves all others as they are. A gradient can't say so: that of a
    /// row in use can be 0.
    pub fn note_rows(&self, table: &str, rows: impl IntoIterator<Item = u32>) {
        let mut record = self.record.borrow_mut();
        record
            .rows
            .entry(table.to_owned())
            .or_default()
            .extend(rows);
    }

    /// The seed of this pass's dropout masks.
    pub fn dropout_seed(&self) -> &DropoutSeed {
        &self.dropout_seed
    }

    /// A value whose gradient is wanted, though no operation made it. See [`Tape::backward_to`].
    pub fn input(&self, tensor: Tensor) -> Value {
        let slot = Slot {
            index: new_slot(&self.record),
            record: self.record.clone(),
        };
        Value {
            tensor,
            slot: Some(slot),
        }
    }

    /// A trainable parameter as a value. The same name always gets the same slot.
    pub(crate) fn parameter(&self, name: &str, tensor: Tensor) -> Value {
        if !self.recording {
            self.record.borrow_mut().met.insert(name.to_owned());
            return Value::constant(tensor);
        }
        let known = self.record.borrow().parameters.get(name).copied();
        let index = known.unwrap_or_else(|| {
            let index = new_slot(&self.record);
            self.record
                .borrow_mut()
                .parameters
                .insert(name.to_owned(), index);
            index
        });
        Value {
            tensor,
            slot: Some(Slot {
                index,
                record: self.record.clone(),
            }),
        }
    }

    /// Runs `segment` without keeping what it computes, and once more when its gradient is wanted: memory for time.
    ///
    /// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. The result is the same to the last digit
    /// where the device's arithmetic is deterministic.
    pub fn checkpoint(
        &self,
        x: &Value,
        segment: impl Fn(&Tape, &Value) -> Result<Value> + 'static,
    ) -> Result<Value> {
        if !self.recording {
            return segment(self, x);
        }
        let dropout_seed = self.dropout_seed.clone();
        let silent = Self {
            recording: false,
            ..Self::new(dropout_seed.clone())
        };
        let output = segment(&silent, &Value::constant(x.tensor.clone()))?.tensor;
        let met = silent.record.take().met;
        if !x.wants_gradient() && met.is_empty() {
            return Ok(Value::constant(output));
        }
        let input = x.tensor.clone();
        let backward: Backward = Box::new(move |gradient, others| {
            let tape = Self::new(dropout_seed);
            let x = tape.input(input);
            let again = profile::at(Place::Again);
            let output = segment(&tape, &x)?;
            drop(again);
            tape.backward_to(&output, gradient, &[&x], others.gradients)
        });
        let value = push(&self.record, output, &[x], (backward, None));
        if let Some(step) = self.record.borrow_mut().steps.last_mut() {
            step.inside = met;
        }
        Ok(value)
    }

    /// Plays the record from `output`, a single number, and adds the gradient of every parameter to `gradients`.
    ///
    /// `scale` is the gradient of the output itself: 1, a micro-batch's share of its batch, or a loss scale.
    pub fn backward(self, output: &Value, scale: f64, gradients: &mut Gradients) -> Result<()> {
        let seed = output.tensor.ones_like()?.affine(scale, 0.0)?;
        self.backward_to(output, seed, &[], gradients).map(drop)
    }

    /// Plays the record from `output`, whose gradient is `seed`, and returns the gradients of `inputs` too.
    pub fn backward_to(
        self,
        output: &Value,
        seed: Tensor,
        inputs: &[&Value],
        gradients: &mut Gradients,
    ) -> Result<Vec<Option<Tensor>>> {
        let _profiled = profile::at(Place::Backward);
        let Record {
            steps,
            slots,
            parameters,
            rows,
            ..
        } = self.record.take();
        for (table, rows) in rows {
            gradients.note_rows(&table, rows);
        }
        let mut collected: Vec<Option<Tensor>> = vec![None; slots];
        let Some(slot) = &output.slot else {
            return Ok(vec![None; inputs.len()]);
        };
        collected[slot.index] = Some(seed);
        // A segment inside of this pass doesn't know what else uses its parameters, and is not asked.
        let noted = gradients.complete.take();
        let mut completion =
            noted.map(|(bytes_at_once, _)| Completion::of(bytes_at_once, &steps, &parameters));
        // Popping drops each closure, and with it what the operation had saved, as soon as it has run.
        let mut steps = steps;
        while let Some(step) = steps.pop() {
            if let Some(gradient) = collected[step.output].take() {
                back_through(step, gradient, &mut collected, gradients)?;
            }
            if let Some(completion) = &mut completion {
                completion.passed(steps.len(), &parameters, &mut collected, gradients)?;
            }
        }
        gradients.complete = completion.map(Completion::found);
        // Gradients of weights may have been computed beside the way back.
        #[cfg(feature = "cuda")]
        crate::ops::kernels::cuda::side::join()?;
        for (name, slot) in parameters {
            if let Some(gradient) = collected[slot].take() {
                gradients.add(&name, gradient)?;
            }
        }
        let taken = inputs
            .iter()
            .map(|input| collected[input.slot.as_ref()?.index].take());
        Ok(taken.collect())
    }
}

impl Gradients {
    /// Notes in the next pass which gradients are complete before its end, so many bytes at once. It has to be the last that adds to
    /// them.
    pub fn note_complete(&mut self, bytes_at_once: usize) {
        self.complete = Some((bytes_at_once, Vec::new()));
    }

    /// Which gradients were complete before the end of the last pass, the first first, where that was to be noted.
    pub fn take_complete(&mut self) -> Vec<Complete> {
        self.complete.take().map_or_else(Vec::new, |it| it.1)
    }

    /// Adds a gradient. The first of a name is moved in, later ones are added.
    pub fn add(&mut self, name: &str, gradient: Tensor) -> Result<()> {
        match self.by_name.get_mut(name) {
            Some(total) => *total = sum(Kernel::Add, total, &gradient)?,
            None => {
                self.by_name.insert(name.to_owned(), gradient);
            }
        }
        Ok(())
    }

    /// The gradient of the parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name)
    }

    /// The gradient of the parameter of this name, moved out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.by_name.remove(name)
    }

    /// The rows of a table that were used, in order, where that was noted.
    pub fn rows(&self, table: &str) -> Option<&BTreeSet<u32>> {
        self.rows.get(table)
    }

    /// Notes that these rows of a table were used.
    pub fn note_rows(&mut self, table: &str, rows: impl IntoIterator<Item = u32>) {
        self.rows.entry(table.to_owned()).or_default().extend(rows);
    }

    /// All gradients, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.by_name
            .iter()
            .map(|(name, gradient)| (name.as_str(), gradient))
    }
}

/// Plays one operation back, whose output has this gradient.
fn back_through(
    step: Step,
    gradient: Tensor,
    collected: &mut [Option<Tensor>],
    gradients: &mut Gradients,
) -> Result<()> {
    let profiled = profile::back_through(step.made.as_ref());
    let first = step.inputs.first().copied().flatten();
    let mut to_first = first.and_then(|slot| collected[slot].take());
    let others = Others {
        to_first: &mut to_first,
        gradients,
    };
    let input_gradients = (step.backward)(gradient, others)?;
    if let Some(slot) = first {
        collected[slot] = to_first;
    }
    drop(profiled);
    for (slot, gradient) in step.inputs.into_iter().zip(input_gradients) {
        if let (Some(slot), Some(gradient)) = (slot, gradient) {
            add_to(&mut collected[slot], gradient)?;
        }
    }
    Ok(())
}

fn new_slot(record: &RefCell<Record>) -> usize {
    let mut record = record.borrow_mut();
    record.slots += 1;
    record.slots - 1
}

fn push(
    record: &Rc<RefCell<Record>>,
    output: Tensor,
    inputs: &[&Value],
    (backward, made): (Backward, Option<Made>),
) -> Value {
    let slot = Slot {
        index: new_slot(record),
        record: record.clone(),
    };
    let inputs = inputs
        .iter()
        .map(|input| input.slot.as_ref().map(|slot| slot.index))
        .collect();
    record.borrow_mut().steps.push(Step {
        output: slot.index,
        inputs,
        inside: BTreeSet::new(),
        backward,
        made,
    });
    Value {
        tensor: output,
        slot: Some(slot),
    }
}

fn add_to(total: &mut Option<Tensor>, gradient: Tensor) -> Result<(), Error> {
    *total = Some(match total.take() {
        None => gradient,
        Some(total) => {
            let _profiled = profile::operation("sum of gradients");
            sum(Kernel::Add, &total, &gradient)?
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    #[test]
    fn what_an_operation_saved_is_freed_before_the_operation_before_it_plays_back() {
        const OPERATIONS: usize = 5;
        let tape = Tape::new(0);
        let mut x = tape.input(Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap());
        let saved: Rc<()> = Rc::default();
        let counts: Rc<RefCell<Vec<usize>>> = Rc::default();
        for _ in 0..OPERATIONS {
            let (mine, all, counts) = (saved.clone(), Rc::downgrade(&saved), counts.clone());
            x = Value::record(x.tensor.clone(), &[&x], move |gradient| {
                let _ = &mine;
                counts.borrow_mut().push(all.strong_count());
                Ok(vec![Some(gradient)])
            });
        }
        drop(saved);
        let seed = x.tensor.clone();
        tape.backward_to(&x, seed, &[], &mut Gradients::default())
            .unwrap();
        // The last operation plays first, while all are saved, and the first one last, alone.
        assert_eq!(*counts.borrow(), [5, 4, 3, 2, 1]);
    }
}
