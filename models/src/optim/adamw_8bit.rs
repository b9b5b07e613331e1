//! AdamW that keeps its two numbers of a weight as two bytes.
//!
//! A byte is a code in a table of 256 values ([`codebook`]) that are relative to the largest number of a block of 256 weights. A step
//! is AdamW's own in f32:
//!
//! ```text
//! m, v ← value of its code · largest of its block
//! m, v, θ ← a step of AdamW
//! largest ← max |m|, max v        code ← the nearest to m / largest, v / largest
//! ```
//!
//! Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022 (<https://arxiv.org/abs/2110.02861>), with the tables of
//! bitsandbytes. In one thing it differs from there: a v above 0 never becomes 0, which would make the next update of its weight
//! as large as 1 / ε allows.
//!
//! On a GPU a kernel changes a block at a time. Where there is none, each parameter is changed by tensor operations, which need f32
//! copies of the largest.

use candle_core::{D, DType, Device, Tensor};
use rayon::prelude::*;

use super::{
    Backend, Group, Part, Update,
    adamw::{self, AdamW, Factors},
    flat::{self, BLOCK, Form},
    numbers::{CHUNK, lend, numbers},
    rule::Kept,
};
use crate::{
    Error, Result,
    ops::{
        codebook::{self, Codebook},
        kernels::{self, Kernel},
    },
    parameters::Parameter,
};

/// Weights with fewer numbers keep f32: there is nothing to gain.
const MIN_NUMBERS: usize = 4096;

/// What is kept for each parameter, by the names it is saved under.
pub(super) const STATE: &[Kept] = &[
    kept("first_moment", Form::Code),
    kept("first_moment.largest", Form::Scale),
    kept("second_moment", Form::Code),
    kept("second_moment.largest", Form::Scale),
];

const fn kept(name: &'static str, form: Form) -> Kept {
    Kept { name, form }
}

/// Bytes that are kept of so many weights of large matrices.
pub fn state_bytes(weights: u64) -> u64 {
    2 * weights + 2 * 4 * weights.div_ceil(BLOCK as u64)
}

/// Whether the two numbers of these weights are kept in 8 bits. Those of tables and heads are not: a row that is rarely seen has
/// gradients of another size than those beside it (section 3 of the paper).
pub(super) fn takes(parameter: &Parameter) -> bool {
    let is_large = parameter.tensor().elem_count() >= MIN_NUMBERS;
    is_large && !parameter.is_embedding() && !parameter.is_head()
}

pub(super) fn step(adamw: &AdamW, group: &Group, parts: &[Part], update: Update) -> Result<()> {
    let factors = adamw.factors(group.weight_decay, update);
    let on_metal = |part: &Part| kernels::metal::serves(Kernel::Adamw, &[&part.weight]);
    if parts.iter().all(on_metal) {
        return step_on_metal(factors, group, parts);
    }
    match group.way(Kernel::Adamw) {
        Backend::InPlace => step_in_place(factors, group, parts),
        #[cfg(feature = "cuda")]
        Backend::OnCuda => step_on_cuda(factors, group, parts),
        _ => step_composed(factors, group, parts),
    }
}

/// The values of both tables, each with the middles between them and a number that nobody reads: [4, 256].
fn tables_on(device: &Device) -> Result<Tensor> {
    let mut all = Vec::with_capacity(4 * BLOCK);
    for table in [codebook::signed(), codebook::unsigned()] {
        all.extend(table.values);
        all.extend(table.middles());
        all.push(0.0);
    }
    Ok(Tensor::from_vec(all, (4, BLOCK), device)?)
}

/// By a kernel, a parameter after the other.
fn step_on_metal(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let tables = tables_on(group.flat.device())?;
    for part in parts {
        let state = state_of(group, part)?;
        let both = [&part.weight, &part.gradient];
        kernels::metal::adamw::step_in_codes(both, &state, &tables, factors.for_kernels())?;
    }
    Ok(())
}

/// By a kernel, all parameters at once.
#[cfg(feature = "cuda")]
fn step_on_cuda(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let states = parts.iter().map(|part| state_of(group, part));
    let states = states.collect::<Result<Vec<_>>>()?;
    let entries = parts.iter().zip(&states).map(|(part, state)| {
        let [[first, first_scale], [second, second_scale]] = state;
        let (weight, gradient) = (&part.weight, &part.gradient);
        [weight, gradient, first, first_scale, second, second_scale].map(Some)
    });
    let entries: Vec<_> = entries.collect();
    let tables = tables_on(group.flat.device())?;
    kernels::cuda::many::adamw_8bit(&entries, &tables, factors.for_kernels())
}

/// The codes of the first moment with their scales, and those of the second.
fn state_of(group: &Group, part: &Part) -> Result<[[Tensor; 2]; 2]> {
    let state = <[Tensor; 4]>::try_from(group.state_of(part)?);
    let [first, first_scale, second, second_scale] = state.map_err(|state| {
        let problem = format!("AdamW in 8 bits keeps four vectors, not {}", state.len());
        Error::Data(problem)
    })?;
    Ok([[first, first_scale], [second, second_scale]])
}

/// One pass over each parameter, on all cores. The result doesn't depend on their number.
fn step_in_place(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    for part in parts {
        let [[first, first_scale], [second, second_scale]] = &state_of(group, part)?;
        let in_f32 = [&part.weight, first_scale, second_scale];
        lend(
            in_f32,
            |[weight, first_scale, second_scale]: [&mut [f32]; 3]| {
                lend([first, second], |[first, second]: [&mut [u8]; 2]| {
                    numbers(&part.gradient, |gradient| {
                        let weights = weight.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
                        let moments = chunks(first, first_scale).zip(chunks(second, second_scale));
                        weights
                            .zip(moments)
                            .for_each(|((weight, gradient), moments)| {
                                change(factors, weight, gradient, moments);
                            });
                    })
                })
            },
        )?;
    }
    Ok(())
}

/// Codes and the scales of their blocks, as many as one thread takes at a time.
fn chunks<'a>(
    codes: &'a mut [u8],
    scales: &'a mut [f32],
) -> impl IndexedParallelIterator<Item = Moments<'a>> {
    let scales = scales.par_chunks_mut(CHUNK / BLOCK);
    codes.par_chunks_mut(CHUNK).zip(scales)
}

/// Codes with a scale for each block of them.
type Moments<'a> = (&'a mut [u8], &'a mut [f32]);

/// A step of some blocks.
fn change(
    factors: Factors,
    weight: &mut [f32],
    gradient: &[f32],
    ((first, first_scales), (second, second_scales)): (Moments, Moments),
) {
    let (signed, unsigned) = (codebook::signed(), codebook::unsigned());
    let weights = weight.chunks_mut(BLOCK).zip(gradient.chunks(BLOCK));
    let first = first.chunks_mut(BLOCK).zip(first_scales);
    let second = second.chunks_mut(BLOCK).zip(second_scales);
    let (mut m, mut v) = ([0.0; BLOCK], [0.0; BLOCK]);
    for ((weight, gradient), ((first, first_scale), (second, second_scale))) in
        weights.zip(first.zip(second))
    {
        decode(signed, first, *first_scale, &mut m);
        decode(unsigned, second, *second_scale, &mut v);
        let count = weight.len();
        adamw::change(factors, weight, &mut m[..count], &mut v[..count], gradient);
        *first_scale = encode(signed, &mut m, first);
        *second_scale = encode(unsigned, &mut v, second);
        for (code, &number) in second.iter_mut().zip(&v) {
            *code = (*code).max(u8::from(number > 0.0));
        }
    }
}

fn decode(table: &Codebook<256>, codes: &[u8], scale: f32, numbers: &mut [f32; BLOCK]) {
    for (number, code) in numbers.iter_mut().zip(codes) {
        *number = table.values[usize::from(*code)] * scale;
    }
}

/// The codes of numbers, which become relative to the largest: what is returned.
fn encode(table: &Codebook<256>, numbers: &mut [f32; BLOCK], codes: &mut [u8]) -> f32 {
    let largest = numbers.iter().fold(0f32, |most, it| most.max(it.abs()));
    if largest > 0.0 {
        numbers.iter_mut().for_each(|number| *number /= largest);
    }
    table.nearest_by_halves(numbers, codes);
    largest
}

/// The same with tensor operations, a parameter after the other.
fn step_composed(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let device = group.flat.device();
    let [signed, unsigned] = [codebook::signed(), codebook::unsigned()];
    let (signed, unsigned) = (Table::on(signed, device)?, Table::on(unsigned, device)?);
    for part in parts {
        let [[first, first_scale], [second, second_scale]] = state_of(group, part)?;
        let mut m = signed.decode(&first, &first_scale)?;
        let mut v = unsigned.decode(&second, &second_scale)?;
        let gradient = in_blocks(&part.gradient)?.affine(factors.gradient_scale, 0.0)?;
        let weight = in_blocks(&part.weight)?;
        let weight = adamw::compose(factors, [weight, gradient], [&mut m, &mut v])?;
        let count = part.weight.elem_count();
        flat::write(&part.weight, &weight.flatten_all()?.narrow(0, 0, count)?)?;
        let (codes, scale) = signed.encode(&m)?;
        flat::write(&first, &codes.to_dtype(DType::U8)?)?;
        flat::write(&first_scale, &scale)?;
        let (codes, scale) = unsigned.encode(&v)?;
        let least = v.gt(0.0)?.flatten_all()?.to_dtype(DType::U32)?;
        flat::write(&second, &codes.maximum(&least)?.to_dtype(DType::U8)?)?;
        flat::write(&second_scale, &scale)?;
    }
    Ok(())
}

/// A tensor as [blocks, 256], with zeros at the end.
fn in_blocks(tensor: &Tensor) -> Result<Tensor> {
    let flat = tensor.flatten_all()?;
    let count = flat.elem_count();
    let missing = count.next_multiple_of(BLOCK) - count;
    Ok(flat.pad_with_zeros(0, 0, missing)?.reshape(((), BLOCK))?)
}

/// A table on a device.
struct Table {
    values: Tensor,
    /// The middle between each and the next.
    middles: Tensor,
}

impl Table {
    fn on(table: &Codebook<256>, device: &Device) -> Result<Self> {
        let [values, middles] = table.on(device)?;
        Ok(Self { values, middles })
    }

    /// Codes [n] and scales [n / 256] -> [n / 256, 256].
    fn decode(&self, codes: &Tensor, scales: &Tensor) -> Result<Tensor> {
        // Where bytes choose rows, candle takes 255 for none.
        let codes = codes.to_dtype(DType::U32)?;
        let values = self.values.index_select(&codes, 0)?;
        let values = values.reshape(((), BLOCK))?;
        Ok(values.broadcast_mul(&scales.unsqueeze(1)?)?)
    }

    /// Numbers [blocks, 256] -> codes [blocks · 256] in u32, and scales [blocks].
    fn encode(&self, numbers: &Tensor) -> Result<(Tensor, Tensor)> {
        let largest = numbers.abs()?.max_keepdim(D::Minus1)?;
        // A block of zeros is divided by 1.
        let divisor = (&largest + largest.eq(0.0)?.to_dtype(DType::F32)?)?;
        let relative = numbers.broadcast_div(&divisor)?.flatten_all()?;
        let mut codes = relative.zeros_like()?.to_dtype(DType::U32)?;
        for half in (0..u8::BITS).rev().map(|bit| 1u32 << bit) {
            let step = |by: u32| Tensor::new(by, codes.device());
            let middles = codes.broadcast_add(&step(half - 1)?)?;
            let middles = self.middles.index_select(&middles, 0)?;
            let is_above = middles.lt(&relative)?.to_dtype(DType::U32)?;
            codes = (codes.clone() + is_above.broadcast_mul(&step(half)?)?)?;
        }
        Ok((codes, largest.squeeze(1)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        optim::{
            DecayScope, Optimizer, Rule,
            testing::{assert_close, check_composed_equals_in_place},
        },
        parameters::Parameters,
        tape::Gradients,
    };

    /// Numbers from -0.5 to 0.5, as `make_adamw_8bit.py` makes them.
    fn spread(count: usize, factor: usize, offset: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |at| ((at * factor + offset) % 10007) as f64 / 10007.0 - 0.5)
    }

    fn matrix(numbers: impl Iterator<Item = f64>) -> Tensor {
        let numbers: Vec<f32> = numbers.map(|it| it as f32).collect();
        Tensor::from_vec(numbers, (50, 100), &Device::Cpu).unwrap()
    }

    fn one_matrix(numbers: &Tensor) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.insert(Parameter::new("matrix", numbers, true).unwrap());
        parameters
    }

    fn bytes_of(tensor: &Tensor) -> Vec<u8> {
        let flat = tensor.flatten_all().unwrap();
        match flat.dtype() {
            DType::U8 => flat.to_vec1().unwrap(),
            _ => {
                let numbers: Vec<f32> = flat.to_vec1().unwrap();
                numbers.iter().flat_map(|it| it.to_le_bytes()).collect()
            }
        }
    }

    #[test]
    fn it_learns_as_the_formula_and_nearer_to_f32_than_bitsandbytes() {
        let golden = include_str!("../../../tests/goldens/optim/adamw_8bit.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let setting = |name: &str| golden["settings"][name].as_f64().unwrap();
        let adamw = AdamW {
            beta1: setting("beta1"),
            beta2: setting("beta2"),
            epsilon: setting("epsilon"),
            weight_decay: setting("weight_decay"),
        };
        let count = golden["count"].as_u64().unwrap() as usize;
        let parameters = one_matrix(&matrix(spread(count, 7919, 0)));
        let rule = Rule::AdamW8Bit(adamw);
        let mut optimizer = Optimizer::new(rule, DecayScope::All, &parameters).unwrap();
        for step in 1..=golden["steps"].as_u64().unwrap() as usize {
            let small = (0..count).map(|at| 0.5f64.powi((at % 11) as i32));
            let numbers = spread(count, 104_729, 15_485_863 * step);
            let mut gradients = Gradients::default();
            let gradient = matrix(numbers.zip(small).map(|(number, small)| number * small));
            gradients.add("matrix", gradient).unwrap();
            let rate = setting("learning_rate");
            optimizer.step(&parameters, &gradients, rate, 1.0).unwrap();
        }
        let weight = parameters.get("matrix").unwrap().tensor();
        let every = golden["every"].as_u64().unwrap() as usize;
        let numbers: Vec<f32> = weight.flatten_all().unwrap().to_vec1().unwrap();
        let some: Vec<f32> = numbers.into_iter().step_by(every).collect();
        let some = Tensor::new(some, &Device::Cpu).unwrap();
        assert_close(&some, &golden["weights"], "matrix");
        let state = optimizer.state().unwrap();
        for (name, checksum) in golden["checksums"].as_object().unwrap() {
            let tensor = match name.as_str() {
                "weight" => &weight,
                kept => &state[&format!("matrix.{kept}")],
            };
            let found = crc32fast::hash(&bytes_of(tensor));
            assert_eq!(u64::from(found), checksum.as_u64().unwrap(), "{name}");
        }
        let numbers = |name: &str| {
            let numbers = golden[name].as_array().unwrap().iter();
            numbers.map(|it| it.as_f64().unwrap()).collect::<Vec<f64>>()
        };
        let wide = numbers("in_f32");
        let apart = |numbers: Vec<f64>| {
            let squares = numbers
                .iter()
                .zip(&wide)
                .map(|(one, other)| (one - other).powi(2));
            (squares.sum::<f64>() / wide.len() as f64).sqrt()
        };
        // A second moment that became 0 lets bitsandbytes take far too large a step.
        let (ours, others) = (apart(numbers("weights")), apart(numbers("by_bitsandbytes")));
        assert!(ours < 0.3 * setting("learning_rate"), "{ours}");
        assert!(ours < others, "{ours} {others}");
    }

    #[test]
    fn a_device_computes_the_same_as_the_cpu() {
        let adamw = AdamW::default();
        let rule = Rule::AdamW8Bit(adamw);
        check_composed_equals_in_place(rule, |group, parts, update| match group.rule {
            Rule::AdamW8Bit(adamw) => {
                let factors = adamw.factors(group.weight_decay, update);
                step_composed(factors, group, parts)
            }
            _ => adamw.step(group, parts, update),
        });
    }

    #[test]
    fn a_matrix_has_two_bytes_a_weight_and_what_is_small_or_a_table_has_eight() {
        let zeros = |rows: usize, columns: usize| {
            Tensor::zeros((rows, columns), DType::F32, &Device::Cpu).unwrap()
        };
        let mut parameters = one_matrix(&zeros(64, 257));
        let parameter = |name: &str, tensor: &Tensor| Parameter::new(name, tensor, true).unwrap();
        parameters.insert(parameter("small", &zeros(63, 65)));
        parameters.insert(parameter("table", &zeros(64, 257)).as_embedding());
        parameters.insert(parameter("head", &zeros(64, 257)).as_head());
        let rule = Rule::AdamW8Bit(AdamW::default());
        let optimizer = Optimizer::new(rule, DecayScope::Matrices, &parameters).unwrap();
        let mut bytes = std::collections::BTreeMap::<String, usize>::new();
        for (name, tensor) in optimizer.state().unwrap() {
            let (parameter, _) = name.split_once('.').unwrap_or((&name, ""));
            let size = tensor.elem_count() * tensor.dtype().size_in_bytes();
            *bytes.entry(parameter.to_owned()).or_default() += size;
        }
        let numbers = 64 * 257;
        assert_eq!(bytes["matrix"] as u64, state_bytes(numbers as u64));
        assert!((bytes["matrix"] as f64) < 2.1 * numbers as f64);
        assert_eq!(bytes["small"], 8 * 63 * 65);
        assert_eq!([bytes["table"], bytes["head"]], [8 * numbers; 2]);
    }

    #[test]
    fn a_saved_state_continues_with_the_same_bits_and_one_of_f32_is_refused() {
        let start = matrix(spread(5000, 7919, 3));
        let gradients = |step: usize| {
            let mut gradients = Gradients::default();
            let gradient = matrix(spread(5000, 104_729, step));
            gradients.add("matrix", gradient).unwrap();
            gradients
        };
        let new = |rule: Rule, parameters: &Parameters| {
            Optimizer::new(rule, DecayScope::All, parameters).unwrap()
        };
        let rule = Rule::AdamW8Bit(AdamW::default());
        let (straight, restarted) = (one_matrix(&start), one_matrix(&start));
        let (mut first, mut before) = (new(rule, &straight), new(rule, &restarted));
        for step in 0..3 {
            first.step(&straight, &gradients(step), 0.1, 1.0).unwrap();
            before.step(&restarted, &gradients(step), 0.1, 1.0).unwrap();
        }
        let mut after = new(rule, &restarted);
        after.load_state(before.state().unwrap()).unwrap();
        for step in 3..6 {
            first.step(&straight, &gradients(step), 0.1, 1.0).unwrap();
            after.step(&restarted, &gradients(step), 0.1, 1.0).unwrap();
        }
        let weight = |it: &Parameters| bytes_of(&it.get("matrix").unwrap().tensor());
        assert_eq!(weight(&straight), weight(&restarted));

        let wide = new(AdamW::default().into(), &straight).state().unwrap();
        let mut wide = wide;
        wide.extend(
            first
                .state()
                .unwrap()
                .into_iter()
                .filter(|(name, _)| name.ends_with("largest")),
        );
        let error = new(rule, &straight).load_state(wide).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`matrix.first_moment` is f32 in the saved state and u8 in this optimizer"
        );
    }
}
