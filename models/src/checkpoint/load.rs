//! Weights from safetensors files, by their names in the checkpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor, safetensors::MmapedSafetensors};
use safetensors::tensor::TensorView;

#[cfg(feature = "chat-only")]
use crate::checkpoint::chat_only;
use crate::{
    Error, Result,
    arch::{
        WeightRequest, Weights,
        chat_only::{ChatOnlyConfig, Family, family},
        config::DecoderConfig,
        decoder::Decoder,
        network::{Network, NetworkConfig, is_recursive},
        trm::{CausalTrm, CausalTrmConfig},
    },
    checkpoint::{
        folder::{self, ModelFolder},
        gguf::GgufWeights,
        packed::{self, Packing},
        quantize::Quantization,
    },
    figures::counted,
    ops::weight::Quantized,
};

/// The name of the head, and of the table that it is where a model ties them.
pub(super) const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

/// Safetensors files, open, from which tensors are taken one by one.
pub struct StoredWeights {
    files: MmapedSafetensors,
    /// Where they came from, for messages.
    path: PathBuf,
    taken: BTreeSet<String>,
    /// The tensors whose values are no floating-point values, with their dtypes as the format writes them.
    other_dtypes: BTreeMap<String, String>,
    /// How matrices are packed that have something beside them.
    packing: Option<Packing>,
    /// What the matrices of layers are put into.
    quantize: Option<Quantization>,
    dtype: DType,
    device: Device,
}

impl StoredWeights {
    /// Opens the files; tensors will be kept in `dtype` on `device`. `path` names them all in messages.
    pub fn open(files: &[PathBuf], path: PathBuf, dtype: DType, device: &Device) -> Result<Self> {
        // What was cut off or is something else is said in our words, before a library meets it.
        let mut other_dtypes = BTreeMap::new();
        for header in folder::headers(files)? {
            for (name, tensor) in header.tensors {
                if let Some(dtype) = tensor.other_dtype() {
                    let dtype = dtype.to_owned();
                    other_dtypes.insert(name, dtype);
                }
            }
        }
        // SAFETY: a mapped file must not change while it is read. Checkpoints are written to a new folder and renamed,
        // never changed in place, and each tensor is copied out of the mapping.
        let files = unsafe { MmapedSafetensors::multi(files) };
        let files =
            files.map_err(|error| Error::damaged(&path, "the weights are damaged", error))?;
        Ok(Self {
            files,
            path,
            taken: BTreeSet::new(),
            other_dtypes,
            packing: None,
            quantize: None,
            dtype,
            device: device.clone(),
        })
    }

    /// The weights of a model folder, packed or not.
    pub fn of(folder: &ModelFolder, dtype: DType, device: &Device) -> Result<Self> {
        let stored = Self::open(&folder.weight_files, folder.path.clone(), dtype, device)?;
        Ok(Self {
            packing: folder.packing,
            ..stored
        })
    }

    /// The same, with the matrices of layers in blocks where they are asked for so.
    pub(super) fn in_blocks(self, quantize: Option<Quantization>) -> Self {
        Self { quantize, ..self }
    }

    /// Whether matrices are packed into few bits.
    pub fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .files
            .tensors()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        names
    }

    /// The shapes of all tensors, by their names.
    pub fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        let tensors = self.files.tensors().into_iter();
        tensors
            .map(|(name, tensor)| (name, tensor.shape().to_vec()))
            .collect()
    }

    /// The tensor of this name as it is stored, on the CPU.
    pub fn raw(&mut self, name: &str) -> Result<Tensor> {
        self.taken.insert(name.to_owned());
        let missing = |_| Error::format(&self.path, format!("`{name}` is not in the checkpoint"));
        self.files.get(name).map_err(missing)?;
        let unreadable =
            |error| Error::format(&self.path, format!("could not read `{name}`: {error}"));
        self.files.load(name, &Device::Cpu).map_err(unreadable)
    }

    /// Names a tensor that nobody has asked for, if there is one besides those that `expected` accepts.
    pub fn check_all_taken(&self, expected: impl Fn(&str) -> bool) -> Result<()> {
        let names = self.names();
        let is_beside = |name: &str| {
            let weight = self.packing.and_then(|_| packed::weight_beside(name));
            weight.is_some_and(|weight| self.taken.contains(&weight))
        };
        let left: Vec<&String> = names
            .iter()
            .filter(|it| !self.taken.contains(*it) && !expected(it) && !is_beside(it))
            .collect();
        let problem = "is in the checkpoint but not in the model its config describes";
        check_none_left(&left, problem, &self.path)
    }
}

impl Weights for StoredWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        if let Some(numbers) = self.unpacked(request, None)? {
            return Ok(numbers.to_dtype(self.dtype)?.to_device(&self.device)?);
        }
        self.view(request)?;
        let tensor = self.raw(request.name)?;
        self.check_values(request.name)?;
        Ok(tensor.to_dtype(self.dtype)?.to_device(&self.device)?)
    }

    fn quantized(&mut self, request: &WeightRequest) -> Result<Option<Quantized>> {
        let (Some(quantize), &[outputs, width]) = (self.quantize, request.shape) else {
            return Ok(None);
        };
        let shape = [outputs, width];
        // Codes that are there already are taken as they are.
        if (quantize, self.packing) == (Quantization::Nf4, Some(Packing::Nf4))
            && self.other_dtypes.contains_key(request.name)
        {
            let name = request.name;
            let find = |part: &str| self.files.get(&format!("{name}{part}")).ok();
            let stored = packed::stored_nf4(&find, shape);
            let stored = stored.map_err(|problem| self.packed_wrong(name, &problem))?;
            let weight = Quantized::new(stored.on(&self.device)?)?;
            if !weight.is_finite()? {
                return Err(self.not_finite(name));
            }
            self.taken.insert(name.to_owned());
            return Ok(Some(weight));
        }
        if !quantize.holds(width) {
            return Ok(None);
        }
        let device = self.device.clone();
        let blocks = quantize.blocks(shape, &device, |rows| self.rows(request, rows));
        self.taken.insert(request.name.to_owned());
        blocks.map(Some)
    }
}

impl StoredWeights {
    /// Some rows of a weight in f32, on the CPU.
    pub fn rows(&mut self, request: &WeightRequest, rows: Range<usize>) -> Result<Tensor> {
        if let Some(numbers) = self.unpacked(request, Some(rows.clone()))? {
            return Ok(numbers);
        }
        let view = self.view(request)?;
        let dtype = DType::try_from(view.dtype()).map_err(Error::from)?;
        let row_bytes = view.data().len() / request.shape.first().copied().unwrap_or(1).max(1);
        let bytes = rows.start * row_bytes..rows.end * row_bytes;
        let bytes = view.data().get(bytes).unwrap_or_default();
        let mut shape = request.shape.to_vec();
        if let Some(first) = shape.first_mut() {
            *first = rows.len();
        }
        let numbers = Tensor::from_raw_buffer(bytes, dtype, &shape, &Device::Cpu)?;
        check_finite(request.name, view.dtype(), bytes, &self.path)?;
        Ok(numbers.to_dtype(DType::F32)?)
    }

    /// A weight where it lies in the files, of a dtype that is read and of the shape that is asked for.
    fn view(&self, request: &WeightRequest) -> Result<TensorView<'_>> {
        let name = request.name;
        self.check_dtype(name)?;
        let missing = |_| Error::format(&self.path, format!("`{name}` is not in the checkpoint"));
        let view = self.files.get(name).map_err(missing)?;
        if view.shape() != request.shape {
            let (found, expected) = (view.shape(), request.shape);
            let problem =
                format!("`{name}` is {found:?} in the file and {expected:?} in the config");
            return Err(Error::format(&self.path, problem));
        }
        Ok(view)
    }

    /// Rows of a packed weight in f32, or all of them. Nothing where it is not packed.
    fn unpacked(
        &mut self,
        request: &WeightRequest,
        rows: Option<Range<usize>>,
    ) -> Result<Option<Tensor>> {
        let (Some(packing), &[outputs, width]) = (self.packing, request.shape) else {
            return Ok(None);
        };
        let name = request.name;
        if !self.other_dtypes.contains_key(name) {
            return Ok(None);
        }
        let layer = name.strip_suffix(".weight").unwrap_or(name);
        let find = |part: &str| {
            let name = match part {
                ".scales" | ".biases" => format!("{layer}{part}"),
                _ => format!("{name}{part}"),
            };
            self.files.get(&name).ok()
        };
        let rows = rows.unwrap_or(0..outputs);
        let numbers = packed::rows(packing, &find, [outputs, width], rows);
        let numbers = numbers.map_err(|problem| self.packed_wrong(name, &problem))?;
        if !numbers.sum_all()?.to_scalar::<f32>()?.is_finite() {
            return Err(self.not_finite(name));
        }
        self.taken.insert(name.to_owned());
        Ok(Some(numbers))
    }

    fn not_finite(&self, name: &str) -> Error {
        let problem = format!("`{name}` is NaN or infinite, so the model can’t be used");
        Error::format(&self.path, problem)
    }

    fn packed_wrong(&self, name: &str, problem: &str) -> Error {
        Error::format(&self.path, format!("the packed weight `{name}` {problem}"))
    }

    /// The dtype of a weight in the files.
    pub fn dtype_of(&self, name: &str) -> Option<DType> {
        let view = self.files.get(name).ok()?;
        DType::try_from(view.dtype()).ok()
    }

    /// An error where the values of a weight are no floating-point values.
    fn check_dtype(&self, name: &str) -> Result<()> {
        if let Some(dtype) = self.other_dtypes.get(name) {
            let problem = format!(
                "`{name}` holds values of dtype {dtype}, and weights are read from F32, F16, BF16 or F64: quantized \
                 models are read where config.json says how they are packed"
            );
            return Err(Error::format(&self.path, problem));
        }
        Ok(())
    }

    /// An error where a weight has values that are not finite.
    fn check_values(&self, name: &str) -> Result<()> {
        let view = self.files.get(name).map_err(Error::from)?;
        check_finite(name, view.dtype(), view.data(), &self.path)
    }
}

/// An error where values in the bytes of a weight are not finite.
///
/// The bytes were read for the copy a moment before, so that looking at all of them costs little.
fn check_finite(name: &str, dtype: safetensors::Dtype, data: &[u8], path: &Path) -> Result<()> {
    let count = match dtype {
        safetensors::Dtype::F16 => not_finite(data, |it| u16::from_le_bytes(it) & 0x7c00 == 0x7c00),
        safetensors::Dtype::BF16 => {
            not_finite(data, |it| u16::from_le_bytes(it) & 0x7f80 == 0x7f80)
        }
        safetensors::Dtype::F32 => not_finite(data, |it| !f32::from_le_bytes(it).is_finite()),
        _ => not_finite(data, |it| !f64::from_le_bytes(it).is_finite()),
    };
    match count {
        0 => Ok(()),
        count => {
            let values = counted(count, "value");
            let problem =
                format!("`{name}` is NaN or infinite in {values}, so the model can’t be used");
            Err(Error::format(path, problem))
        }
    }
}

/// How many of the values in these bytes are not finite.
fn not_finite<const BYTES: usize>(data: &[u8], is_wrong: impl Fn([u8; BYTES]) -> bool) -> u64 {
    let (values, _) = data.as_chunks::<BYTES>();
    values.iter().map(|&it| u64::from(is_wrong(it))).sum()
}

/// An error that names the first of the tensors that nobody has asked for, with what is wrong with it and how many more there are.
pub(super) fn check_none_left(left: &[&String], problem: &str, path: &Path) -> Result<()> {
    let Some((first, more)) = left.split_first() else {
        return Ok(());
    };
    let more = match more.len() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Err(Error::format(path, format!("`{first}` {problem}{more}")))
}

/// The dtypes a decoder is loaded in.
#[derive(Debug, Clone, Copy)]
pub struct LoadDtypes {
    /// What weights are kept in.
    pub storage: DType,
    /// What activations are computed in.
    pub compute: DType,
    /// What frozen matrices of layers are put into, where they are not in blocks already.
    pub quantize: Option<Quantization>,
    /// Frozen matrices that are in blocks already become numbers where all weights then have at most so many bytes, and stay as they
    /// are with more. Numbers take more memory, and on a GPU less time.
    pub most_bytes_unpacked: u64,
}

impl LoadDtypes {
    /// As weights are that learn, and what a processor computes in.
    pub const F32: Self = Self {
        storage: DType::F32,
        compute: DType::F32,
        quantize: None,
        most_bytes_unpacked: 0,
    };
}

/// What the config in `folder` describes together with its weights: a head that is stored beside the embeddings, and is another
/// than they, is one of its own whatever the config says, as in transformers 5.
pub fn decoder_config(folder: &ModelFolder) -> Result<DecoderConfig> {
    let mut config = DecoderConfig::from_json(&folder.config)?;
    if folder.gguf.is_some() {
        return Ok(config);
    }
    // What was cut off is said in our words, before a library meets it.
    folder.parameter_count()?;
    if config.tie_word_embeddings {
        let files = &folder.weight_files;
        let weights = StoredWeights::open(files, folder.path.clone(), DType::F32, &Device::Cpu)?;
        let [head, embedding] = [HEAD, EMBEDDING].map(|name| weights.files.get(name).ok());
        let is_other = |(head, embedding): (TensorView, TensorView)| {
            head.shape() != embedding.shape()
                || head.dtype() != embedding.dtype()
                || head.data() != embedding.data()
        };
        config.tie_word_embeddings = !head.zip(embedding).is_some_and(is_other);
    }
    Ok(config)
}

/// Loads the decoder in `folder`. Missing, extra and misshapen tensors are errors that name them.
pub fn load_decoder(
    folder: &ModelFolder,
    dtypes: LoadDtypes,
    trainable: bool,
    device: &Device,
) -> Result<Decoder> {
    let config = decoder_config(folder)?;
    if let Some(file) = &folder.gguf {
        // What learns has to be numbers of its own.
        let unpacked_bytes = config.parameters() * dtypes.storage.size_in_bytes() as u64;
        let keeps_blocks = !trainable && unpacked_bytes > dtypes.most_bytes_unpacked;
        let file = file.clone();
        let mut weights = GgufWeights::new(file, &config, keeps_blocks, dtypes.storage, device)?;
        let decoder = Decoder::new(config, &mut weights, trainable, dtypes.compute, device)?;
        weights.check_all_taken()?;
        return Ok(decoder);
    }
    let tied = config.tie_word_embeddings;
    // What learns has to be numbers of its own.
    let quantize = dtypes.quantize.filter(|_| !trainable);
    let mut weights = StoredWeights::of(folder, dtypes.storage, device)?.in_blocks(quantize);
    let decoder = Decoder::new(config, &mut weights, trainable, dtypes.compute, device)?;
    // Some writers store a tied head twice, and rope tables that follow from the config.
    weights
        .check_all_taken(|name| (tied && name == HEAD) || name.ends_with("rotary_emb.inv_freq"))?;
    Ok(decoder)
}

/// What the config in `folder` describes, whichever architecture it is of. See [`decoder_config`].
pub fn network_config(folder: &ModelFolder) -> Result<NetworkConfig> {
    if !folder.config.as_object().is_some_and(is_recursive) {
        return decoder_config(folder).map(NetworkConfig::Decoder);
    }
    // What was cut off is said in our words, before a library meets it.
    folder.parameter_count()?;
    NetworkConfig::from_json(&folder.config)
}

/// What the config in `folder` describes, of a model that is for chat only.
pub fn chat_only_config(folder: &ModelFolder) -> Result<ChatOnlyConfig> {
    if folder.packing.is_some() {
        let problem = "says that the weights are packed, which is read of families that can be trained only; use the \
                       model as it was before that";
        return Err(Error::setting("quantization_config", problem));
    }
    let of_gguf = family(&folder.config).filter(|it| it.only_gguf && folder.gguf.is_none());
    if let Some(Family { model_type, .. }) = of_gguf {
        let problem = format!("is `{model_type}`, of which only GGUF files are opened");
        return Err(Error::setting("model_type", problem));
    }
    ChatOnlyConfig::from_json(&folder.config)
}

/// Loads the network in `folder`, which may be for chat only where nothing is trainable. Missing, extra and misshapen tensors are errors that name them.
pub fn load_network(
    folder: &ModelFolder,
    dtypes: LoadDtypes,
    trainable: bool,
    device: &Device,
) -> Result<Network> {
    #[cfg(feature = "chat-only")]
    if !trainable && family(&folder.config).is_some() {
        return chat_only::load(folder, device).map(Network::ChatOnly);
    }
    if !folder.config.as_object().is_some_and(is_recursive) {
        return load_decoder(folder, dtypes, trainable, device).map(Network::Decoder);
    }
    let config = CausalTrmConfig::from_json(&folder.config)?;
    let (files, path) = (&folder.weight_files, folder.path.clone());
    let mut weights = StoredWeights::open(files, path, dtypes.storage, device)?;
    let model = CausalTrm::new(config, &mut weights, trainable, dtypes.compute, device)?;
    weights.check_all_taken(|_| false)?;
    Ok(Network::Recursive(model))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::arch::Initial;

    /// The tensor `a` of two values from a file that holds these bytes as this dtype.
    fn loaded(dtype: &str, data: &[u8]) -> Result<Vec<f32>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let header = format!(
            r#"{{"a":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,{}]}}}}"#,
            data.len()
        );
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&length[..], header.as_bytes(), data].concat()).unwrap();
        let files = [path.clone()];
        let mut stored = StoredWeights::open(&files, path, DType::F32, &Device::Cpu)?;
        let request = WeightRequest {
            name: "a",
            shape: &[2],
            initial: Initial::Constant(0.0),
        };
        Ok(stored.tensor(&request)?.to_vec1()?)
    }

    #[test]
    fn weights_are_read_from_every_dtype_that_holds_them() {
        let two = |one: &[u8]| one.repeat(2);
        let files = [
            ("F32", two(&1.5f32.to_le_bytes())),
            ("F64", two(&1.5f64.to_le_bytes())),
            ("F16", two(&0x3e00u16.to_le_bytes())),
            ("BF16", two(&0x3fc0u16.to_le_bytes())),
        ];
        for (dtype, data) in files {
            assert_eq!(loaded(dtype, &data).unwrap(), [1.5, 1.5], "{dtype}");
        }
    }

    #[test]
    fn weights_of_other_dtypes_are_refused_by_name() {
        for (dtype, bytes) in [
            ("U8", 2),
            ("I16", 4),
            ("I64", 16),
            ("U32", 8),
            ("F8_E4M3", 2),
        ] {
            let error = loaded(dtype, &vec![1; bytes]).unwrap_err().to_string();
            let words = format!("`a` holds values of dtype {dtype}");
            assert!(error.starts_with(&words), "{error}");
        }
    }

    #[test]
    fn weights_that_are_not_finite_are_refused_by_name() {
        let files = [
            ("F32", f32::NAN.to_le_bytes().to_vec()),
            ("F32", f32::NEG_INFINITY.to_le_bytes().to_vec()),
            ("F64", f64::INFINITY.to_le_bytes().to_vec()),
            ("F16", 0x7e00u16.to_le_bytes().to_vec()),
            ("BF16", 0xff80u16.to_le_bytes().to_vec()),
        ];
        for (dtype, wrong) in files {
            let data = [wrong.clone(), vec![0; wrong.len()]].concat();
            let error = loaded(dtype, &data).unwrap_err().to_string();
            assert!(
                error.starts_with("`a` is NaN or infinite in 1 value"),
                "{error}"
            );
        }
    }
}
