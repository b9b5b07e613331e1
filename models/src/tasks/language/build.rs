//! A plan and its data become a task.

use candle_core::{DType, Device};
use serde_json::{Map, Value as Json, json};

use super::{
    LanguagePlan, LanguageTask,
    model::{LanguageModel, SavedAs},
    request::Method,
    text::Text,
};
use crate::{
    Error, Result,
    arch::{
        initial::InitialWeights,
        lora,
        network::{Network, NetworkConfig},
    },
    checkpoint::{
        folder::ModelFolder,
        load::{LoadDtypes, load_network},
    },
    data::tokenizer::TOKENIZER,
    train::plan::TrainPlan,
};

impl LanguageTask {
    /// Builds the model a plan names on `device`, at its beginning, and batches from `text`.
    pub fn new(plan: &TrainPlan<LanguagePlan>, text: Text, device: &Device) -> Result<Self> {
        let train = text.batches(plan)?;
        let (held_out, characters_per_target) = text.held_out_batches(plan)?.unzip();
        let (network, saved_as) = network(plan, &text, device)?;
        let context = network.context();
        let held_out_prompts = text.held_out_prompts(context);
        let questions = text.questions(context);
        let (known, used) = (network.vocab_size(), text.tokenizer.vocabulary_size());
        if used > known {
            let problem = format!("has {used} tokens, and the model knows {known}");
            // An existing model brings its tokenizer with it.
            return Err(match &plan.task.model {
                Some(folder) => Error::format(folder.join(TOKENIZER), problem),
                None => Error::setting("scratch.tokenizer", problem),
            });
        }
        let Text {
            tokenizer,
            template,
            chats,
            ..
        } = text;
        Ok(Self {
            model: LanguageModel {
                network,
                saved_as,
                tokenizer,
                template,
                chats,
            },
            train,
            held_out,
            characters_per_target: characters_per_target.flatten(),
            sample: plan.task.sample.clone(),
            held_out_prompts,
            questions,
            gradient_checkpointing: plan.run.gradient_checkpointing,
            seed: plan.run.seed,
        })
    }
}

/// The network a plan names, before its first step, and what of it will be saved.
fn network(
    plan: &TrainPlan<LanguagePlan>,
    text: &Text,
    device: &Device,
) -> Result<(Network, SavedAs)> {
    let compute: DType = plan.run.tensor_dtype().into();
    let folder = || {
        let path = plan.task.model.as_deref();
        ModelFolder::open(path.ok_or_else(|| Error::setting("model", "is missing from the plan"))?)
    };
    match plan.task.method {
        Method::Scratch => {
            let scratch = plan.task.scratch.as_ref();
            let scratch =
                scratch.ok_or_else(|| Error::setting("scratch", "is missing from the plan"))?;
            let config = new_config(&scratch.config, text);
            let mut weights = InitialWeights::new(plan.run.seed, device);
            let described = NetworkConfig::from_json(&config)?;
            let network = Network::new(described, &mut weights, true, compute, device)?;
            Ok((network, SavedAs::Model { config }))
        }
        Method::Full => {
            let folder = folder()?;
            let dtypes = LoadDtypes {
                compute,
                ..LoadDtypes::F32
            };
            let network = load_network(&folder, dtypes, true, device)?;
            let mut config = folder.config;
            for field in ["dtype", "torch_dtype"] {
                if config.get(field).is_some() {
                    config[field] = json!("float32");
                }
            }
            Ok((network, SavedAs::Model { config }))
        }
        Method::Lora => {
            let folder = folder()?;
            let dtypes = LoadDtypes {
                storage: plan.run.dtype.storage.into(),
                compute,
                quantize: plan.task.quantize,
                most_bytes_unpacked: 0,
            };
            let mut network = load_network(&folder, dtypes, false, device)?;
            let lora = plan.task.lora.as_ref();
            let config = lora
                .ok_or_else(|| Error::setting("lora", "is missing from the plan"))?
                .config();
            let mut weights = InitialWeights::new(plan.run.seed, device);
            lora::attach(network.decoder_mut()?, &config, &mut weights)?;
            let base = folder.path.to_string_lossy().into_owned();
            let quantize = plan.task.quantize;
            let saved_as = SavedAs::Adapter {
                config,
                base,
                quantize,
            };
            Ok((network, saved_as))
        }
    }
}

/// The `config.json` of a new model: the plan's, with what the tokenizer decides.
fn new_config(planned: &Map<String, Json>, text: &Text) -> Json {
    let mut config = planned.clone();
    let special = &text.tokenizer.special;
    // What ends an answer for whoever loads the model elsewhere.
    config.insert("eos_token_id".to_owned(), json!(special.stop));
    config.insert("bos_token_id".to_owned(), json!(special.begin));
    config.insert("pad_token_id".to_owned(), json!(special.pad));
    config.insert("torch_dtype".to_owned(), json!("float32"));
    Json::Object(config)
}
