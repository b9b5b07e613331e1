//! What learns, and from what: the new model, the data, the adapter.

use super::Resolver;
use crate::data::{TextRows, format::Format};
use crate::train::{plan::*, preset, request::*};

impl Resolver<'_> {
    pub(super) fn scratch(&mut self) -> ScratchPlan {
        let request = self.request;
        let asked = request.scratch.clone().unwrap_or_default();
        let mut config = asked.config.clone();
        // A config that names its architecture stands alone; any other changes fields of a preset.
        if !config.contains_key("model_type") {
            let preset = self.take("scratch.preset", &asked.preset, || {
                request.preset_or_default()
            });
            config = preset.config();
            config.extend(asked.config.clone());
        }
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
        // 256 bytes and the three special tokens of a chat.
        if tokenizer == TokenizerSource::Trained && vocab_size < 259 {
            self.problem(
                "scratch.vocab_size",
                format!("is {vocab_size}, and has to be at least 259: every byte, and three tokens that end texts and turns"),
            );
        }
        let found = self.facts.vocab_size;
        match asked
            .config
            .get("vocab_size")
            .and_then(|size| size.as_u64())
        {
            Some(size) if (size as usize) < found => self.problem(
                "scratch.config.vocab_size",
                format!("is {size}, smaller than the tokenizer's {found}"),
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
        ScratchPlan {
            config,
            tokenizer,
            vocab_size,
        }
    }

    /// The longest text the model can see.
    pub(super) fn context(&self, scratch: Option<&ScratchPlan>) -> usize {
        let found = match scratch {
            Some(scratch) => scratch
                .config
                .get("max_position_embeddings")
                .and_then(|context| context.as_u64())
                .map(|context| context as usize),
            None => self.facts.model.as_ref().map(|model| model.context),
        };
        found.unwrap_or(preset::LONGEST_ROW)
    }

    /// How many numbers a new model has. Nothing is chosen by the size of one that exists.
    pub(super) fn parameters(&self, scratch: Option<&ScratchPlan>) -> u64 {
        let parameters = scratch.and_then(|scratch| preset::parameters_of(&scratch.config));
        parameters.unwrap_or_default()
    }

    /// The data, and the length of a row of a batch, which depend on each other.
    pub(super) fn data(&mut self, context: usize) -> (DataPlan, usize) {
        let (request, facts) = (&self.request.data, &self.facts.data);
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
                "no part of a batch is empty, and rows don't see each other",
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
                "a row that can't be read is better looked at than lost",
            )
        });
        let plan = DataPlan {
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

    pub(super) fn length(&mut self, context: usize) -> usize {
        let (request, facts) = (self.request, &self.facts.data);
        let length = self.take("batch.length", &request.batch.length, || {
            if let Some(max_length) = request.data.max_length {
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
        length
    }

    pub(super) fn lora(&mut self) -> LoraPlan {
        let request = &self.request.lora;
        let facts = self.facts.model.as_ref();
        let rank = self.take("lora.rank", &request.rank, || {
            Chosen::new(preset::LORA_RANK, "enough for most single tasks")
        });
        self.positive("lora.rank", rank);
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
        let known = facts.map(|model| model.linears.clone()).unwrap_or_default();
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
        let count = facts.map(|model| model.layers).unwrap_or_default();
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
