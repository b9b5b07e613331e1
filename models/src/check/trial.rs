//! What an operation is tried on: inputs of a shape, a layout and a dtype, and the operation through the tape.

use std::cell::OnceCell;

use candle_core::{DType, Device, Tensor};

use crate::{
    Error, Result,
    device::dtype::{DeviceClass, Dtype, Role, dtype_rule},
    random::Random,
    tape::{Gradients, Tape, Value},
};

/// An operation with all it is tried on. The last trial is the largest, and the one that is timed.
pub(super) struct Operation {
    pub(super) trials: Vec<StepTrial>,
    pub(super) tolerance: Tolerance,
}

impl Operation {
    /// One whose longest sum has so many terms.
    pub(super) fn of(longest_sum: usize, trials: Vec<StepTrial>) -> Result<Self> {
        let tolerance = Tolerance::Terms(longest_sum);
        Ok(Self { trials, tolerance })
    }

    /// One try of what is more than one operation, which may be so far off.
    pub(super) fn within(tolerance: f64, trial: StepTrial) -> Result<Self> {
        Ok(Self {
            trials: vec![trial],
            tolerance: Tolerance::Exactly(tolerance),
        })
    }
}

/// How far off a result may be.
#[derive(Clone, Copy)]
pub(super) enum Tolerance {
    /// What the roundings of an operation explain whose longest sum has so many terms.
    Terms(usize),
    /// A number of its own, for what is more than one operation.
    Exactly(f64),
}

/// One try.
pub(super) struct StepTrial {
    /// On what, in words.
    pub(super) what: String,
    pub(super) prepare: Prepare,
}

/// Brings the inputs to a place.
type Prepare = Box<dyn Fn(&Setup) -> Result<Run>>;

/// Computes all results once more.
pub(super) type Run = Box<dyn Fn() -> Result<Vec<Named>>>;

/// One result: its name in words, and its numbers.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) tensor: Tensor,
}

/// Where and in what something is computed.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) device: Device,
    /// What activations are computed in.
    pub(super) compute: DType,
    /// What their numbers were rounded to before: on the device the same, for the reference that of the device.
    pub(super) rounded: DType,
    /// Whether it is what others are compared with. Then frozen weights are widened before.
    pub(super) is_reference: bool,
}

/// An input of an operation.
#[derive(Clone)]
pub(super) struct Input {
    name: &'static str,
    /// f32, on the CPU.
    numbers: Tensor,
    kept: Kept,
    layout: Layout,
    learns: bool,
}

/// What an input is kept in.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    /// What activations are computed in.
    Compute,
    /// f32, as weights that learn are.
    Master,
    /// A dtype of its own, as frozen weights may be.
    Stored(DType),
}

/// How the numbers of an input lie in memory.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Plain,
    /// As a part of a larger tensor: with an offset, and rows that are apart.
    Inside,
    /// With the last two dimensions exchanged.
    Transposed,
}

impl Input {
    /// Normal numbers in the dtype that activations are computed in.
    pub(super) fn activation(name: &'static str, shape: &[usize]) -> Result<Self> {
        Ok(Self {
            name,
            numbers: normal(name, shape)?,
            kept: Kept::Compute,
            layout: Layout::Plain,
            learns: true,
        })
    }

    /// A weight that learns.
    pub(super) fn master(name: &'static str, shape: &[usize]) -> Result<Self> {
        let kept = Kept::Master;
        Ok(Self {
            kept,
            ..Self::activation(name, shape)?
        })
    }

    /// A weight that doesn't learn, kept in this dtype.
    pub(super) fn stored(name: &'static str, shape: &[usize], dtype: DType) -> Result<Self> {
        let kept = Kept::Stored(dtype);
        Ok(Self {
            kept,
            learns: false,
            ..Self::activation(name, shape)?
        })
    }

    /// The same as a part of a larger tensor.
    pub(super) fn inside(self) -> Self {
        let layout = Layout::Inside;
        Self { layout, ..self }
    }

    /// The same with the last two dimensions exchanged in memory.
    pub(super) fn transposed(self) -> Self {
        let layout = Layout::Transposed;
        Self { layout, ..self }
    }

    /// The same without a gradient.
    pub(super) fn frozen(self) -> Self {
        Self {
            learns: false,
            ..self
        }
    }

    /// The same numbers times a factor, plus a number.
    pub(super) fn affine(self, factor: f64, plus: f64) -> Result<Self> {
        Ok(Self {
            numbers: self.numbers.affine(factor, plus)?,
            ..self
        })
    }

    pub(super) fn dims(&self) -> &[usize] {
        self.numbers.dims()
    }

    /// The last dimension.
    pub(super) fn width(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    fn message(&self) -> String {
        let dims = self.numbers.dims();
        let stored = match self.kept {
            Kept::Stored(dtype) => format!(" in {}", dtype.as_str()),
            Kept::Compute | Kept::Master => String::new(),
        };
        let layout = match self.layout {
            Layout::Plain => "",
            Layout::Inside => ", part of a larger one",
            Layout::Transposed => ", transposed",
        };
        format!("{} {dims:?}{stored}{layout}", self.name)
    }

    /// The numbers at a place, laid out as they should be.
    fn at(&self, place: &Setup) -> Result<Tensor> {
        let (rounded, dtype) = match self.kept {
            Kept::Compute => (place.rounded, place.compute),
            Kept::Master => (DType::F32, DType::F32),
            Kept::Stored(dtype) if place.is_reference => (dtype, DType::F32),
            Kept::Stored(dtype) => (dtype, dtype),
        };
        let put = |tensor: &Tensor| -> Result<Tensor> {
            let tensor = tensor.to_dtype(rounded)?.to_dtype(dtype)?;
            Ok(tensor.to_device(&place.device)?)
        };
        let rank = self.numbers.rank();
        match self.layout {
            Layout::Plain => put(&self.numbers),
            Layout::Transposed => {
                let exchanged = self.numbers.transpose(rank - 2, rank - 1)?.contiguous()?;
                Ok(put(&exchanged)?.transpose(rank - 2, rank - 1)?)
            }
            Layout::Inside => {
                let mut larger = self.numbers.clone();
                for dim in 0..rank {
                    larger = larger.pad_with_same(dim, 1, 2)?;
                }
                let mut inside = put(&larger)?;
                for (dim, &size) in self.numbers.dims().iter().enumerate() {
                    inside = inside.narrow(dim, 1, size)?;
                }
                Ok(inside)
            }
        }
    }
}

impl Setup {
    /// The CPU in f32, with numbers rounded as on the device.
    pub(super) fn reference(rounded: DType) -> Self {
        Self {
            device: Device::Cpu,
            compute: DType::F32,
            rounded,
            is_reference: true,
        }
    }

    /// A device that computes in this dtype.
    pub(super) fn device(device: &Device, dtype: Dtype) -> Self {
        Self {
            device: device.clone(),
            compute: dtype.kept_in(device.is_cpu()).into(),
            rounded: dtype.into(),
            is_reference: false,
        }
    }

    /// Whether only what products multiply is in the dtype.
    pub(super) fn narrows_products(&self) -> bool {
        !self.is_reference && self.compute != self.rounded
    }
}

impl StepTrial {
    /// A try of something that is no single operation.
    pub(super) fn of(
        what: impl Into<String>,
        prepare: impl Fn(&Setup) -> Result<Run> + 'static,
    ) -> Self {
        Self {
            what: what.into(),
            prepare: Box::new(prepare),
        }
    }
}

/// A try of one operation: its output, and the gradient of each input that learns.
pub(super) fn trial(
    inputs: Vec<Input>,
    operation: impl Fn(&Tape, &[Value]) -> Result<Value> + Clone + 'static,
) -> StepTrial {
    let what: Vec<String> = inputs.iter().map(Input::message).collect();
    StepTrial::of(what.join(", "), move |place| {
        let tensors = inputs.iter().map(|input| input.at(place));
        let tensors: Vec<Tensor> = tensors.collect::<Result<_>>()?;
        let (inputs, operation, rounded) = (inputs.clone(), operation.clone(), place.rounded);
        let seed = OnceCell::new();
        Ok(Box::new(move || {
            let tape = Tape::new(5);
            let values = inputs.iter().zip(&tensors).map(|(input, tensor)| {
                let tensor = tensor.clone();
                match input.learns {
                    true => tape.input(tensor),
                    false => Value::constant(tensor),
                }
            });
            let values: Vec<Value> = values.collect();
            let output = operation(&tape, &values)?;
            let mut results = vec![Named::new("the output", output.tensor())];
            let learning = inputs.iter().zip(&values).filter(|(input, _)| input.learns);
            let (names, wanted): (Vec<&Input>, Vec<&Value>) = learning.unzip();
            if wanted.is_empty() {
                return Ok(results);
            }
            let seed = match seed.get() {
                Some(seed) => seed,
                None => seed.get_or_init(|| seed_of(output.tensor(), rounded)),
            };
            let seed = seed
                .as_ref()
                .map_err(|error| Error::Device(error.clone()))?;
            let gradients =
                tape.backward_to(&output, seed.clone(), &wanted, &mut Gradients::default())?;
            for (input, gradient) in names.iter().zip(gradients) {
                let name = format!("the gradient of {}", input.name);
                let gradient =
                    gradient.ok_or_else(|| Error::Device(format!("{name} is missing")))?;
                results.push(Named::new(name, &gradient));
            }
            Ok(results)
        }))
    })
}

/// The gradient of an output: normal numbers, rounded as activations are.
fn seed_of(output: &Tensor, rounded: DType) -> Result<Tensor, String> {
    let made = || -> Result<Tensor> {
        let numbers = normal("seed", output.dims())?.to_dtype(rounded)?;
        Ok(numbers
            .to_dtype(output.dtype())?
            .to_device(output.device())?)
    };
    made().map_err(|error| error.to_string())
}

impl Named {
    pub(super) fn new(name: impl Into<String>, tensor: &Tensor) -> Self {
        Self {
            name: name.into(),
            tensor: tensor.clone(),
        }
    }
}

/// The other dtypes that frozen weights may be kept in on such a device. f32 is what weights that learn are kept in, and
/// f16 what those of a run in f16 are.
pub(super) fn stored_dtypes(class: DeviceClass, dtype: Dtype) -> Vec<DType> {
    let allowed = dtype_rule(class, Role::Storage).allowed.iter();
    let tensors = dtype.kept_in(class == DeviceClass::CpuBf16);
    let others = allowed.filter(|it| it.dtype == Dtype::Bf16 && tensors == Dtype::F32);
    others.map(|it| it.dtype.into()).collect()
}

/// Normal numbers, f32, on the CPU. Each purpose has its own.
///
/// After so many they come again, or drawing them would take longer than what is tried on them. It is a prime, so that
/// rows of a width are alike only after as many of them.
pub(super) fn normal(purpose: &str, shape: &[usize]) -> Result<Tensor> {
    const DRAWN: usize = 16_381;
    let count = shape.iter().product();
    let mut random = Random::for_purpose(7, purpose);
    let drawn = (0..DRAWN.min(count)).map(|_| random.normal() as f32);
    let drawn: Vec<f32> = drawn.collect();
    let numbers = drawn.iter().copied().cycle().take(count).collect();
    Ok(Tensor::from_vec::<_, f32>(numbers, shape, &Device::Cpu)?)
}
