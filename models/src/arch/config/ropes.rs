//! The rotary positions of a config, wherever its version of transformers wrote them.

use serde_json::{Map, Value as Json};

use super::fields::Fields;
use crate::{
    Result,
    arch::families::Family,
    ops::rope::{Rope, RopeScaling},
};

/// Every field of a rope that is read.
const ROPE_FIELDS: [&str; 16] = [
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "long_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "truncate",
    "type",
];
/// A field of a rope that says where it comes from.
const FINE_TUNED: &str = "finetuned";

/// The kinds of layers that can have ropes of their own.
const GLOBAL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

/// One rope as it is written: its own fields, and those beside it that it falls back on.
struct Written<'a> {
    own: Fields<'a>,
    outer: &'a Fields<'a>,
    family: &'a Family,
    head_dim: usize,
    /// The field beside it with its base.
    theta_field: &'static str,
}

/// The ropes of a model: one for all layers, or one for those that see everything and one for those that slide.
pub(super) fn ropes(fields: &Fields, family: &Family, head_dim: usize) -> Result<Vec<Rope>> {
    let none = Map::new();
    let parameters = fields.object("rope_parameters")?;
    let scaling = fields
        .object("rope_scaling")?
        .filter(|scaling| !scaling.is_empty());
    let read = |own: &Map<String, Json>, place, theta_field| {
        let own = Fields {
            fields: own,
            defaults: &none,
            place,
        };
        let written = Written {
            own,
            outer: fields,
            family,
            head_dim,
            theta_field,
        };
        written.rope()
    };
    if !family.has_local_rope() {
        // Of both, the older one counts, as in transformers.
        return Ok(vec![match (scaling, parameters) {
            (Some(scaling), _) => read(scaling, "rope_scaling.", "rope_theta")?,
            (None, parameters) => {
                let own = parameters.unwrap_or(&none);
                read(own, "rope_parameters.", "rope_theta")?
            }
        }]);
    }
    let by_kind = Fields {
        fields: parameters.unwrap_or(&none),
        defaults: &none,
        place: "rope_parameters.",
    };
    if let Some(other) = by_kind
        .fields
        .keys()
        .find(|key| *key != GLOBAL && *key != LOCAL)
    {
        let problem = format!("stands where only `{GLOBAL}` and `{LOCAL}` are known");
        return Err(by_kind.error(other, problem));
    }
    // transformers 4 scaled the global rope only, and its field changes that of version 5.
    let mut global = by_kind.object(GLOBAL)?.cloned().unwrap_or_default();
    if let Some(scaling) = scaling {
        if !scaling.contains_key("rope_type") && scaling.contains_key("type") {
            let problem = "is not read in this family; write it as `rope_type`";
            return Err(fields.error("rope_scaling.type", problem));
        }
        global.extend(scaling.clone());
    }
    let place = match scaling {
        Some(_) => "rope_scaling.",
        None => "rope_parameters.full_attention.",
    };
    let local = by_kind.object(LOCAL)?.unwrap_or(&none);
    let place_of_local = "rope_parameters.sliding_attention.";
    Ok(vec![
        read(&global, place, "rope_theta")?,
        read(local, place_of_local, "rope_local_base_freq")?,
    ])
}

impl Written<'_> {
    fn rope(&self) -> Result<Rope> {
        let unknown = |(key, value): &(&String, &Json)| {
            !value.is_null() && !ROPE_FIELDS.contains(&key.as_str()) && *key != FINE_TUNED
        };
        if let Some((key, _)) = self.own.fields.iter().find(unknown) {
            let problem = "is not known here, so it may change what the model computes";
            return Err(self.own.error(key, problem));
        }
        let theta = match self.own.number("rope_theta")? {
            Some(theta) => theta,
            None => self.outer.required_number(self.theta_field)?,
        };
        let width = self.width()?;
        let scaling = self.scaling(theta, width)?;
        Ok(Rope::new(width, theta, &scaling))
    }

    /// How many numbers of a head are rotated. An odd one counts as the next even one, whose last pair has its own angle.
    fn width(&self) -> Result<usize> {
        let name = "partial_rotary_factor";
        let partial = match self.own.number(name)? {
            Some(partial) => partial,
            None => self.outer.number_or(name, 1.0)?,
        };
        if partial != 1.0 && !self.family.reads(name) {
            let family = &self.family.model_type;
            let problem = format!("is {partial}; heads of `{family}` are rotated whole");
            return Err(self.own.error(name, problem));
        }
        let width = (self.head_dim as f64 * partial) as usize;
        if width == 0 || width.next_multiple_of(2) > self.head_dim {
            let problem = format!(
                "is {}, of which {width} numbers would be rotated; they are rotated in pairs",
                self.head_dim
            );
            return Err(self.outer.error("head_dim", problem));
        }
        Ok(width)
    }

    /// The name of how angles are stretched.
    fn kind(&self) -> Result<&str> {
        let kind = self.own.text("rope_type")?;
        let kind = kind.map_or_else(|| self.own.text("type"), |kind| Ok(Some(kind)))?;
        let kind = kind.unwrap_or("default");
        let known: Vec<&str> = match &self.family.rope_types {
            Some(types) => types.keys().map(String::as_str).collect(),
            None => vec!["default", "linear", "llama3", "longrope", "yarn"],
        };
        if !known.contains(&kind) {
            let known = known.join("`, `");
            let problem = format!("is `{kind}`; known are `{known}`");
            return Err(self.own.error("rope_type", problem));
        }
        let types = self.family.rope_types.as_ref();
        Ok(types
            .and_then(|types| types.get(kind))
            .map_or(kind, String::as_str))
    }

    fn scaling(&self, theta: f64, width: usize) -> Result<RopeScaling> {
        Ok(match self.kind()? {
            "linear" => RopeScaling::Linear {
                factor: self.own.required_number("factor")?,
            },
            "llama3" => self.llama3()?,
            "yarn" => self.yarn(theta)?,
            "longrope" => self.longrope(width)?,
            _ => RopeScaling::None,
        })
    }

    fn context(&self) -> Result<f64> {
        self.outer.required_number("max_position_embeddings")
    }

    /// The context of the first training: that beside the rope comes first, except where kinds of layers have their own.
    fn original_context(&self) -> Result<f64> {
        let name = "original_max_position_embeddings";
        let own = self.own.number(name)?;
        let outer = match self.family.has_local_rope() {
            true => None,
            false => self.outer.number(name)?,
        };
        outer.or(own).map_or_else(|| self.context(), Ok)
    }

    fn llama3(&self) -> Result<RopeScaling> {
        let low_frequency_factor = self.own.required_number("low_freq_factor")?;
        let high_frequency_factor = self.own.required_number("high_freq_factor")?;
        if high_frequency_factor <= low_frequency_factor {
            let problem = format!(
                "is {high_frequency_factor}, and has to be above `low_freq_factor`, which is {low_frequency_factor}"
            );
            return Err(self.own.error("high_freq_factor", problem));
        }
        Ok(RopeScaling::Llama3 {
            factor: self.own.required_number("factor")?,
            low_frequency_factor,
            high_frequency_factor,
            original_context: self.original_context()?,
        })
    }

    fn yarn(&self, theta: f64) -> Result<RopeScaling> {
        let original_context = self.original_context()?;
        let factor = match self.own.fields.get("factor") {
            Some(Json::Null) => self.context()? / original_context,
            _ => self.own.required_number("factor")?,
        };
        if theta == 1.0 {
            let problem = "is 1; the logarithm of the base is divided by, so it must be another";
            return Err(self.own.error("rope_theta", problem));
        }
        let magnitude = |slope: f64| match factor <= 1.0 {
            true => 1.0,
            false => 0.1 * slope * factor.ln() + 1.0,
        };
        let number = |name: &str, default: f64| self.own.number_or(name, default);
        let (mscale, all) = (number("mscale", 0.0)?, number("mscale_all_dim", 0.0)?);
        let default = match mscale != 0.0 && all != 0.0 {
            true => magnitude(mscale) / magnitude(all),
            false => magnitude(1.0),
        };
        let truncate = self.own.get("truncate").is_none() || self.own.flag("truncate")?;
        if !truncate && self.family.has_local_rope() {
            let problem = "is false, and only true is computed in this family";
            return Err(self.own.error("truncate", problem));
        }
        Ok(RopeScaling::Yarn {
            factor,
            beta_fast: number("beta_fast", 32.0)?,
            beta_slow: number("beta_slow", 1.0)?,
            original_context,
            attention_factor: number("attention_factor", default)?,
            truncate,
        })
    }

    fn longrope(&self, width: usize) -> Result<RopeScaling> {
        let pairs = width / 2;
        let original_context = self.original_context()?;
        if original_context < 2.0 || !width.is_multiple_of(2) {
            let problem = format!(
                "is `longrope`, for which {original_context} tokens of the first training or {width} rotated numbers of a head \
                 have no meaning; it needs 2 tokens, and an even number"
            );
            return Err(self.own.error("rope_type", problem));
        }
        let factors = |name: &str| {
            let factors = self.own.numbers(name)?;
            if factors.len() != pairs || factors.iter().any(|factor| *factor <= 0.0) {
                let problem = format!("has {} numbers; it needs {pairs} above 0", factors.len());
                return Err(self.own.error(name, problem));
            }
            Ok(factors)
        };
        let factor = match self.own.number("factor")? {
            Some(factor) => factor,
            None => self.context()? / original_context,
        };
        let default = match factor <= 1.0 {
            true => 1.0,
            false => (1.0 + factor.ln() / original_context.ln()).sqrt(),
        };
        Ok(RopeScaling::LongRope {
            short_factors: factors("short_factor")?,
            long_factors: factors("long_factor")?,
            original_context,
            attention_factor: self.own.number_or("attention_factor", default)?,
        })
    }
}
