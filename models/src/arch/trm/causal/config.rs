//! The `config.json` of a recursive language model. Names are those of the program that such models come from, and of the Hub
//! where it has one.

use serde_json::{Map, Value as Json};

use crate::{
    Error, Result,
    arch::{
        config::limits::{Limit, MAX_PARAMETERS},
        trm::{Positions, Squash, TrmConfig},
    },
};

/// The `model_type` of such a model.
pub const MODEL_TYPE: &str = "trm";

/// The most layers of keys and values: those of a stack, times how often it is used for a token.
const MAX_CACHED_LAYERS: usize = 1 << 14;

/// Every field that is read.
const FIELDS: [&str; 15] = [
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_heads",
    "expansion",
    "L_layers",
    "H_cycles",
    "L_cycles",
    "halt_max_steps",
    "max_position_embeddings",
    "pos_encodings",
    "rope_theta",
    "rms_norm_eps",
    "mlp_t",
    "causal",
];

/// Fields that change nothing about what it computes.
const HARMLESS: [&str; 7] = [
    "architectures",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "torch_dtype",
    "dtype",
    "transformers_version",
];

/// The shape of a recursive language model.
#[derive(Debug, Clone, PartialEq)]
pub struct CausalTrmConfig {
    /// That of the model it is a form of: cells are tokens, and there are no puzzles.
    trm: TrmConfig,
}

/// What is wrong with a field of a config that somebody wrote, apart from its value: a name that nobody reads.
pub fn unread(name: &str) -> Option<String> {
    let is_known = FIELDS.contains(&name) || HARMLESS.contains(&name);
    let known = || {
        format!(
            "is no field of a recursive model; it has {}",
            FIELDS.join(", ")
        )
    };
    (!is_known).then(known)
}

impl CausalTrmConfig {
    /// Reads a `config.json`. Errors name the field: one that is missing, beyond its limits, or not known.
    pub fn from_json(json: &Json) -> Result<Self> {
        let map = json
            .as_object()
            .ok_or_else(|| Error::setting("config", "is not an object"))?;
        for name in map.keys() {
            if let Some(problem) = unread(name) {
                return Err(Error::setting(name, problem));
            }
        }
        let count = |name| count(map, name);
        if flag(map, "mlp_t", false)? {
            let problem = "is true: a product along the sequence sees later tokens, so the loss would fall and \
                           the model could not write; leave it false, which attends instead";
            return Err(Error::setting("mlp_t", problem));
        }
        if !flag(map, "causal", true)? {
            let problem = "is false: a model that writes must not see what comes later";
            return Err(Error::setting("causal", problem));
        }
        let trm = TrmConfig {
            vocab_size: count("vocab_size")?,
            seq_len: count("max_position_embeddings")?,
            num_puzzle_identifiers: 1,
            hidden_size: count("hidden_size")?,
            num_heads: count("num_heads")?,
            expansion: number(map, "expansion", 4.0)?,
            l_layers: count("L_layers")?,
            h_cycles: count("H_cycles")?,
            l_cycles: count("L_cycles")?,
            mlp_t: false,
            pos_encodings: positions(map)?,
            puzzle_emb_ndim: 0,
            puzzle_emb_len: 0,
            halt_max_steps: match map.contains_key("halt_max_steps") {
                true => count("halt_max_steps")?,
                false => 1,
            },
            halt_exploration_prob: 0.0,
            rms_norm_eps: number(map, "rms_norm_eps", 1e-5)?,
            rope_theta: number(map, "rope_theta", 10_000.0)?,
            loss: Squash::Softmax,
        };
        trm.check()?;
        let config = Self { trm };
        config.check()?;
        Ok(config)
    }

    /// Whether the sizes fit together. Each is within its own limit, so no product of them overflows.
    fn check(&self) -> Result<()> {
        let layers = self.cached_layers();
        if layers > MAX_CACHED_LAYERS {
            let problem = format!(
                "with the steps and layers makes {layers} layers of keys and values for each token, and there may be {MAX_CACHED_LAYERS}"
            );
            return Err(Error::setting("H_cycles", problem));
        }
        let parameters = self.parameters();
        if parameters > MAX_PARAMETERS {
            let problem = format!(
                "describes {parameters} parameters; no model here has more than {MAX_PARAMETERS}"
            );
            return Err(Error::setting("config", problem));
        }
        Ok(())
    }

    /// The shape of the model that it is a form of.
    pub fn trm(&self) -> &TrmConfig {
        &self.trm
    }

    /// v: tokens known.
    pub fn vocab_size(&self) -> usize {
        self.trm.vocab_size
    }

    /// The longest text it can see, in tokens.
    pub fn context(&self) -> usize {
        self.trm.seq_len
    }

    /// Numbers of all heads together, where they are fewer than those of the model: heads have whole numbers.
    pub fn narrowed_heads(&self) -> Option<usize> {
        let all = self.trm.num_heads * self.trm.head_width();
        (all < self.trm.hidden_size).then_some(all)
    }

    /// How often the stack is used for a token.
    pub fn uses(&self) -> usize {
        self.trm.h_cycles * self.learned_uses()
    }

    /// Those uses that are learned from: of each step of thinking, those of the last cycle.
    pub fn learned_uses(&self) -> usize {
        self.trm.halt_max_steps * (self.trm.l_cycles + 1)
    }

    /// Layers of keys and values that are kept of a token.
    pub fn cached_layers(&self) -> usize {
        self.uses().saturating_mul(self.trm.l_layers)
    }

    /// Values of the whole model.
    pub fn parameters(&self) -> u64 {
        let weights = self.trm.weights().into_iter();
        let sizes = weights.map(|(_, shape, _)| shape.iter().map(|&it| it as u64).product::<u64>());
        sizes.sum()
    }

    /// Those of them that never learn: the first states, and the head that says when to halt.
    pub fn frozen_parameters(&self) -> u64 {
        4 * self.trm.hidden_size as u64 + 2
    }

    /// Values of the linear weights of one block.
    pub fn block_parameters(&self) -> u64 {
        let (d, heads) = (
            self.trm.hidden_size as u64,
            (self.trm.num_heads * self.trm.head_width()) as u64,
        );
        4 * d * heads + 3 * d * self.trm.inner(self.trm.hidden_size) as u64
    }
}

fn positions(map: &Map<String, Json>) -> Result<Positions> {
    match map.get("pos_encodings").map(Json::as_str) {
        None | Some(Some("rope")) => Ok(Positions::Rope),
        Some(Some("learned")) => Ok(Positions::Learned),
        Some(Some("none")) => Ok(Positions::None),
        Some(_) => Err(Error::setting(
            "pos_encodings",
            format!(
                "is {}, and has to be rope, learned or none",
                map["pos_encodings"]
            ),
        )),
    }
}

fn count(map: &Map<String, Json>, name: &str) -> Result<usize> {
    let found = map
        .get(name)
        .ok_or_else(|| Error::setting(name, "is missing"))?;
    let wrong = || Error::setting(name, format!("is {found}, and has to be a whole number"));
    let number = found.as_u64().ok_or_else(wrong)?;
    Limit::check(name, name, number as f64, found)?;
    usize::try_from(number).map_err(|_| wrong())
}

fn number(map: &Map<String, Json>, name: &str, otherwise: f64) -> Result<f64> {
    let Some(found) = map.get(name) else {
        return Ok(otherwise);
    };
    let wrong = || Error::setting(name, format!("is {found}, and has to be a number"));
    found.as_f64().ok_or_else(wrong)
}

fn flag(map: &Map<String, Json>, name: &str, otherwise: bool) -> Result<bool> {
    let Some(found) = map.get(name) else {
        return Ok(otherwise);
    };
    let wrong = || Error::setting(name, format!("is {found}, and has to be true or false"));
    found.as_bool().ok_or_else(wrong)
}
