//! Weights from and for the reference: its files `step_N`, compared name by name and shape by shape with a model of ours.
//!
//! A run of the reference that was compiled has `_orig_mod.model.inner.` before each name, others `model.inner.`, and the names after it are
//! ours. Of a run that keeps an average of its weights, the file has the average. The rows of the table belong to the puzzles of one
//! data set: they are found by the names of `identifiers.json`, of which a copy stands beside the file, or else, where the table has
//! another size, each becomes the mean of all, as in the reference. Shapes say most of the model; the rest stands in
//! `all_config.yaml`, where that lies beside the file.
//!
//! Deliberately absent: optimizer, step, carry and randomness, which no such file has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::Value as Json;

use super::request::ModelRequest;
use crate::{
    Error, Result,
    arch::{
        WeightRequest, Weights,
        trm::{PUZZLES, Positions, TrmConfig},
    },
    checkpoint::{
        pytorch::{self, TorchFile},
        tensors::read_tensors,
    },
    limits::{IDENTIFIERS as MAX_IDENTIFIERS, TORCH_CONFIG},
};

/// What stands before the names, from the outside in.
const PREFIXES: [&str; 3] = ["_orig_mod.", "model.", "inner."];
/// What stands before the names of a run that was compiled, and of one that was not.
const COMPILED: &str = "_orig_mod.model.inner.";
const PLAIN: &str = "model.inner.";
/// The names of a data set's puzzles, by their numbers.
const IDENTIFIERS: &str = "identifiers.json";
/// The settings of the run that made a file.
const CONFIG: &str = "all_config.yaml";
/// How many names an error lists.
const LISTED: usize = 5;

/// A name without what stands before it.
fn bare(name: &str) -> &str {
    PREFIXES.iter().fold(name, |name, prefix| {
        name.strip_prefix(prefix).unwrap_or(name)
    })
}

/// A file that was opened.
struct Opened {
    file: TorchFile,
    /// Its names, by ours.
    names: BTreeMap<String, String>,
    /// The shapes, by our names.
    shapes: BTreeMap<String, Vec<usize>>,
}

fn open(path: &Path) -> Result<Opened> {
    let file = TorchFile::open(path)?;
    let (mut names, mut shapes) = (BTreeMap::new(), BTreeMap::new());
    for (name, shape) in file.shapes() {
        let ours = bare(&name).to_owned();
        shapes.insert(ours.clone(), shape);
        if names.insert(ours.clone(), name).is_some() {
            let problem = format!("has `{ours}` twice, under two prefixes");
            return Err(Error::format(path, problem));
        }
    }
    if shapes.keys().any(|name| name.starts_with("H_level.")) {
        let problem = "has weights of H_level: it is a Hierarchical Reasoning Model, whose two states have a stack each";
        return Err(Error::format(path, problem));
    }
    Ok(Opened {
        file,
        names,
        shapes,
    })
}

/// What a file says of its model, for puzzles of so many cells: by its shapes, and of heads, cycles and halting, which leave no
/// trace in weights, by the settings beside it, if they are there.
pub fn shape(path: &Path, cells: usize) -> Result<ModelRequest> {
    let Opened { shapes, .. } = open(path)?;
    let of = |name: &str| shapes.get(name).map(Vec::as_slice);
    let Some([_, width]) = of("embed_tokens.embedding_weight") else {
        return Err(Error::format(
            path,
            "has no `embed_tokens.embedding_weight` [symbols, width], and is no Tiny Recursive Model",
        ));
    };
    let layers = shapes.keys().filter_map(|name| {
        name.strip_prefix("L_level.layers.")?
            .split('.')
            .next()?
            .parse::<usize>()
            .ok()
    });
    let layers: BTreeSet<usize> = layers.collect();
    let inner = of("L_level.layers.0.mlp.down_proj.weight").and_then(|it| it.last().copied());
    let along = of("L_level.layers.0.mlp_t.down_proj.weight").and_then(|it| it.first().copied());
    let places = of("embed_pos.embedding_weight").and_then(|it| it.first().copied());
    let own = of(PUZZLES).and_then(|it| it.last().copied()).unwrap_or(0);
    // Of those that give this width, the one that is usual.
    let usual = (*width as f64 * 8.0 / 3.0).round_ties_even() as usize;
    let expansion = inner.map(|inner| match inner.div_ceil(256) == usual.div_ceil(256) {
        true => 4.0,
        false => inner as f64 * 1.5 / (*width).max(1) as f64,
    });
    let settings = settings(&path.with_file_name(CONFIG))?;
    Ok(ModelRequest {
        hidden_size: Some(*width),
        expansion,
        l_layers: Some(layers.len()),
        mlp_t: Some(along.is_some()),
        pos_encodings: places
            .map(|_| Positions::Learned)
            .or(settings.pos_encodings),
        puzzle_emb_ndim: Some(own),
        puzzle_emb_len: along
            .or(places)
            .and_then(|all| all.checked_sub(cells))
            .or(settings.puzzle_emb_len),
        ..settings
    })
}

/// The settings of the model in a file of the reference. All are open where there is none.
fn settings(path: &Path) -> Result<ModelRequest> {
    let Some(text) = TORCH_CONFIG.read_text_if_there(path, "read the settings of the model")?
    else {
        return Ok(ModelRequest::default());
    };
    let wrong = |error: &dyn Display| {
        Error::format(path, format!("is no settings of the reference: {error}"))
    };
    let read: Json = serde_saphyr::from_str(&text).map_err(|error| wrong(&error))?;
    let Some(arch) = read["arch"].as_object() else {
        return Err(wrong(&"it has no `arch`"));
    };
    let mut model = arch.clone();
    let loss = read["arch"]["loss"]["loss_type"].as_str();
    // The reference names the whole loss, of which the last words are those of both.
    let loss = loss.map(|it| it.trim_end_matches("_cross_entropy"));
    model.insert("loss".to_owned(), loss.into());
    ModelRequest::deserialize(Json::Object(model)).map_err(|error| wrong(&error))
}

/// The weights of a file, for a model whose shape has to be the same.
pub struct StartWeights {
    file: TorchFile,
    /// Its names, by ours.
    names: BTreeMap<String, String>,
    table: Table,
    device: Device,
    /// What a person should know of how they are taken over.
    pub notes: Vec<String>,
}

/// Which rows of the file’s table a model has.
enum Table {
    All,
    /// The mean of all, so many times.
    Mean(usize),
    /// Those at these places; the one after the last is the mean of all.
    Places(Vec<u32>),
}

impl StartWeights {
    /// Opens a file for a model of this shape. `data` is the folder of the puzzles that the model is for.
    pub fn open(
        path: &Path,
        config: &TrmConfig,
        data: Option<&Path>,
        device: &Device,
    ) -> Result<Self> {
        let Opened {
            file,
            names,
            shapes: found,
        } = open(path)?;
        let all = config.weights().into_iter();
        let mut wanted: BTreeMap<String, Vec<usize>> =
            all.map(|(name, shape, _)| (name, shape)).collect();
        let mut weights = Self {
            file,
            names,
            table: Table::All,
            device: device.clone(),
            notes: Vec::new(),
        };
        if let (Some(ours), Some([rows, width])) = (
            wanted.get_mut(PUZZLES),
            found.get(PUZZLES).map(Vec::as_slice),
        ) && ours.last() == Some(width)
        {
            ours[0] = *rows;
            weights.choose_rows(path, data, *rows, config.num_puzzle_identifiers)?;
        }
        compare(path, &wanted, &found)?;
        Ok(weights)
    }

    /// Chooses the rows of the table for `rows` puzzles, from those of `count`.
    fn choose_rows(
        &mut self,
        path: &Path,
        data: Option<&Path>,
        count: usize,
        rows: usize,
    ) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let theirs = identifiers(folder)?.filter(|it| it.len() == count);
        let ours = data.map(identifiers).transpose()?.flatten();
        let (Some(theirs), Some(ours)) = (theirs, ours.filter(|it| it.len() == rows)) else {
            if count != rows {
                self.notes.push(format!("the table of the file has {count} rows, and {rows} are needed: each is the mean of all"));
                self.table = Table::Mean(rows);
            }
            return Ok(());
        };
        let places: BTreeMap<&str, usize> = theirs
            .iter()
            .enumerate()
            .map(|(place, name)| (name.as_str(), place))
            .collect();
        let place = |name: &String| places.get(name.as_str()).copied().unwrap_or(count) as u32;
        let places: Vec<u32> = ours.iter().map(place).collect();
        let new = places
            .iter()
            .filter(|place| **place as usize == count)
            .count();
        if new > 0 {
            self.notes.push(format!(
                "{new} of {rows} puzzles are new to the file: their rows are the mean of all"
            ));
        }
        self.table = Table::Places(places);
        Ok(())
    }
}

impl Weights for StartWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let missing = || Error::Data(format!("`{}` is missing from the file", request.name));
        let name = self.names.get(request.name).ok_or_else(missing)?;
        let saved = self.file.tensor(name)?.to_dtype(DType::F32)?;
        let mean = || saved.mean_keepdim(0);
        let tensor = match &self.table {
            Table::Mean(rows) if request.name == PUZZLES => {
                mean()?.broadcast_as((*rows, saved.dim(1)?))?.contiguous()?
            }
            Table::Places(places) if request.name == PUZZLES => {
                let places = Tensor::new(places.as_slice(), saved.device())?;
                Tensor::cat(&[&saved, &mean()?], 0)?.index_select(&places, 0)?
            }
            _ => saved,
        };
        Ok(tensor.to_device(&self.device)?)
    }
}

/// Says everything in which the tensors of a file differ from those of a model.
fn compare(
    path: &Path,
    wanted: &BTreeMap<String, Vec<usize>>,
    found: &BTreeMap<String, Vec<usize>>,
) -> Result<()> {
    let missing: Vec<String> = wanted
        .keys()
        .filter(|name| !found.contains_key(*name))
        .cloned()
        .collect();
    let extra: Vec<String> = found
        .keys()
        .filter(|name| !wanted.contains_key(*name))
        .cloned()
        .collect();
    let both = wanted
        .iter()
        .filter_map(|(name, shape)| Some((name, shape, found.get(name)?)));
    let others = both.filter(|(_, wanted, found)| wanted != found);
    let others: Vec<String> = others
        .map(|(name, wanted, found)| format!("{name} {found:?} for {wanted:?}"))
        .collect();
    let lists = [
        ("lacks", missing),
        ("has beside it", extra),
        ("has in another shape", others),
    ];
    let said: Vec<String> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| {
            let more = names.len().saturating_sub(LISTED);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!(
                "{what} {}{more}",
                names[..names.len().min(LISTED)].join(", ")
            )
        })
        .collect();
    match said.is_empty() {
        true => Ok(()),
        false => Err(Error::format(
            path,
            format!("is of another model: it {}", said.join("; it ")),
        )),
    }
}

/// The names of the puzzles of a data set, where it has them.
fn identifiers(folder: &Path) -> Result<Option<Vec<String>>> {
    let path = folder.join(IDENTIFIERS);
    let Some(text) = MAX_IDENTIFIERS.read_text_if_there(&path, "read the names of puzzles")? else {
        return Ok(None);
    };
    let names = serde_json::from_str(&text);
    names
        .map(Some)
        .map_err(|error| Error::format(&path, format!("is no list of names: {error}")))
}

/// Writes the weights of a checkpoint as the reference reads them: its first states in `dtype`, what the model computes in. `compiled`
/// is for a program that loads into a compiled model.
pub fn export(weights: &Path, to: &Path, dtype: DType, compiled: bool) -> Result<()> {
    let stored = read_tensors(weights)?;
    if !stored.contains_key("L_init") || !stored.contains_key("q_head.weight") {
        return Err(Error::format(weights, "holds no Tiny Recursive Model"));
    }
    let prefix = if compiled { COMPILED } else { PLAIN };
    let tensors = stored.into_iter().map(|(name, tensor)| {
        let tensor = match name.ends_with("_init") {
            true => tensor.to_dtype(dtype)?,
            false => tensor.to_dtype(DType::F32)?,
        };
        Ok((format!("{prefix}{name}"), tensor))
    });
    pytorch::write(to, &tensors.collect::<Result<Vec<_>>>()?)
}
