//! A language model, written for other programs.

use std::path::Path;

use models::{
    figures::{count, counted},
    tasks::{
        TaskPlan,
        language::export::{Compared, Exporter, Format, Offer, Sample, Stage},
    },
};

use super::{How, Offered, Written, told};
use crate::{
    store::runs::Run,
    wire::error::{AppError, Result},
};

/// Every format, with its size and what is lost.
pub(super) fn offers(folder: &Path, called: &str) -> Result<Vec<Offered>> {
    let offer = |offer: Offer| {
        let about = offer.format.about();
        Offered {
            name: about.name,
            title: about.title,
            ending: about.ending,
            bytes: offer.bytes,
            readers: about.readers,
            losses: offer.losses,
            refused: offer.refused,
            uncomparable: offer.uncomparable,
        }
    };
    let offers = Exporter::open(folder, called)?.offers();
    Ok(offers.into_iter().map(offer).collect())
}

/// Writes a model, and compares it with what was trained on held-out rows of its run, where those are still there, unless that is not
/// wanted.
pub(super) fn export(
    folder: &Path,
    called: &str,
    run: Option<&Run>,
    format: Format,
    out: &Path,
    how: How,
    stage: &mut dyn FnMut(Stage) -> models::Result<()>,
) -> Result<Written> {
    let mut exporter = Exporter::open(folder, called)?;
    let losses = exporter.losses_of(format)?;
    if !losses.is_empty() && !how.force {
        return Err(AppError::invalid(losses.join(" ").trim_end_matches('.'))
            .unless_forced()
            .with_hint("with --force it is written anyway"));
    }
    let sample = match how.compares {
        true => Some(sample(&exporter, run, folder)?),
        false => None,
    };
    let exported = exporter.export(format, out, sample.as_ref(), stage)?;
    let details = told(&exported)?;
    Ok(Written {
        path: exported.path,
        bytes: exported.bytes,
        readers: format.about().readers,
        compared: exported
            .compared
            .as_ref()
            .map_or_else(|| NOT_COMPARED.to_owned(), sentence),
        notes: exported.notes,
        details,
    })
}

/// What is said of an export that nobody compared.
const NOT_COMPARED: &str = "not compared with what was trained";

/// What an export is compared on: held-out rows of a run, or else texts that come with the program.
fn sample(exporter: &Exporter, run: Option<&Run>, folder: &Path) -> Result<Sample> {
    let held_out = run.map(|run| held_out(run, folder)).transpose()?.flatten();
    match held_out {
        Some(sample) => Ok(sample),
        None => Ok(Sample::texts(exporter.tokenizer())?),
    }
}

/// Held-out rows of a run. Nothing where its data is gone, or is other data now.
fn held_out(run: &Run, folder: &Path) -> Result<Option<Sample>> {
    let plan = run.plan()?;
    let TaskPlan::Language(task) = &plan.task else {
        return Ok(None);
    };
    Ok(Sample::held_out(task, &plan.run, folder).unwrap_or_default())
}

fn sentence(compared: &Compared) -> String {
    let Compared {
        what,
        tokens,
        same_next_token,
        divergence,
        loss_before,
        loss_after,
        tokenized_alike,
        ..
    } = compared;
    let alike = tokenized_alike.map_or_else(String::new, |texts| {
        format!(", {} tokenized alike", counted(texts as u64, "text"))
    });
    format!(
        "compared on {} tokens of {what}: same next token {:.1} %, loss {loss_before:.3} -> {loss_after:.3}, divergence {divergence:.4} \
         nats{alike}",
        count(*tokens as u64),
        100.0 * same_next_token
    )
}
