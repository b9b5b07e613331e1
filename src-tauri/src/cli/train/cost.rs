//! What a run costs, said in a terminal: the estimate, why it does not fit, and the forecast.

use console::style;
use models::{
    figures::{bytes, count, duration},
    tasks::AnyResolved,
    train::{
        estimate::Estimate,
        fit::{Fit, Fix},
        forecast::Forecast,
    },
};

use super::super::terminal::table;
use crate::wire::error::{AppError, Result};

/// One line: how much, of how much, and how that is known.
pub(super) fn estimate(resolved: &AnyResolved) -> Option<String> {
    let needed = resolved.estimate.as_ref()?.bytes();
    let free = resolved.fit.as_ref().map(|fit| fit.free_bytes);
    let of = free.map_or(String::new(), |free| format!(" of {} free", bytes(free)));
    Some(format!("about {}{of}, estimated", bytes(needed)))
}

/// Refuses a run that does not fit.
pub(in crate::cli) fn refuse_what_does_not_fit(resolved: &AnyResolved) -> Result<()> {
    resolved.misfit().map_or(Ok(()), |fit| Err(refusal(fit)))
}

fn refusal(fit: &Fit) -> AppError {
    let hint = match fit.fixes.is_empty() {
        true => "take a smaller model, or start anyway with `--force`".to_owned(),
        false => format!(
            "add one of these, or start anyway with `--force`:\n{}",
            fixes(&fit.fixes).join("\n")
        ),
    };
    AppError {
        fit: Some(Box::new(fit.clone())),
        ..AppError::invalid(fit.refusal()).with_hint(hint)
    }
}

/// Each way as it is typed, what it is and what the run needs then.
pub(super) fn fixes(fixes: &[Fix]) -> Vec<String> {
    let row = |fix: &Fix| {
        let changes = fix.changes.iter();
        let typed = changes.map(|change| format!("--set {}={}", change.field, change.value));
        vec![
            format!("  {}", typed.collect::<Vec<_>>().join(" ")),
            format!("{}; needs {}", fix.message, bytes(fix.needed_bytes)),
        ]
    };
    table(&fixes.iter().map(row).collect::<Vec<_>>())
}

/// What a trial said, as comments below the plan.
pub(super) fn forecast(forecast: &Forecast, resolved: &AnyResolved) -> String {
    let steps = format!("measured, {} trial steps", forecast.steps_tried);
    let tried = match forecast.whole {
        true => steps,
        false => format!("{steps} of a smaller batch, since this one would not fit"),
    };
    let evaluation = match forecast.evaluation_seconds {
        seconds if seconds > 0.0 => {
            format!(
                ", {} of it evaluations, samples and saves",
                duration(seconds)
            )
        }
        _ => String::new(),
    };
    let mut rows = vec![
        (
            "time",
            format!("{}{evaluation}", duration(forecast.seconds)),
        ),
        ("a step", format!("{:.0} ms", forecast.step_millis)),
    ];
    // Steps that follow no gradients have no passes.
    if forecast.millis_per_unit > 0.0 {
        rows.push((
            "a pass",
            format!(
                "{:.1} ms, and {:.3} ms for each of the {}",
                forecast.fixed_millis,
                forecast.millis_per_unit,
                resolved.plan.task.unit()
            ),
        ));
    }
    rows.push(("opening", duration(forecast.opening_seconds)));
    if let Some(peak) = forecast.peak_bytes {
        let free = resolved.fit.as_ref().map(|fit| fit.free_bytes);
        let free = free.map_or(String::new(), |free| format!(" of {} free", bytes(free)));
        let estimated = resolved.estimate.as_ref().map(Estimate::bytes);
        let estimated = estimated.map_or(String::new(), |it| format!("; estimated {}", bytes(it)));
        rows.push((
            "memory",
            format!("{} at most{free}{estimated}", bytes(peak)),
        ));
    }
    if let Some((fixed, unit)) = forecast.fixed_bytes.zip(forecast.bytes_per_unit) {
        let each = count(unit as u64);
        let units = resolved.plan.task.unit();
        rows.push((
            "",
            format!(
                "{} fixed, and {each} bytes for each of the {units}",
                bytes(fixed)
            ),
        ));
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, words)| vec![format!("#   {name}"), words])
        .collect();
    format!(
        "#\n# {}\n{}\n",
        style(tried).bold(),
        table(&rows).join("\n")
    )
}
