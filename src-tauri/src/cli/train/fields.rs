//! `anneal train --fields`: everything a run file can say.

use console::style;
use models::tasks;

use crate::{
    cli::{
        Ended,
        terminal::{Terminal, table},
    },
    wire::error::Result,
};

/// Lists the fields by group: each with its label and the values it may have, and what it does in a line below.
pub(super) fn show(terminal: &Terminal) -> Result<Ended> {
    let fields = tasks::fields::fields();
    if terminal.json {
        terminal.json(&fields)?;
        return Ok(Ended::Done);
    }
    let row = |field: &models::train::fields::Field| {
        let name = style(field.name).bold().to_string();
        vec![format!("  {name}"), field.label.to_owned(), field.values()]
    };
    let rows: Vec<Vec<String>> = fields.iter().map(row).collect();
    let mut group = "";
    for (field, line) in fields.iter().zip(table(&rows)) {
        if field.group != group {
            if !group.is_empty() {
                terminal.line("");
            }
            group = field.group;
            terminal.line(style(group).cyan().bold());
        }
        terminal.line(line);
        terminal.line(format_args!("      {}", style(field.described()).dim()));
    }
    Ok(Ended::Done)
}
