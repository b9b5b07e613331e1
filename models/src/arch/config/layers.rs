//! What differs from layer to layer: windows, and positions.

use serde_json::Value as Json;

use super::{LayerKind, fields::Fields};
use crate::{
    Result,
    arch::families::{Family, Slides},
};

/// The kinds of `count` layers.
pub(super) fn layers(fields: &Fields, family: &Family, count: usize) -> Result<Vec<LayerKind>> {
    let ropes = with_rope(fields, family, count)?;
    let is_off = family.reads("use_sliding_window") && !fields.flag("use_sliding_window")?;
    let window = match is_off || family.slides.is_none() {
        true => None,
        false => fields.count_or_none("sliding_window")?,
    };
    let rule = family.slides.unwrap_or(Slides::All);
    let named = named_slides(fields, count)?;
    let is_said = named.is_some() || matches!(rule, Slides::ExceptEvery(_));
    let slides = match named {
        Some(slides) if family.reads("layer_types") => slides,
        // All layers are the same there. Where the file says otherwise, transformers computes one thing and caches another.
        Some(slides) if slides.iter().any(|slides| *slides != window.is_some()) => {
            let family = &family.model_type;
            let problem = format!("tells layers apart, and those of `{family}` are all the same");
            return Err(fields.error("layer_types", problem));
        }
        Some(slides) => slides,
        None => {
            let pattern = match family.reads("sliding_window_pattern") {
                true => fields.count("sliding_window_pattern")?,
                false => None,
            };
            let first = fields.count("max_window_layers")?.unwrap_or_default();
            let slides = |(layer, has_rope): (usize, &bool)| match rule {
                Slides::All => true,
                Slides::ExceptEvery(usual) => !(layer + 1).is_multiple_of(pattern.unwrap_or(usual)),
                Slides::FromLayer => layer >= first,
                Slides::WithoutRope => !has_rope,
            };
            ropes.iter().enumerate().map(slides).collect()
        }
    };
    if is_said && window.is_none() && slides.contains(&true) {
        let problem = match is_off {
            true => "is not in use, and there are layers that slide: set `use_sliding_window`",
            false => "is none, and there are layers that slide",
        };
        return Err(fields.error("sliding_window", problem));
    }
    let kind = |(slides, has_rope): (bool, bool)| LayerKind {
        window: window.filter(|_| slides),
        rope: has_rope.then_some(usize::from(family.has_local_rope() && slides)),
    };
    Ok(slides.into_iter().zip(ropes).map(kind).collect())
}

/// Which layers slide, where the file says it of each.
fn named_slides(fields: &Fields, count: usize) -> Result<Option<Vec<bool>>> {
    let Some(types) = fields.list("layer_types")? else {
        return Ok(None);
    };
    if types.len() != count {
        let named = types.len();
        let problem = format!("names {named} layers, and `num_hidden_layers` is {count}");
        return Err(fields.error("layer_types", problem));
    }
    let slides = |kind: &Json| match kind.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => {
            let problem =
                format!("has {kind}; known are \"full_attention\", \"sliding_attention\"");
            Err(fields.error("layer_types", problem))
        }
    };
    types.iter().map(slides).collect::<Result<_>>().map(Some)
}

/// Which layers have rotary positions: all, but in a family that may leave them out those that the file says.
fn with_rope(fields: &Fields, family: &Family, count: usize) -> Result<Vec<bool>> {
    if !family.reads("no_rope_layers") {
        return Ok(vec![true; count]);
    }
    let Some(layers) = fields.list("no_rope_layers")? else {
        let interval = fields.required("no_rope_layer_interval")?;
        let has_rope = |layer: usize| !(layer + 1).is_multiple_of(interval);
        return Ok((0..count).map(has_rope).collect());
    };
    if layers.len() != count {
        let named = layers.len();
        let problem = format!("names {named} layers, and `num_hidden_layers` is {count}");
        return Err(fields.error("no_rope_layers", problem));
    }
    let has_rope = |layer: &Json| match (layer.as_u64(), layer.as_bool()) {
        (Some(0), _) | (_, Some(false)) => Ok(false),
        (Some(1), _) | (_, Some(true)) => Ok(true),
        _ => Err(fields.error("no_rope_layers", format!("has {layer}; known are 0, 1"))),
    };
    layers.iter().map(has_rope).collect()
}
