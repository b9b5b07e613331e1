//! All fields of a run file, in the groups in which they are shown: those of every run, and those of each kind of
//! learning.

use crate::train::fields::{self, Field};

/// All fields, group by group. What only a kind of learning has comes first; in a group, it comes last.
pub fn fields() -> Vec<Field> {
    let of_kinds = || super::FIELDS.iter().copied().flatten();
    let is_shared = |group| fields::FIELDS.iter().any(|field| field.group == group);
    let own = of_kinds().filter(|field| !is_shared(field.group));
    let mut groups: Vec<&str> = Vec::new();
    for field in own.chain(fields::FIELDS) {
        if !groups.contains(&field.group) {
            groups.push(field.group);
        }
    }
    let all = || fields::FIELDS.iter().chain(of_kinds());
    let of_group = |group| all().filter(move |field| field.group == group).copied();
    groups.into_iter().flat_map(of_group).collect()
}

/// The page of the guide.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Fields of a run file\n\n\
         <!-- Generated from models/src/train/fields.rs and from fields.rs of each kind in models/src/tasks. Edit those. -->\n\n\
         Every field can be left out: `anneal train --plan` shows what is chosen then, and why. `--set lora.rank=16` sets \
         one field for one run. `anneal train --fields` prints this list.\n",
    );
    let mut group = "";
    for field in fields() {
        if field.group != group {
            group = field.group;
            page += &format!(
                "\n## {group}\n\n| field | name | value | what it does |\n|---|---|---|---|\n"
            );
        }
        page += &format!(
            "| `{}` | {} | {} | {} |\n",
            field.name,
            field.label,
            field.values(),
            field.described()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, env, fs, path::Path};

    use super::*;

    #[test]
    fn the_guide_shows_the_fields_as_they_are() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/fields.md");
        if env::var_os("ANNEAL_WRITE_DOCS").is_some() {
            fs::write(&path, markdown()).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == markdown(),
            "docs/guide/fields.md is not what the table says; set ANNEAL_WRITE_DOCS=1 and run this test again"
        );
    }

    #[test]
    fn each_field_stands_once_and_each_group_in_one_piece() {
        let fields = fields();
        let names: BTreeSet<&str> = fields.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), fields.len());
        let mut groups: Vec<&str> = fields.iter().map(|field| field.group).collect();
        groups.dedup();
        let once: BTreeSet<&str> = groups.iter().copied().collect();
        assert_eq!(once.len(), groups.len(), "{groups:?}");
    }

    #[test]
    fn what_a_person_reads_is_a_label_and_sentences() {
        for field in fields() {
            let Field {
                name, label, help, ..
            } = field;
            assert!(label.starts_with(char::is_uppercase), "{name}");
            assert!(help.ends_with('.') && !help.contains('`'), "{name}");
            assert!(!label.contains('\'') && !help.contains('\''), "{name}");
        }
    }
}
