//! Models that are for chat only: their library takes weights from the files that all others are read from, with the same checks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Shape, Tensor};

use super::{
    folder::ModelFolder,
    gguf::Joined,
    load::{HEAD, StoredWeights, chat_only_config},
};
use crate::{
    Error, Result,
    arch::{
        Initial, WeightRequest, Weights,
        chat_only::{
            ChatOnly,
            candle_nn::{Init, VarBuilder, var_builder::SimpleBackend},
        },
    },
};

/// Files with weights, as the library takes them.
#[derive(Clone)]
struct Source(Arc<Mutex<Taken>>);

struct Taken {
    weights: StoredWeights,
    /// What was wrong first, in our words.
    problem: Option<Error>,
}

/// Loads the model in `folder`. Missing, extra and misshapen tensors are errors that name them.
pub(super) fn load(folder: &ModelFolder, device: &Device) -> Result<ChatOnly> {
    let config = chat_only_config(folder)?;
    if let Some(file) = &folder.gguf {
        let mut file = Joined::of(file)?;
        let tensors = file.take_tensors();
        return ChatOnly::of_gguf(config, tensors, &mut file, device.clone());
    }
    let (tied, dtype) = (config.ties_head(), ChatOnly::DTYPE);
    let weights = StoredWeights::of(folder, dtype, device)?;
    let source = Source(Arc::new(Mutex::new(Taken {
        weights,
        problem: None,
    })));
    let builder = VarBuilder::from_backend(Box::new(source.clone()), dtype, device.clone());
    let opened = ChatOnly::new(config, builder);
    let mut taken = source.taken();
    if let Some(problem) = taken.problem.take() {
        return Err(problem);
    }
    let opened = opened?;
    taken
        .weights
        .check_all_taken(|name| (tied && name == HEAD) || name.ends_with("rotary_emb.inv_freq"))?;
    Ok(opened)
}

impl Source {
    /// What was taken so far. After a panic of the library it is whole all the same.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(
        &self,
        find: impl FnOnce(&mut StoredWeights) -> Result<Tensor>,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut taken = self.taken();
        match find(&mut taken.weights) {
            Ok(tensor) => tensor.to_dtype(dtype)?.to_device(device),
            Err(problem) => {
                let words = problem.to_string();
                taken.problem.get_or_insert(problem);
                Err(candle_core::Error::Msg(words))
            }
        }
    }
}

impl SimpleBackend for Source {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let request = WeightRequest {
            name,
            shape: shape.dims(),
            initial: Initial::Constant(0.0),
        };
        self.take(|weights| weights.tensor(&request), dtype, device)
    }

    fn get_unchecked(
        &self,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.take(|weights| weights.raw(name), dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.taken().weights.dtype_of(name).is_some()
    }
}
