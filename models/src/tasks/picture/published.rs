//! A network that somebody else has trained, opened by its files: what it is, what it was shown, and its weights under our names.
//!
//! | path | how it is described | names of weights |
//! |---|---|---|
//! | a folder of timm | `config.json` with `architecture` and `pretrained_cfg` | torchvision’s, and timm’s own of a ViT |
//! | a folder of transformers | `config.json` with `model_type` `resnet` or `vit`, `preprocessor_config.json` | `resnet.embedder…`, `vit.embeddings…` |
//! | a checkpoint of a run | `classifier.json` | ours |
//! | a folder that was exported here for no other program | `config.json` with `library_name: anneal` | ours |
//! | a file of PyTorch | nothing: names and shapes have to say it, and what they can’t is in [`Published::notes`] | torchvision’s or kuangliu’s |
//!
//! Deliberately absent: architectures that are not in [`crate::arch::picture`], which are refused by name, and downloading.

mod described;
mod names;
mod vit;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};

use self::{described::Described, names::Found};
pub(super) use self::{described::LIBRARY, vit::name_of as name_of_vit};
use super::classifier::{About, CLASSIFIER, View};
use crate::{
    Error, Result,
    arch::{
        Initial, WeightRequest, Weights,
        initial::InitialWeights,
        picture::{NetConfig, Network, weights_of},
    },
    checkpoint::{
        folder::{ModelFolder, WEIGHTS, read_json},
        load::StoredWeights,
        pytorch::TorchFile,
    },
    figures::counted,
};

/// The deviation of a head that begins anew.
const HEAD_DEVIATION: f64 = 0.01;
/// What transformers writes beside a config about pictures.
const PREPROCESSOR: &str = "preprocessor_config.json";
/// Where the weights can be in a file of PyTorch: they are all of it, or in a dictionary of these names, as training scripts save
/// them.
const PARTS: [&[&str]; 5] = [
    &[],
    &["net"],
    &["state_dict"],
    &["model"],
    &["model_state_dict"],
];

/// A network that somebody has trained.
#[derive(Debug, Clone)]
pub struct Published {
    /// How it is built.
    pub net: NetConfig,
    /// What it was shown.
    pub view: View,
    /// The names of its classes, where the files have them.
    pub classes: Option<Vec<String>>,
    /// The licence of its weights, as the files call it.
    pub licence: Option<String>,
    /// What the files don’t say and was taken for granted, in sentences.
    pub notes: Vec<String>,
    path: PathBuf,
    source: Source,
    /// Their names of each weight, by ours: several where they have in parts what is stacked here.
    names: BTreeMap<String, Vec<String>>,
}

/// Where the weights are.
#[derive(Debug, Clone)]
enum Source {
    /// In files of safetensors.
    Safetensors(Vec<PathBuf>),
    /// In a file of PyTorch, in the dictionary that these names lead to.
    Torch(&'static [&'static str]),
}

impl Published {
    /// Opens a folder, or a file of PyTorch. Names and shapes of all weights are compared with those of the network.
    ///
    /// Errors: [`Error::Format`] and [`Error::Damaged`] that say what the files hold instead; [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        match path.is_dir() {
            true => Self::open_folder(path),
            false => Self::open_torch(path),
        }
    }

    fn open_folder(path: &Path) -> Result<Self> {
        if path.join(CLASSIFIER).is_file() {
            return Self::open_checkpoint(path);
        }
        let folder = ModelFolder::open(path)?;
        let preprocessor = path.join(PREPROCESSOR);
        let preprocessor = match preprocessor.is_file() {
            true => Some(read_json(
                &preprocessor,
                "read how pictures are prepared for the network",
            )?),
            false => None,
        };
        let wrong = |problem| Error::format(path, problem);
        let described = Described::read(&folder.config, preprocessor.as_ref()).map_err(wrong)?;
        let files = folder.weight_files;
        let weights = StoredWeights::open(&files, path.to_owned(), DType::F32, &Device::Cpu)?;
        let shapes = weights.shapes();
        let shown = described.view.shape;
        let found = match (described.net.clone(), described.transformer) {
            (Some(net), _) => Found::fit(net, &shapes, Vec::new()),
            (None, Some(sizes)) => Found::vit(sizes, shown.height, shown.channels, &shapes),
            (None, None) => Found::recognise(&shapes),
        };
        let found = found.map_err(wrong)?;
        let mut published = Self::new(path, found, described).map_err(wrong)?;
        published.source = Source::Safetensors(files);
        Ok(published)
    }

    /// A checkpoint of a run of this program.
    fn open_checkpoint(path: &Path) -> Result<Self> {
        let About {
            net, view, classes, ..
        } = About::read(path)?;
        let files = vec![path.join(WEIGHTS)];
        let weights = StoredWeights::open(&files, path.to_owned(), DType::F32, &Device::Cpu)?;
        let wrong = |problem| Error::format(path, problem);
        let found = Found::fit(net, &weights.shapes(), Vec::new()).map_err(wrong)?;
        Ok(Self {
            net: found.net,
            view,
            classes: Some(classes),
            licence: None,
            notes: found.notes,
            path: path.to_owned(),
            source: Source::Safetensors(files),
            names: found.names,
        })
    }

    fn open_torch(path: &Path) -> Result<Self> {
        let mut first_error = None;
        for part in PARTS {
            match TorchFile::open_part(path, part) {
                // A dictionary without tensors is no network, and the weights may be in another one.
                Ok(file) if file.shapes().is_empty() => {}
                Ok(file) => {
                    let wrong = |problem| Error::format(path, problem);
                    let found = Found::recognise(&file.shapes()).map_err(wrong)?;
                    let described = Described::of_bare_file(found.net.stem, &found.net);
                    let mut published = Self::new(path, found, described).map_err(wrong)?;
                    published.source = Source::Torch(part);
                    return Ok(published);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Error::format(path, "the file holds no weights")))
    }

    /// What was described together with what was found.
    fn new(path: &Path, found: Found, described: Described) -> Result<Self, String> {
        let Found {
            mut net,
            names,
            mut notes,
        } = found;
        described.check(&net)?;
        let shape = described.view.shape;
        net.sides = [shape.height, shape.width];
        if let Some(problem) = net.problem() {
            return Err(problem);
        }
        notes.extend(described.notes);
        Ok(Self {
            net,
            view: described.view,
            classes: described.classes,
            licence: described.licence,
            notes,
            path: path.to_owned(),
            source: Source::Safetensors(Vec::new()),
            names,
        })
    }

    /// What the network is with so many classes, or as it was published.
    pub fn net_for(&self, classes: Option<usize>) -> NetConfig {
        NetConfig {
            classes: classes.unwrap_or(self.net.classes),
            ..self.net.clone()
        }
    }

    /// The weights, for the network of [`Self::net_for`]. With `classes`, also with as many as it was published with, the head begins
    /// anew, drawn from the seed. Without, it is the published one.
    pub fn weights(
        &self,
        classes: Option<usize>,
        seed: u64,
        device: &Device,
    ) -> Result<PublishedWeights<'_>> {
        let needs = weights_of(&self.net_for(classes))?;
        let head = needs.into_iter().find(|it| it.is_head);
        let head = head.and_then(|it| Some(it.name.rsplit_once('.')?.0.to_owned()));
        let open = match &self.source {
            Source::Safetensors(files) => Open::Safetensors(StoredWeights::open(
                files,
                self.path.clone(),
                DType::F32,
                device,
            )?),
            Source::Torch(part) => Open::Torch(Box::new(TorchFile::open_part(&self.path, part)?)),
        };
        Ok(PublishedWeights {
            published: self,
            open,
            new_head: classes.and(head),
            initial: InitialWeights::new(seed, device),
        })
    }

    /// The network with its weights in f32, which computes in `dtype`. See [`Self::weights`].
    pub fn network(
        &self,
        classes: Option<usize>,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> Result<Network> {
        let mut weights = self.weights(classes, seed, device)?;
        Network::new(self.net_for(classes), &mut weights, dtype)
    }
}

/// The weights of a published network under our names, in f32.
pub struct PublishedWeights<'a> {
    published: &'a Published,
    open: Open,
    /// What the head is called that begins anew.
    new_head: Option<String>,
    initial: InitialWeights,
}

enum Open {
    Safetensors(StoredWeights),
    Torch(Box<TorchFile>),
}

impl PublishedWeights<'_> {
    /// A weight that the files have in parts, which stand below each other here.
    fn stacked(&mut self, parts: &[String], request: &WeightRequest) -> Result<Tensor> {
        let Open::Safetensors(stored) = &mut self.open else {
            let problem = format!("`{}` is in parts", request.name);
            return Err(Error::format(&self.published.path, problem));
        };
        let mut shape = request.shape.to_vec();
        shape[0] /= parts.len();
        let part = |name: &String| {
            stored.tensor(&WeightRequest {
                name,
                shape: &shape,
                ..request.clone()
            })
        };
        let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(Tensor::cat(&parts, 0)?)
    }
}

impl Weights for PublishedWeights<'_> {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        if let Some((module, what)) = request.name.rsplit_once('.')
            && self.new_head.as_deref() == Some(module)
        {
            let initial = match what {
                "weight" => Initial::Normal(HEAD_DEVIATION),
                _ => Initial::Constant(0.0),
            };
            return self.initial.tensor(&WeightRequest {
                initial,
                ..request.clone()
            });
        }
        let Published { path, names, .. } = self.published;
        let missing = || Error::format(path, format!("`{}` is missing", request.name));
        let parts = names.get(request.name).ok_or_else(missing)?;
        let [name] = parts.as_slice() else {
            return self.stacked(parts, request);
        };
        match &mut self.open {
            Open::Safetensors(stored) => stored.tensor(&WeightRequest {
                name,
                ..request.clone()
            }),
            Open::Torch(file) => {
                let tensor = file.tensor(name)?;
                if tensor.dims() != request.shape {
                    let problem = format!(
                        "`{name}` is {:?}, where the network has {:?}",
                        tensor.dims(),
                        request.shape
                    );
                    return Err(Error::format(path, problem));
                }
                let tensor = tensor.to_dtype(DType::F32)?;
                check_finite(&tensor, name).map_err(|problem| Error::format(path, problem))?;
                Ok(tensor.to_device(&self.initial.device)?)
            }
        }
    }
}

/// Whether all numbers of a weight are finite.
fn check_finite(tensor: &Tensor, name: &str) -> Result<(), String> {
    let numbers = tensor
        .flatten_all()
        .and_then(|flat| flat.to_vec1::<f32>())
        .map_err(|error| error.to_string())?;
    match numbers.iter().filter(|it| !it.is_finite()).count() {
        0 => Ok(()),
        count => {
            let values = counted(count as u64, "value");
            Err(format!(
                "`{name}` is NaN or infinite in {values}, so the network can’t be used"
            ))
        }
    }
}
