//! What learns, and from what: the new model, the data, the adapter.

use serde_json::{Map, Value, json};

use super::{
    Language,
    fields::MAX_RANK,
    footprint,
    plan::*,
    preset::{self, MethodDefaults},
    request::*,
};
use crate::{
    arch::{
        config::{
            DecoderConfig,
            limits::{MAX_CONTEXT, MAX_VOCABULARY},
        },
        network::{NetworkConfig, is_recursive, unread},
    },
    checkpoint::quantize::Quantization,
    data::{TextRows, format::Format, marks::Marks},
    figures::bytes,
    train::{fit::room, kind::Basis, plan::Chosen, resolve::Resolver as AnyResolver},
};

type Resolver<'a> = AnyResolver<'a, Language>;

/// The part of a plan that is about language, and what the rest is chosen by.
pub(super) fn resolve(resolver: &mut Resolver) -> (LanguagePlan, Basis) {
    let request = &resolver.request.task;
    let facts = &resolver.facts.task.data;
    let method = resolver.method();
    let scratch = (method == Method::Scratch).then(|| resolver.scratch());
    let context = resolver.context(scratch.as_ref());
    let (data, length) = resolver.data(context);
    // Of a recursive model, one problem is enough.
    let has_adapter = method == Method::Lora && !resolver.starts_from_recursive();
    let quantize = resolver.quantize(has_adapter);
    let lora = has_adapter.then(|| resolver.lora());
    let parameters = resolver.parameters(scratch.as_ref());
    let recursive = scratch.as_ref().is_some_and(|it| is_recursive(&it.config));
    let defaults = MethodDefaults::of(method, parameters, recursive);
    let basis = Basis {
        length,
        rows: match data.packing {
            true => facts.tokens.div_ceil(length.max(1)),
            false => facts.rows,
        },
        held_out_rows: facts.held_out_rows,
        units_per_step: defaults.tokens_per_step,
        batch_rows: None,
        is_normalized: false,
        why_one_device: None,
        epochs: Chosen::new(defaults.epochs, defaults.epochs_why),
        learning_rate: Chosen::new(defaults.learning_rate, defaults.learning_rate_why),
        weight_decay: Chosen::new(defaults.weight_decay, defaults.weight_decay_why),
        beta2: Chosen::new(defaults.beta2, defaults.beta2_why),
        usual: resolver.optimizer_that_fits(method).into_iter().collect(),
    };
    let plan = LanguagePlan {
        method,
        model: request.model.clone().filter(|_| method != Method::Scratch),
        quantize,
        scratch,
        data,
        lora,
        sample: resolver.choose_samples(|resolver| resolver.prompts(context)),
    };
    (plan, basis)
}

impl Resolver<'_> {
    fn method(&mut self) -> Method {
        let request = &self.request.task;
        let method = self.take("method", &request.method, || request.method_or_default());
        if method != Method::Scratch {
            match &request.model {
                None => self.problem(
                    "model",
                    "is missing: name the folder of a model, or set `method: scratch` to train a new one",
                ),
                Some(_) => {
                    self.take("model", &request.model, || {
                        Chosen::new(Default::default(), "")
                    });
                }
            }
            if request.scratch.is_some() {
                self.problem(
                    "scratch",
                    "is given together with an existing model; remove one of the two, or set `method: scratch`",
                );
            }
        } else if request.model.is_some() {
            self.problem(
                "model",
                "is given, but a new model starts from scratch; remove it, or set `method: full`",
            );
        }
        if method == Method::Lora && self.starts_from_recursive() {
            self.problem(
                "method",
                "is lora, and a recursive model has no adapters; set `method: full`",
            );
        }
        if method != Method::Lora && request.lora != LoraRequest::default() {
            self.problem(
                "lora",
                "is given, but the method has no adapter; remove it, or set `method: lora`",
            );
        }
        method
    }

    /// Whether the model that the request names is a recursive one.
    fn starts_from_recursive(&self) -> bool {
        let model = self.facts.task.model.as_ref();
        model.is_some_and(|it| matches!(it.network, NetworkConfig::Recursive(_)))
    }

    /// What the frozen weights beside an adapter are put into.
    fn quantize(&mut self, has_adapter: bool) -> Option<Quantization> {
        let asked = self.request.task.quantize;
        let wanted: Option<Quantization> = asked.and_then(Into::into);
        if let (Some(wanted), false) = (wanted, has_adapter) {
            let problem = format!(
                "is {}, and only weights that stay as they are can be; remove it, or set `method: lora`",
                wanted.name()
            );
            self.problem("quantize", problem);
            return None;
        }
        let model = self.facts.task.model.as_ref().filter(|_| has_adapter)?;
        let chosen = match (model.stored, wanted) {
            (Stored::Blocks { .. }, Some(wanted)) => {
                let problem = format!(
                    "is {}, and the weights of a GGUF file stay in the blocks that they have; remove it",
                    wanted.name()
                );
                self.problem("quantize", problem);
                return None;
            }
            (Stored::Blocks { .. }, None) => None,
            (Stored::Nf4, _) => Some("the model comes so".to_owned()),
            (Stored::Wide, _) => self.why_quantize(&model.network),
        };
        if asked.is_none() && chosen.is_none() {
            return None;
        }
        let chosen = Chosen::new(Quantize::Nf4, chosen.unwrap_or_default());
        self.take("quantize", &asked, || chosen).into()
    }

    /// Why frozen weights are put into 4 bits without being asked to: in 16 they would not fit, and so they may.
    fn why_quantize(&self, model: &NetworkConfig) -> Option<String> {
        let room_bytes = room(self.facts.device.device.free_bytes?);
        let narrow_bytes = model.parameters().saturating_mul(2);
        let (count, in_blocks) = footprint::in_blocks(Quantization::Nf4, model.decoder()?);
        let rest_bytes = u128::from(model.parameters()).saturating_sub(count) * 2;
        let quantized_bytes = u64::try_from(rest_bytes + in_blocks).ok()?;
        (quantized_bytes <= room_bytes && room_bytes < narrow_bytes).then(|| {
            format!(
                "in 16 bits the weights alone take {} of the {} that a run may use; in 4 they take {}, and answers get worse, the more so the smaller the model",
                bytes(narrow_bytes),
                bytes(room_bytes),
                bytes(quantized_bytes)
            )
        })
    }

    /// AdamW in 8 bits where all weights are to learn, and they fit with it alone: each has a gradient and, otherwise, two numbers of
    /// the optimizer.
    fn optimizer_that_fits(&self, method: Method) -> Option<(&'static str, Chosen<Value>)> {
        const WIDE: u64 = 4 + 4 + 8;
        const SMALL: u64 = 4 + 4 + 2;
        let room_bytes = room(self.facts.device.device.free_bytes?);
        let parameters = self.facts.task.model.as_ref()?.network.parameters();
        let needs = |bytes| parameters.saturating_mul(bytes);
        let fits_so = (needs(SMALL)..needs(WIDE)).contains(&room_bytes);
        (method == Method::Full && fits_so).then(|| {
            let why = format!(
                "weights, gradients and what AdamW keeps would take {} of the {} that a run may use; in 8 bits it keeps a quarter",
                bytes(needs(WIDE)),
                bytes(room_bytes)
            );
            ("optimizer.kind", Chosen::new(json!("adamw_8bit"), why))
        })
    }

    fn prompts(&mut self, context: usize) -> PromptPlan {
        let request = &self.request.task.sample;
        let prompts = self.take("sample.prompts", &request.prompts, || {
            Chosen::new(Vec::new(), "the beginning of a held-out row")
        });
        let tokens = self.take("sample.tokens", &request.tokens, || {
            Chosen::new(context.min(64), "enough to see whether it makes sense")
        });
        self.counted("sample.tokens", tokens, MAX_CONTEXT);
        PromptPlan { prompts, tokens }
    }

    fn scratch(&mut self) -> ScratchPlan {
        let request = &self.request.task;
        let asked = request.scratch.clone().unwrap_or_default();
        let is_recursive = is_recursive(&request.new_config());
        for (name, value) in &asked.config {
            if let Some(problem) = unread(is_recursive, name, value) {
                self.problem(&format!("scratch.config.{name}"), problem);
            }
        }
        let mut config = request.new_config();
        if !asked.config.contains_key("model_type") {
            self.take("scratch.preset", &asked.preset, || {
                request.preset_or_default()
            });
        }
        let (tokenizer, vocab_size) = self.new_tokenizer(&asked);
        let found = self.facts.task.vocab_size;
        match asked
            .config
            .get("vocab_size")
            .and_then(|size| size.as_u64())
        {
            Some(size) if (size as usize) < found => self.problem(
                "scratch.config.vocab_size",
                format!("is {size}, smaller than the tokenizer’s {found}"),
            ),
            Some(_) => {}
            None => {
                config.insert("vocab_size".to_owned(), found.into());
            }
        }
        if let Some(parameters) = preset::parameters_of(&config) {
            let kind = config.get("model_type").and_then(|kind| kind.as_str());
            let why = format!("{parameters} parameters");
            let automatic = asked.config.is_empty();
            self.note(
                "scratch.config.model_type",
                kind.unwrap_or_default(),
                &why,
                automatic,
            );
        }
        self.warn_of_heads(&config);
        ScratchPlan {
            config,
            tokenizer,
            vocab_size,
        }
    }

    /// Heads of a recursive model have whole numbers, which may be fewer than the model's together.
    fn warn_of_heads(&mut self, config: &Map<String, Value>) {
        let config = NetworkConfig::from_json(&Value::Object(config.clone()));
        if let Ok(NetworkConfig::Recursive(config)) = config
            && let Some(all) = config.narrowed_heads()
        {
            let shape = config.trm();
            let (heads, width, d) = (shape.num_heads, shape.head_width(), shape.hidden_size);
            self.warnings.push(format!(
                "{heads} heads of {width} numbers are {all} of the {d} that attention could use; another `scratch.config.num_heads` would use all"
            ));
        }
    }

    /// Where the tokenizer of a new model comes from, and the most tokens that it may have.
    fn new_tokenizer(&mut self, asked: &ScratchRequest) -> (TokenizerSource, usize) {
        let request = &self.request.task;
        let tokenizer = self.take("scratch.tokenizer", &asked.tokenizer, || {
            Chosen::new(
                TokenizerSource::Trained,
                "one trained on this data needs the fewest tokens for it",
            )
        });
        let vocab_size = self.take("scratch.vocab_size", &asked.vocab_size, || {
            Chosen::new(
                request.tokenizer_or_default().1,
                "fits the size of the model",
            )
        });
        let marks = request.marks_or_default();
        let least = marks.smallest_vocabulary();
        if tokenizer == TokenizerSource::Trained && vocab_size < least {
            let special = match marks {
                Marks::ChatMl => "three tokens that end texts and turns",
                Marks::Pairs => "ten tokens that stand around texts and turns",
            };
            self.problem(
                "scratch.vocab_size",
                format!(
                    "is {vocab_size}, and has to be at least {least}: every byte, and {special}"
                ),
            );
        }
        if vocab_size > MAX_VOCABULARY {
            self.problem(
                "scratch.vocab_size",
                format!("is {vocab_size}, and has to be at most {MAX_VOCABULARY}"),
            );
        }
        (tokenizer, vocab_size)
    }

    /// The longest text the model can see.
    fn context(&self, scratch: Option<&ScratchPlan>) -> usize {
        let found = match scratch {
            Some(scratch) => scratch
                .config
                .get("max_position_embeddings")
                .and_then(|context| context.as_u64())
                .map(|context| context as usize),
            None => self
                .facts
                .task
                .model
                .as_ref()
                .map(|it| it.network.context()),
        };
        found.unwrap_or(preset::LONGEST_ROW).min(MAX_CONTEXT)
    }

    /// How many numbers a new model has. Nothing is chosen by the size of one that exists.
    fn parameters(&self, scratch: Option<&ScratchPlan>) -> u64 {
        let parameters = scratch.and_then(|scratch| preset::parameters_of(&scratch.config));
        parameters.unwrap_or_default()
    }

    /// The data, and the length of a row of a batch, which depend on each other.
    fn data(&mut self, context: usize) -> (TextDataPlan, usize) {
        let (request, facts) = (&self.request.task.data, &self.facts.task.data);
        if request.files.is_empty() {
            self.problem("data.files", "is missing: name at least one file");
        } else if facts.rows == 0 {
            self.problem("data.files", "have no row to learn from");
        }
        self.note("data.files", "", &facts.read_as, true);
        if request.format.is_some() {
            self.take("data.format", &request.format, || {
                Chosen::new(Format::Text, "")
            });
        }
        let encoding = self.take("data.encoding", &request.encoding, || {
            Chosen::new("utf-8".to_owned(), "how nearly all text is written")
        });
        let rows = self.take("data.rows", &request.rows, || {
            Chosen::new(
                TextRows::Whole,
                "nothing marks the rows of plain text, so that is learned in windows; other files have rows",
            )
        });
        let held_out = self.take("data.held_out", &request.held_out, || {
            Chosen::new(preset::HELD_OUT, "one row in twenty, never learned from")
        });
        self.within("data.held_out", held_out, 0.0, 0.5);
        let learn = self.take("data.learn", &request.learn, || match facts.chat {
            true => Chosen::new(Learn::Assistant, "the model is to answer, not to ask"),
            false => Chosen::new(Learn::All, "plain text has no turns"),
        });
        let packing = self.take("data.packing", &request.packing, || {
            Chosen::new(
                true,
                "no part of a batch is empty, and rows don’t see each other",
            )
        });
        let length = self.length(context);
        let max_length = self.take("data.max_length", &request.max_length, || {
            Chosen::new(length, "as long as a row of a batch")
        });
        if max_length > length {
            self.problem(
                "data.max_length",
                format!("is {max_length}, longer than `batch.length`, which is {length}"),
            );
        }
        self.positive("data.max_length", max_length);
        if facts.chat && facts.length_longest > max_length {
            self.warnings.push(format!(
                "the longest row has {} tokens and is cut to {max_length}",
                facts.length_longest
            ));
        }
        let skip_bad_rows = self.take("data.skip_bad_rows", &request.skip_bad_rows, || {
            Chosen::new(
                false,
                "a row that can’t be read is better looked at than lost",
            )
        });
        let plan = TextDataPlan {
            files: request.files.clone(),
            format: request.format,
            columns: request.columns.clone(),
            encoding,
            rows,
            held_out,
            learn,
            max_length,
            packing,
            skip_bad_rows,
        };
        (plan, length)
    }

    fn length(&mut self, context: usize) -> usize {
        let (request, facts) = (self.request, &self.facts.task.data);
        let length = self.take("batch.length", &request.run.batch.length, || {
            if let Some(max_length) = request.task.data.max_length {
                return Chosen::new(max_length.min(context), "as long as `data.max_length`");
            }
            let most = context.min(preset::LONGEST_ROW);
            let wanted = facts.length_95.next_multiple_of(64).max(64);
            if facts.chat && wanted < most {
                return Chosen::new(wanted, "19 of 20 rows fit whole");
            }
            match most == context {
                true => Chosen::new(most, "the longest text the model can see"),
                false => Chosen::new(most, "longer rows cost memory on every machine"),
            }
        });
        if length > context {
            self.problem(
                "batch.length",
                format!("is {length}, longer than the {context} tokens the model can see"),
            );
        }
        if length < 2 {
            self.problem(
                "batch.length",
                format!(
                    "is {length}, and has to be at least 2: one token to see and one to predict"
                ),
            );
        }
        length.min(context)
    }

    fn lora(&mut self) -> LoraPlan {
        let request = &self.request.task.lora;
        let model = self.facts.task.model.as_ref();
        let facts = model.and_then(|it| it.network.decoder());
        let rank = self.take("lora.rank", &request.rank, || {
            Chosen::new(preset::LORA_RANK, "enough for most single tasks")
        });
        self.counted("lora.rank", rank, MAX_RANK);
        let alpha = self.take("lora.alpha", &request.alpha, || {
            Chosen::new(2.0 * rank.max(1) as f64, "twice the rank, as is usual")
        });
        if !(alpha > 0.0 && alpha.is_finite()) {
            self.problem("lora.alpha", format!("is {alpha}, and has to be above 0"));
        }
        let dropout = self.take("lora.dropout", &request.dropout, || {
            Chosen::new(0.0, "small adapters rarely gain from it")
        });
        self.within("lora.dropout", dropout, 0.0, 0.9);
        let known = facts.map(DecoderConfig::linears).unwrap_or_default();
        let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        let targets = self.take("lora.targets", &request.targets, || {
            Chosen::new(
                known.clone(),
                "all linear weights of a layer: better than few at a higher rank",
            )
        });
        if targets.is_empty() {
            self.problem("lora.targets", "is empty, so nothing would learn");
        }
        for target in targets.iter().filter(|target| !known.contains(target)) {
            let known = known.join(", ");
            self.problem(
                "lora.targets",
                format!("has `{target}`, which this model lacks; it has {known}"),
            );
        }
        let count = facts.map_or(0, |model| model.layers.len());
        let layers = self.take("lora.layers", &request.layers, || {
            Chosen::new((0..count).collect(), "all of them")
        });
        if let Some(layer) = layers.iter().find(|&&layer| layer >= count) {
            self.problem(
                "lora.layers",
                format!("has {layer}, and the {count} layers are counted from 0"),
            );
        } else if layers.is_empty() {
            self.problem("lora.layers", "is empty, so nothing would learn");
        }
        let rslora = self.take("lora.rslora", &request.rslora, || {
            Chosen::new(false, "it matters for ranks of 64 and more")
        });
        LoraPlan {
            rank,
            alpha,
            dropout,
            targets,
            layers,
            rslora,
        }
    }
}

impl LanguageRequest {
    /// The method that was asked for, or follows from the rest.
    pub fn method_or_default(&self) -> Chosen<Method> {
        match (self.method, &self.model, &self.scratch) {
            (Some(method), ..) => Chosen::new(method, ""),
            (None, Some(_), _) => Chosen::new(
                Method::Lora,
                "a model is given; an adapter needs the least memory",
            ),
            (None, None, _) => Chosen::new(Method::Scratch, "no model is given"),
        }
    }

    /// The preset that was asked for, or the one that fits any machine.
    pub fn preset_or_default(&self) -> Chosen<Preset> {
        match self.scratch.as_ref().and_then(|scratch| scratch.preset) {
            Some(preset) => Chosen::new(preset, ""),
            None => Chosen::new(Preset::Micro, "learns in minutes on any machine"),
        }
    }

    /// The `config.json` of a new model. One that names its architecture stands alone; any other changes fields of a preset.
    pub fn new_config(&self) -> Map<String, Value> {
        let asked = self.scratch.as_ref().map(|scratch| scratch.config.clone());
        let asked = asked.unwrap_or_default();
        if asked.contains_key("model_type") {
            return asked;
        }
        let mut config = self.preset_or_default().value.config();
        config.extend(asked);
        config
    }

    /// How turns are marked in the own tokenizer of a new model.
    pub fn marks_or_default(&self) -> Marks {
        marks_of(&self.new_config())
    }

    /// Where the tokenizer of a new model comes from, and how many tokens it may have.
    pub fn tokenizer_or_default(&self) -> (TokenizerSource, usize) {
        let scratch = self.scratch.clone().unwrap_or_default();
        // A shape of its own may leave the vocabulary to the tokenizer.
        let mut config = self.preset_or_default().value.config();
        config.extend(scratch.config);
        let vocab_size = config.get("vocab_size").and_then(|size| size.as_u64());
        (
            scratch.tokenizer.unwrap_or(TokenizerSource::Trained),
            scratch
                .vocab_size
                .unwrap_or(vocab_size.unwrap_or_default() as usize),
        )
    }
}
