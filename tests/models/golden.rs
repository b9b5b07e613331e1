//! Numbers made by transformers and peft, as `tests/goldens/make_goldens.py` and `random_kept.py` wrote them.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::decoder::Decoder,
    checkpoint::{
        adapter,
        folder::ModelFolder,
        load::{LoadDtypes, load_decoder},
    },
};
use serde_json::Value as Json;

/// One case: a checkpoint as its library saved it, and what it computed with it.
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) numbers: Json,
    pub(crate) tensors: HashMap<String, Tensor>,
}

/// Every case whose name satisfies `wanted`.
pub(crate) fn cases(wanted: impl Fn(&str) -> bool) -> Vec<Golden> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    // Those in `random` are drawn, the others chosen.
    let entries = ["", "random"].map(|it| fs::read_dir(root.join(it)).unwrap());
    let mut folders: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("golden.json").exists() && folder.join("config.json").exists())
        .collect();
    folders.sort();
    let name = |folder: &Path| folder.file_name().unwrap().to_string_lossy().into_owned();
    let cases: Vec<Golden> = folders
        .into_iter()
        .filter(|folder| wanted(&name(folder)))
        .map(|folder| Golden {
            name: name(&folder),
            numbers: serde_json::from_slice(&fs::read(folder.join("golden.json")).unwrap())
                .unwrap(),
            tensors: candle_core::safetensors::load(
                folder.join("golden.safetensors"),
                &Device::Cpu,
            )
            .unwrap(),
            folder,
        })
        .collect();
    assert!(
        !cases.is_empty(),
        "no golden case was found in {}",
        root.display()
    );
    cases
}

/// Whether a case is about an adapter.
pub(crate) fn is_adapter(name: &str) -> bool {
    name.starts_with("lora-")
}

impl Golden {
    /// The decoder in f32 on the CPU, all of it trainable, or with its adapter, which then alone is.
    pub(crate) fn decoder(&self) -> Decoder {
        let folder = ModelFolder::open(&self.folder).unwrap();
        let adapted = is_adapter(&self.name);
        let mut decoder = load_decoder(&folder, LoadDtypes::F32, !adapted, &Device::Cpu)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        if adapted {
            adapter::load_adapter(&mut decoder, &self.folder.join("adapter")).unwrap();
        }
        decoder
    }

    /// Tokens or targets by name; -100, what transformers ignores, becomes our own mark.
    pub(crate) fn tokens(&self, name: &str) -> (Vec<u32>, usize) {
        let tensor = &self.tensors[name];
        let tokens = tensor.flatten_all().unwrap().to_vec1::<i64>().unwrap();
        let ignored = models::ops::cross_entropy::IGNORE;
        let token = |token: i64| if token < 0 { ignored } else { token as u32 };
        (
            tokens.into_iter().map(token).collect(),
            tensor.dim(0).unwrap(),
        )
    }

    /// The hidden states by site, for the cases that have them.
    pub(crate) fn hidden_states(&self) -> Option<HashMap<String, Tensor>> {
        let path = self.folder.join("hidden_states.safetensors");
        let exists = path.exists();
        exists.then(|| candle_core::safetensors::load(path, &Device::Cpu).unwrap())
    }

    /// A number by its JSON pointer.
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let number = self.numbers.pointer(pointer).and_then(Json::as_f64);
        number.unwrap_or_else(|| panic!("{}: no number at {pointer}", self.name))
    }

    /// A list of numbers by its JSON pointer.
    pub(crate) fn list(&self, pointer: &str) -> Vec<f64> {
        let list = self.numbers.pointer(pointer).and_then(Json::as_array);
        let list = list.unwrap_or_else(|| panic!("{}: no list at {pointer}", self.name));
        list.iter().map(|number| number.as_f64().unwrap()).collect()
    }
}

/// The largest difference of two tensors.
pub(crate) fn largest_difference(a: &Tensor, b: &Tensor) -> f64 {
    let difference = (a.to_dtype(DType::F64).unwrap() - b.to_dtype(DType::F64).unwrap()).unwrap();
    let difference = difference.abs().unwrap().flatten_all().unwrap();
    difference.max(0).unwrap().to_scalar::<f64>().unwrap()
}
