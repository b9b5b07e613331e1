//! A language model for other programs.
//!
//! | format | is | for |
//! |---|---|---|
//! | `adapter` | a folder in peft's layout | Transformers, vLLM |
//! | `merged` | a folder in the layout of the Hub, `folder` | Transformers, vLLM |
//! | `gguf-…` | a file of llama.cpp, in one of the mixes of `checkpoint::gguf` | llama.cpp, Ollama, LM Studio, Jan |
//! | `gguf-adapter` | a file with the adapter alone, `adapters` | llama.cpp, Ollama |
//! | `mlx` | the same folder, which mlx-lm reads too | mlx-lm, LM Studio |
//! | `mlx-4bit` | the same with matrices in groups of 4 bits | mlx-lm, LM Studio |
//! | `mlx-adapter` | a folder with the adapter alone, `adapters` | mlx-lm |
//!
//! Beside a file of llama.cpp stands what Ollama makes a model from, `modelfile`.
//!
//! What was written is opened again and compared with the model, in `compare`, before it is said to be done; the comparison is kept
//! beside it. What another program would compute otherwise is refused, or said before it is written.
//!
//! Deliberately absent: running what was written in the programs that it is for, which is done in `tests/peers`.

mod adapters;
mod compare;
mod folder;
mod formats;
mod modelfile;

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

pub use compare::{Compared, Sample};
pub use formats::{AboutFormat, FORMATS, Format};
pub use modelfile::MODELFILE;

use super::model::{base_of, chats, quantize_of};
use crate::{
    Error, Result,
    arch::network::is_recursive,
    checkpoint::{
        adapter::ADAPTER_CONFIG,
        folder::ModelFolder,
        gguf::{GgufPlan, Mix},
        merged::MergedWeights,
        quantize::Quantization,
        save::{folder_bytes, free_bytes, name_of, replace_file, replace_folder},
    },
    data::{template::ChatTemplate, tokenizer::Tokenizer},
    figures::bytes,
    gguf::{Key, Value},
};

/// What the comparison is called beside a file, and in a folder.
pub const COMPARISON: &str = "compared.json";
/// Room that is left on a disk.
const SLACK_BYTES: u64 = 64 << 20;

/// A model that can be written for others.
pub struct Exporter {
    /// The folder with what was trained, or the model.
    folder: PathBuf,
    /// What it is called there.
    name: String,
    model: ModelFolder,
    weights: MergedWeights,
    /// What the weights beside the adapter were rounded to when it learned.
    quantize: Option<Quantization>,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    chats: bool,
    /// What a GGUF file says of the tokenizer: the same in every mix.
    vocabulary: OnceCell<Vec<Key>>,
}

/// One way to write a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// For whom.
    pub format: Format,
    /// Its size. Nothing where it can't be written.
    pub bytes: Option<u64>,
    /// What is lost, in sentences.
    pub losses: Vec<String>,
    /// Why it can't be written.
    pub refused: Option<String>,
    /// Why it can't be compared with the model now, where too little memory is free.
    pub uncomparable: Option<String>,
}

/// How far an export is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// So many bytes of so many are written.
    Writing {
        /// Done.
        done: u64,
        /// In all.
        total: u64,
    },
    /// It is opened again and compared.
    Comparing,
    /// A text was read, with the model or with what was written.
    Read,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exported {
    /// For whom, as it is asked for.
    pub format: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How it was compared with the model, unless it was asked not to be.
    pub compared: Option<Compared>,
    /// What is lost, and what an adapter is bound to, in sentences.
    pub notes: Vec<String>,
}

impl Exporter {
    /// Opens the folder of a model or of an adapter, or a GGUF file. `name` is what the model is called where it is written.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        let is_adapter = folder.join(ADAPTER_CONFIG).exists();
        let model = match is_adapter {
            true => ModelFolder::open(Path::new(&base_of(folder)?))?,
            false => ModelFolder::open(folder)?,
        };
        let quantize = quantize_of(folder)?.filter(|_| is_adapter);
        if model.config.as_object().is_some_and(is_recursive) {
            let problem = "recursive models that chat are known to no other program: their folder is what they are";
            return Err(Error::Data(problem.to_owned()));
        }
        let weights = MergedWeights::open(&model, is_adapter.then_some(folder), quantize)?;
        let tokenizer = Tokenizer::load(folder)?;
        let template = ChatTemplate::of(&tokenizer)?;
        let chats = chats(folder, &template)?;
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            model,
            weights,
            quantize,
            tokenizer,
            template,
            chats,
            vocabulary: OnceCell::new(),
        })
    }

    /// Whether it is an adapter on another model.
    pub fn is_adapter(&self) -> bool {
        self.weights.adapter().is_some()
    }

    /// What the model is called that was trained, as far as that is known.
    pub fn base(&self) -> String {
        public_name(&self.model.path)
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Every way in which it could be written.
    pub fn offers(&self) -> Vec<Offer> {
        let offer = |about: &AboutFormat| match self.planned(about.format) {
            Ok((bytes, losses)) => Offer {
                format: about.format,
                bytes: Some(bytes),
                losses,
                refused: None,
                uncomparable: compare::check_memory(self, about.format, bytes)
                    .err()
                    .map(|it| it.to_string()),
            },
            Err(error) => Offer {
                format: about.format,
                bytes: None,
                losses: Vec::new(),
                refused: Some(error.to_string()),
                uncomparable: None,
            },
        };
        let formats = FORMATS.iter();
        let of_kind = formats.filter(|it| self.is_adapter() || !it.format.is_adapter());
        of_kind.map(offer).collect()
    }

    /// What is lost in one format, in sentences.
    ///
    /// Errors: [`Error::Data`] with why it can't be written.
    pub fn losses_of(&self, format: Format) -> Result<Vec<String>> {
        Ok(self.planned(format)?.1)
    }

    /// The size of one format, and what is lost.
    fn planned(&self, format: Format) -> Result<(u64, Vec<String>)> {
        Ok(match format {
            Format::Gguf(mix) => {
                let plan = self.gguf(mix)?;
                (plan.bytes(), plan.losses().to_vec())
            }
            Format::Adapter => (
                adapters::peft_bytes(&self.weights, &self.folder)?,
                Vec::new(),
            ),
            Format::GgufAdapter => (
                adapters::gguf_writer(&self.weights, &self.about())?.bytes(),
                self.losses_of_base()?,
            ),
            Format::MlxAdapter => (
                adapters::mlx_bytes(&self.weights)?,
                folder::mlx_losses(&self.weights)?,
            ),
            Format::Merged => (folder::bytes(self, false), Vec::new()),
            Format::Mlx | Format::MlxFourBits => {
                let packed = format == Format::MlxFourBits;
                (
                    folder::bytes(self, packed),
                    folder::mlx_losses(&self.weights)?,
                )
            }
        })
    }

    /// What llama.cpp loses of the model that an adapter belongs to.
    fn losses_of_base(&self) -> Result<Vec<String>> {
        let plan = GgufPlan::new(&self.weights, Mix::F16, &[])?;
        Ok(plan.losses().to_vec())
    }

    /// What an adapter is bound to, where that is not what others have of the model.
    fn bound(&self) -> Vec<String> {
        let is_rounded = self.model.gguf.is_some() || self.model.packing.is_some();
        if let Some(quantize) = self.quantize {
            return vec![format!(
                "The adapter was trained beside the weights of `{}` in {}: on those weights as they are its answers differ a little.",
                name_of(&self.model.path),
                quantize.name().to_uppercase()
            )];
        }
        let sentence = || {
            format!(
                "The adapter was trained on the rounded weights of `{}`: on others of the same model its answers differ a little.",
                name_of(&self.model.path)
            )
        };
        is_rounded.then(sentence).into_iter().collect()
    }

    fn gguf(&self, mix: Mix) -> Result<GgufPlan> {
        let keys = [self.about().as_slice(), self.vocabulary()?].concat();
        GgufPlan::new(&self.weights, mix, &keys)
    }

    fn vocabulary(&self) -> Result<&[Key]> {
        if let Some(keys) = self.vocabulary.get() {
            return Ok(keys);
        }
        let template = self
            .chats
            .then(|| self.template.without_generation_blocks());
        let rows = self.weights.config().vocab_size;
        let stop = self.stop_tokens();
        let keys = self.tokenizer.gguf_keys(rows, &stop, template.as_deref())?;
        Ok(self.vocabulary.get_or_init(|| keys))
    }

    /// The names that a GGUF file says.
    fn about(&self) -> Vec<Key> {
        let text = |key: &str, text: &str| (key.to_owned(), Value::from(text));
        let mut keys = vec![text("general.name", &self.name)];
        if self.is_adapter() {
            keys.push(("general.base_model.count".to_owned(), Value::U32(1)));
            keys.push(text("general.base_model.0.name", &self.base()));
        }
        keys
    }

    /// The tokens that end an answer.
    fn stop_tokens(&self) -> Vec<u32> {
        match self.chats {
            true => self.template.stop_tokens(&self.tokenizer),
            false => self.tokenizer.special.stop.clone(),
        }
    }

    /// Writes it to a path where nothing is yet, and compares what was written with the model on `sample`. It is there as a whole,
    /// compared, or not at all. Without a sample nothing is compared, which is written beside it.
    ///
    /// `stage` hears how far it is, and ends it with an error such as [`Error::Interrupted`]: nothing is left then.
    ///
    /// Errors: [`Error::Data`] where something is there already, the disk has too little room, another program would compute something
    /// else, or what was written does; those of a model that can't be loaded; [`Error::File`] when the disk refuses.
    pub fn export(
        &mut self,
        format: Format,
        to: &Path,
        sample: Option<&Sample>,
        stage: &mut dyn FnMut(Stage) -> Result<()>,
    ) -> Result<Exported> {
        check_free(to)?;
        let (total, losses) = self.planned(format)?;
        check_room(to, total)?;
        if sample.is_some() {
            compare::check_memory(self, format, total)?;
        }
        let longest = match format {
            Format::Gguf(mix) => self.gguf(mix)?.longest_text(),
            _ => None,
        };
        let sample = sample.map(|it| it.up_to(longest.unwrap_or(usize::MAX)));
        let dtype = self.weights.exact_dtype();
        let read = |it| compare::Reference::of(&self.folder, dtype, it, stage);
        let reference = sample.as_ref().map(read).transpose()?;
        // It gets its name when it was compared, so that nobody takes it for what it is not yet.
        let unnamed = to.with_file_name(format!(".{}.comparing", name_of(to)));
        remove(&unnamed)?;
        let compared = self
            .write(format, &unnamed, &mut |done| {
                stage(Stage::Writing { done, total })
            })
            .and_then(|()| {
                let (Some(sample), Some(reference)) = (&sample, &reference) else {
                    return Ok(None);
                };
                stage(Stage::Comparing)?;
                compare::with(reference, format, &unnamed, self, sample, stage).map(Some)
            })
            .and_then(|compared| {
                self.name_it(format, &unnamed, to, compared.as_ref(), &losses)?;
                Ok(compared)
            })
            .inspect_err(|_| {
                let _ = remove(&unnamed);
            })?;
        Ok(Exported {
            format: format.about().name,
            path: to.to_owned(),
            bytes: match to.is_dir() {
                true => folder_bytes(to)?,
                false => total,
            },
            compared,
            notes: [
                losses,
                if format.is_adapter() {
                    self.bound()
                } else {
                    Vec::new()
                },
            ]
            .concat(),
        })
    }

    /// Gives an export its name, with what stands beside it.
    fn name_it(
        &self,
        format: Format,
        unnamed: &Path,
        to: &Path,
        compared: Option<&Compared>,
        losses: &[String],
    ) -> Result<()> {
        let mut about =
            json!({"format": format.about().name, "compared": compared, "losses": losses});
        if compared.is_none() {
            about["why"] = json!("it was asked not to be compared with the model");
        }
        let beside = match unnamed.is_dir() {
            true => unnamed.join(COMPARISON),
            false => to.with_file_name(format!("{}.{COMPARISON}", name_of(to))),
        };
        check_free(to)?;
        replace_file(&beside, format!("{about:#}\n").as_bytes())?;
        if let Some(text) = modelfile::text(self, format, to)? {
            let beside = to.with_file_name(format!("{}.{MODELFILE}", name_of(to)));
            replace_file(&beside, text.as_bytes())?;
        }
        std::fs::rename(unnamed, to).map_err(Error::file("name the export", to))
    }

    fn write(
        &mut self,
        format: Format,
        to: &Path,
        done: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        match format {
            Format::Gguf(mix) => {
                let plan = self.gguf(mix)?;
                plan.write(&mut self.weights, to, done)
            }
            Format::GgufAdapter => replace_file(to, &adapters::gguf(&self.weights, &self.about())?),
            Format::Adapter => replace_folder(to, |folder| adapters::peft(self, folder)),
            Format::MlxAdapter => replace_folder(to, |folder| adapters::mlx(self, folder)),
            Format::Merged | Format::Mlx | Format::MlxFourBits => {
                let packed = format == Format::MlxFourBits;
                replace_folder(to, |folder| folder::write(self, folder, packed, done))
            }
        }
    }
}

/// An error where something is already.
fn check_free(to: &Path) -> Result<()> {
    match to.exists() {
        true => Err(Error::Data(format!(
            "there is something already where the export would be, and an export replaces nothing: `{}`",
            to.display()
        ))),
        false => Ok(()),
    }
}

/// Removes what an attempt left that was stopped.
fn remove(path: &Path) -> Result<()> {
    let removed = match (path.is_dir(), path.exists()) {
        (true, _) => std::fs::remove_dir_all(path),
        (false, true) => std::fs::remove_file(path),
        (false, false) => Ok(()),
    };
    removed.map_err(Error::file("remove an unfinished export", path))
}

/// An error where a disk has less room than this many bytes and some more.
fn check_room(to: &Path, needed: u64) -> Result<()> {
    let whole = std::path::absolute(to).map_err(Error::file("find the folder", to))?;
    match free_bytes(&whole) {
        Some(free) if free < needed + SLACK_BYTES => Err(Error::Data(format!(
            "the export has {}, and the disk has room for {}: `{}`",
            bytes(needed),
            bytes(free.saturating_sub(SLACK_BYTES)),
            to.display()
        ))),
        _ => Ok(()),
    }
}

/// What a model is called on the Hub, where its folder is that of the Hub's own cache; otherwise the name of its folder or file.
fn public_name(path: &Path) -> String {
    let parts = path.iter().filter_map(|it| it.to_str());
    let mut cached = parts.filter_map(|it| it.strip_prefix("models--"));
    cached
        .next()
        .map_or_else(|| name_of(path), |it| it.replacen("--", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_in_the_cache_of_the_hub_is_called_what_the_hub_calls_it() {
        for (path, name) in [
            (
                "/h/hub/models--org--some-model/snapshots/abc",
                "org/some-model",
            ),
            ("/h/models/mine", "mine"),
            ("/h/models/mine.gguf", "mine.gguf"),
        ] {
            assert_eq!(public_name(Path::new(path)), name);
        }
    }
}
