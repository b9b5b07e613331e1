//! Weights that other programs packed into few bits in safetensors: NF4 of bitsandbytes, and the groups of MLX.
//!
//! | packing | beside `P.weight` | value |
//! |---|---|---|
//! | NF4 | `.absmax`, `.quant_map`, `.quant_state.bitsandbytes__nf4`, nested: `.nested_absmax`, `.nested_quant_map` | map[code] · absmax of its block |
//! | MLX | `P.scales`, `P.biases` | scale · code + bias of its group |
//!
//! NF4 is that of Dettmers et al., "QLoRA", 2023 (<https://arxiv.org/abs/2305.14314>): two codes a byte, the first in the upper half,
//! blocks of values that follow each other row after row. The groups of MLX are of one row, with codes from the lowest bits of a word on.
//!
//! Deliberately absent: what else these programs pack (FP4, 8 bits of bitsandbytes, other modes of MLX), which is refused by its name.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::TensorView;
use serde_json::{Map, Value as Json};

use crate::{
    Error, Result, limits,
    ops::weight::nf4::{StoredNf4, StoredScales},
};

/// How the weights of a folder are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// bitsandbytes’ NF4.
    Nf4,
    /// Groups of MLX.
    Groups {
        /// Bits of a code.
        bits: usize,
        /// Numbers of a group.
        group: usize,
    },
}

/// The endings of what stands beside a packed weight.
const BESIDE: [&str; 7] = [
    ".absmax",
    ".quant_map",
    ".quant_state.bitsandbytes__nf4",
    ".nested_absmax",
    ".nested_quant_map",
    ".scales",
    ".biases",
];

impl Packing {
    /// What a `config.json` says of it. What it says is taken out of the config, since it is about the files.
    ///
    /// Errors: [`Error::Setting`] with a packing that is not read here.
    pub fn take(config: &mut Json) -> Result<Option<Self>> {
        let Some(fields) = config.as_object_mut() else {
            return Ok(None);
        };
        let own = take(fields, "quantization_config");
        // mlx-lm writes both, alike.
        let of_mlx = take(fields, "quantization");
        let Some(said) = of_mlx.or(own) else {
            return Ok(None);
        };
        let is = |field: &str, value: &str| said[field].as_str() == Some(value);
        if is("quant_method", "bitsandbytes") && said["load_in_4bit"] == true {
            return match is("bnb_4bit_quant_type", "nf4") {
                true if said["bnb_4bit_quant_storage"].as_str().unwrap_or("uint8") == "uint8" => {
                    Ok(Some(Self::Nf4))
                }
                true => Err(refused(
                    &said["bnb_4bit_quant_storage"],
                    "bnb_4bit_quant_storage",
                )),
                false => Err(refused(&said["bnb_4bit_quant_type"], "bnb_4bit_quant_type")),
            };
        }
        let number = |field: &str| said[field].as_u64().and_then(|it| usize::try_from(it).ok());
        match (number("bits"), number("group_size")) {
            (Some(bits @ (2 | 4 | 8)), Some(group @ (32 | 64 | 128)))
                if said.get("mode").is_none_or(|it| it == "affine")
                    && said.get("quant_method").is_none() =>
            {
                Ok(Some(Self::Groups { bits, group }))
            }
            _ => Err(refused(&said, "quantization_config")),
        }
    }
}

fn take(fields: &mut Map<String, Json>, name: &str) -> Option<Json> {
    fields.remove(name).filter(|it| !it.is_null())
}

fn refused(said: &Json, field: &str) -> Error {
    Error::setting(
        field,
        format!(
            "is {said}, and packed weights are read where they are NF4 of bitsandbytes in bytes, or 2, 4 or 8 bits in affine groups of MLX; \
             use the model as it was before it was packed, or as GGUF"
        ),
    )
}

/// Whether a tensor stands beside a packed weight. The name of the weight comes back.
pub(super) fn weight_beside(name: &str) -> Option<String> {
    let layer = BESIDE.iter().find_map(|ending| name.strip_suffix(ending))?;
    Some(match layer.ends_with(".weight") {
        true => layer.to_owned(),
        false => format!("{layer}.weight"),
    })
}

/// The tensors of a packed weight, by their endings as in [`BESIDE`], or the weight itself for an empty one.
pub(super) type Find<'a> = dyn Fn(&str) -> Option<TensorView<'a>> + 'a;

/// Rows of a packed weight of this shape, in f32 on the CPU. Of groups, only their part of the files is looked at.
///
/// Errors: a sentence about what does not fit.
pub(super) fn rows(
    packing: Packing,
    find: &Find,
    shape: [usize; 2],
    rows: Range<usize>,
) -> Result<Tensor, String> {
    let width = shape[1];
    let all = rows.start * width..rows.end * width;
    let numbers = match packing {
        Packing::Nf4 => {
            let weight = stored_nf4(find, shape)?.on(&Device::Cpu);
            let numbers = weight.and_then(|it| it.widen(rows, DType::F32));
            return numbers.map_err(|error| error.to_string());
        }
        Packing::Groups { bits, group } => groups(find, shape, all, bits, group),
    }?;
    let shape = (rows.len(), width);
    Tensor::from_vec(numbers, shape, &Device::Cpu).map_err(|error| error.to_string())
}

/// A tensor beside a weight, which has to hold so many numbers.
fn part<'a>(find: &Find<'a>, name: &str, count: usize) -> Result<TensorView<'a>, String> {
    let view = find(name).ok_or_else(|| format!("has no `{name}` beside it"))?;
    let found: usize = view.shape().iter().product();
    match found == count {
        true => Ok(view),
        false => Err(format!(
            "has {found} numbers in `{name}`, and {count} are needed"
        )),
    }
}

/// Some numbers of a tensor of floating-point numbers, in f32.
fn floats(view: &TensorView, range: Range<usize>) -> Result<Vec<f32>, String> {
    let wrong = |_| "holds no floating-point numbers beside it".to_owned();
    let dtype = DType::try_from(view.dtype()).map_err(wrong)?;
    let size = dtype.size_in_bytes();
    let bytes = view.data().get(range.start * size..range.end * size);
    let bytes = bytes.unwrap_or_default();
    let count = bytes.len() / size;
    let numbers = Tensor::from_raw_buffer(bytes, dtype, &[count], &Device::Cpu);
    let numbers = numbers.and_then(|it| it.to_dtype(DType::F32)?.to_vec1());
    numbers.map_err(|error| error.to_string())
}

/// All numbers of a small table of so many.
fn table(find: &Find, name: &str, count: usize) -> Result<Vec<f32>, String> {
    floats(&part(find, name, count)?, 0..count)
}

/// What stands beside the codes of a weight in NF4.
struct Nf4Parts<'a> {
    shape: [usize; 2],
    block: usize,
    values: [f32; 16],
    /// Where scales are packed too: how many in a group, and what all have in common.
    nested: Option<(usize, f32)>,
    codes: TensorView<'a>,
}

impl<'a> Nf4Parts<'a> {
    fn find(find: &Find<'a>, shape: [usize; 2]) -> Result<Self, String> {
        let codes = part(find, "", (shape[0] * shape[1]).div_ceil(2))?;
        let state = find(".quant_state.bitsandbytes__nf4").ok_or("does not say its state")?;
        if let Some(problem) = limits::PACKED_STATE.exceeded(state.data().len() as u64) {
            return Err(format!("its state {problem}"));
        }
        let state: Json = serde_json::from_slice(state.data())
            .map_err(|error| format!("says its state in no JSON: {error}"))?;
        let size = |field: &str| {
            let number = state[field]
                .as_u64()
                .and_then(|it| usize::try_from(it).ok());
            let number = number.filter(|it| it.is_power_of_two() && *it <= 1 << 16);
            number.ok_or("says no size of its blocks")
        };
        let values = table(find, ".quant_map", 16)?;
        let values = values.try_into();
        let nested = match state["nested_offset"].as_f64() {
            None => None,
            Some(offset) => Some((size("nested_blocksize")?, offset as f32)),
        };
        if codes.data().len() != (shape[0] * shape[1]).div_ceil(2) {
            return Err("holds no bytes".to_owned());
        }
        Ok(Self {
            shape,
            block: size("blocksize")?,
            values: values.map_err(|_| "has no 16 numbers in `.quant_map`")?,
            nested,
            codes,
        })
    }

    /// How many blocks there are.
    fn blocks(&self) -> usize {
        (self.shape[0] * self.shape[1]).div_ceil(self.block)
    }

    /// All of it as it lies there.
    fn stored(&self, find: &Find) -> Result<StoredNf4, String> {
        let count = self.blocks();
        let scales = match self.nested {
            None => StoredScales::Plain(table(find, ".absmax", count)?),
            Some((group, offset)) => {
                let codes = part(find, ".absmax", count)?.data().to_vec();
                if codes.len() != count {
                    return Err("holds no bytes in `.absmax`".to_owned());
                }
                StoredScales::Nested {
                    codes,
                    group,
                    largest: table(find, ".nested_absmax", count.div_ceil(group))?,
                    offset,
                    values: table(find, ".nested_quant_map", 256)?,
                }
            }
        };
        Ok(StoredNf4 {
            shape: self.shape,
            block: self.block,
            codes: self.codes.data().to_vec(),
            values: self.values,
            scales,
        })
    }
}

/// A weight in NF4 as it lies there.
///
/// Errors: a sentence about what does not fit.
pub(super) fn stored_nf4(find: &Find, shape: [usize; 2]) -> Result<StoredNf4, String> {
    Nf4Parts::find(find, shape)?.stored(find)
}

fn groups(
    find: &Find,
    [outputs, width]: [usize; 2],
    all: Range<usize>,
    bits: usize,
    group: usize,
) -> Result<Vec<f32>, String> {
    let (codes, count) = (32 / bits, outputs * width);
    if !width.is_multiple_of(group) {
        return Err(format!(
            "has rows of {width}, which are no groups of {group}"
        ));
    }
    let words = part(find, "", count / codes)?;
    let bytes = words.data().get(all.start / codes * 4..all.end / codes * 4);
    let (words, _) = bytes.unwrap_or_default().as_chunks::<4>();
    let here = all.start / group..all.end / group;
    let [scales, biases] = [".scales", ".biases"].map(|name| {
        let view = part(find, name, count / group)?;
        floats(&view, here.clone())
    });
    let (scales, biases) = (scales?, biases?);
    if words.len() * codes != all.len() {
        return Err("holds no words of 32 bits".to_owned());
    }
    let mask = (1u32 << bits) - 1;
    let value = |at: usize| {
        let word = u32::from_le_bytes(words[at / codes]);
        let code = word >> (bits * (at % codes)) & mask;
        scales[at / group] * code as f32 + biases[at / group]
    };
    Ok((0..all.len()).map(value).collect())
}

/// A row packed into groups of 64 numbers of 4 bits: words, scales and biases, of which the latter two are rounded to `dtype` first.
///
/// The end of a group’s range that is further from 0 is hit exactly, and 0 is a code.
pub fn pack_groups(row: &[f32], dtype: DType) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
    let (mut words, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    let rounded = |number: f32| match dtype {
        DType::F16 => half::f16::from_f32(number).to_f32(),
        DType::BF16 => half::bf16::from_f32(number).to_f32(),
        _ => number,
    };
    let (groups, _) = row.as_chunks::<GROUP>();
    for group in groups {
        let least = group.iter().copied().fold(f32::INFINITY, f32::min);
        let most = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = ((most - least) / 15.0).max(1e-7);
        let (step, edge) = match least.abs() > most.abs() {
            true => (step, least),
            false => (-step, most),
        };
        let at_zero = (edge / step).round_ties_even();
        let (step, edge) = match at_zero == 0.0 {
            true => (step, 0.0),
            false => (edge / at_zero, edge),
        };
        let (scale, bias) = (rounded(step), rounded(edge));
        let code = |x: &f32| ((x - bias) / scale).round_ties_even().clamp(0.0, 15.0) as u32;
        let (eights, _) = group.as_chunks::<8>();
        for eight in eights {
            let places = eight.iter().enumerate();
            words.push(places.fold(0, |word, (at, x)| word | code(x) << (4 * at)));
        }
        scales.push(scale);
        biases.push(bias);
    }
    (words, scales, biases)
}

/// The numbers of a group that is written.
pub const GROUP: usize = 64;
