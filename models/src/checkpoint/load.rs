//! Weights from safetensors files, by their names in the checkpoint.

use std::{collections::BTreeSet, path::PathBuf};

use candle_core::{DType, Device, Tensor, safetensors::MmapedSafetensors};
use safetensors::tensor::TensorView;

use crate::{
    Error, Result,
    arch::{WeightRequest, Weights, config::DecoderConfig, decoder::Decoder},
    checkpoint::folder::ModelFolder,
};

/// The name of the head, and of the table that it is where a model ties them.
const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

/// Safetensors files, open, from which tensors are taken one by one.
pub struct StoredWeights {
    files: MmapedSafetensors,
    /// Where they came from, for messages.
    path: PathBuf,
    taken: BTreeSet<String>,
    dtype: DType,
    device: Device,
}

impl StoredWeights {
    /// Opens the files; tensors will be kept in `dtype` on `device`. `path` names them all in messages.
    pub fn open(files: &[PathBuf], path: PathBuf, dtype: DType, device: &Device) -> Result<Self> {
        for file in files {
            // Opened once by ourselves, since the mapping's own error does not say which file it was.
            std::fs::File::open(file).map_err(Error::file("read the weights", file))?;
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
            dtype,
            device: device.clone(),
        })
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
        let left: Vec<&String> = names
            .iter()
            .filter(|it| !self.taken.contains(*it) && !expected(it))
            .collect();
        match left.as_slice() {
            [] => Ok(()),
            [first, ..] => {
                let problem = format!(
                    "`{first}` is in the checkpoint but not in the model its config describes"
                );
                let more = if left.len() > 1 {
                    format!(" (and {} more)", left.len() - 1)
                } else {
                    String::new()
                };
                Err(Error::format(&self.path, problem + &more))
            }
        }
    }
}

impl Weights for StoredWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let tensor = self.raw(request.name)?;
        if tensor.dims() != request.shape {
            let (name, found, expected) = (request.name, tensor.dims(), request.shape);
            let problem =
                format!("`{name}` is {found:?} in the file and {expected:?} in the config");
            return Err(Error::format(&self.path, problem));
        }
        Ok(tensor.to_dtype(self.dtype)?.to_device(&self.device)?)
    }
}

/// The dtypes a decoder is loaded in.
#[derive(Debug, Clone, Copy)]
pub struct LoadDtypes {
    /// What weights are kept in.
    pub storage: DType,
    /// What activations are computed in.
    pub compute: DType,
}

impl LoadDtypes {
    /// As weights are that learn, and what a processor computes in.
    pub const F32: Self = Self {
        storage: DType::F32,
        compute: DType::F32,
    };
}

/// What the config in `folder` describes together with its weights: a head that is stored beside the embeddings, and is another
/// than they, is one of its own whatever the config says, as in transformers 5.
pub fn decoder_config(folder: &ModelFolder) -> Result<DecoderConfig> {
    let mut config = DecoderConfig::from_json(&folder.config)?;
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
    let tied = config.tie_word_embeddings;
    let mut weights = StoredWeights::open(
        &folder.weight_files,
        folder.path.clone(),
        dtypes.storage,
        device,
    )?;
    let decoder = Decoder::new(config, &mut weights, trainable, dtypes.compute, device)?;
    // Some writers store a tied head twice, and rope tables that follow from the config.
    weights
        .check_all_taken(|name| (tied && name == HEAD) || name.ends_with("rotary_emb.inv_freq"))?;
    Ok(decoder)
}
