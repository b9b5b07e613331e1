//! A model that is led along directions of probes while it is used for chat.

use std::path::Path;

use console::style;
use models::tasks::probe::steer::{Cost, How, Steered};

use crate::{
    cli::terminal::{Terminal, printable},
    host::{Host, chat::Conversation},
    wire::{
        chat::SteerBy,
        error::{AppError, Result},
    },
};

/// What stands for taking a direction away.
const REMOVE: &str = "remove";

/// A direction that is asked for, as `PROBES[:LABEL]=STRENGTH`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    probes: String,
    how: How,
}

pub(super) fn asked(words: &str) -> Result<Asked, String> {
    let wrong = || "write it like PROBES:joy=0.1 or PROBES:joy=remove".to_owned();
    let (probes, how) = words.rsplit_once('=').ok_or_else(wrong)?;
    let how = match (how.trim(), how.trim().parse::<f64>()) {
        (REMOVE, _) => How::Remove,
        (_, Ok(strength)) if strength.is_finite() => How::Add(strength),
        _ => return Err(wrong()),
    };
    match probes.trim() {
        "" => Err(wrong()),
        probes => Ok(Asked {
            probes: probes.to_owned(),
            how,
        }),
    }
}

/// Leads a model along these directions, and says along which and what it costs.
pub(super) fn begin(
    chat: &mut Conversation,
    asked: &[Asked],
    force: bool,
    host: &Host,
    terminal: &Terminal,
) -> Result<()> {
    let by = asked.iter().map(|it| named(it, host));
    chat.steer(by.collect::<Result<_>>()?, force)?;
    let led = chat.led();
    for warning in &led.warnings {
        terminal.warn(warning);
    }
    for direction in &led.directions {
        terminal.note(sentence(direction));
        terminal.note(format_args!("it is {}", direction.made_of.words()));
    }
    if let Some(cost) = &led.cost {
        terminal.note(cost_sentence(cost));
    }
    Ok(())
}

/// The probe that is meant: in a folder or run of this name, or of what stands before the last colon.
fn named(asked: &Asked, host: &Host) -> Result<SteerBy> {
    let whole = &asked.probes;
    let (name, label) = match whole.rsplit_once(':') {
        Some((name, label)) if !Path::new(whole).is_dir() && !name.is_empty() => {
            (name, Some(label))
        }
        _ => (whole.as_str(), None),
    };
    if label == Some("") {
        return Err(AppError::invalid(format!(
            "`--steer {whole}` names no label after the colon"
        )));
    }
    Ok(SteerBy {
        probes: host.probes(name)?,
        label: label.map(str::to_owned),
        how: asked.how,
    })
}

/// `joy at block.14: 0.1 times as far as states there are long, 38.2`.
fn sentence(it: &Steered) -> String {
    let (label, site) = (printable(&it.label), it.site);
    let usual = it.usual_length;
    match it.how {
        How::Add(strength) => format!(
            "{label} at {site}: every state is moved by {:.2}, which is {strength} times how long states there usually are \
             ({usual:.2})",
            strength * usual
        ),
        How::Remove => {
            format!("{label} at {site}: what states have along its direction is taken away")
        }
    }
}

/// What leading costs, in words.
fn cost_sentence(cost: &Cost) -> String {
    let plain = format!(
        "perplexity of a plain text of {} tokens: {:.2} as the model is",
        cost.tokens, cost.plain
    );
    let Some(steered) = cost.steered else {
        return format!("{plain}; while it is led, it computes no numbers any more: ask for less");
    };
    let more = match steered / cost.plain {
        2.0.. => "; the model is hardly itself, so believe little of what it says",
        1.1..2.0 => "; less would leave it more itself",
        _ => "",
    };
    format!("{plain}, {steered:.2} while it is led{more}")
}

/// What stands before the answer of the model as it is.
pub(super) fn heading(terminal: &Terminal) {
    terminal.line(style("As the model is, without being led:").dim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_asked_for_by_its_probe_with_a_strength_or_to_be_removed() {
        let of = |probes: &str, how| {
            Ok(Asked {
                probes: probes.to_owned(),
                how,
            })
        };
        assert_eq!(asked("probes:joy=0.1"), of("probes:joy", How::Add(0.1)));
        assert_eq!(asked("a=b=-2"), of("a=b", How::Add(-2.0)));
        assert_eq!(asked("probes=remove"), of("probes", How::Remove));
        for wrong in ["probes", "=1", "probes=much", "probes=NaN", "probes="] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_it_costs_is_said_in_words_where_it_is_much() {
        let said = |steered: f64| {
            cost_sentence(&Cost {
                plain: 20.0,
                steered: Some(steered).filter(|it| it.is_finite()),
                tokens: 200,
            })
        };
        assert!(said(20.4).ends_with("20.00 as the model is, 20.40 while it is led"));
        assert!(said(25.0).ends_with("less would leave it more itself"));
        assert!(said(80.0).contains("hardly itself"));
        assert!(said(f64::INFINITY).contains("no numbers any more"));
    }
}
