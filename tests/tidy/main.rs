//! The rules of this house that a program can check. A message says which rule, where, and why there is one.
//!
//! Each rule is a function from the tree of files to what it found wrong. Beside it are the tests that it finds a
//! violation; here are the tests that the repository has none. What is exempt, and why, is in `exempt.rs`.

mod budget;
mod circles;
mod direction;
mod docs;
mod exempt;
mod kinds;
mod layout;
mod manifest;
mod module;
mod rust;
mod tree;
mod words;

use std::path::Path;

use tree::{Tree, Violation};

#[test]
fn files_and_functions_are_short_enough_to_read() {
    check(|tree| budget::violations(tree, exempt::LONG));
}

#[test]
fn the_top_level_is_short_and_files_are_small() {
    check(layout::violations);
}

#[test]
fn names_say_what_is_inside() {
    check(layout::empty_names);
}

#[test]
fn dependencies_are_pinned_and_allowed() {
    check(manifest::violations);
}

#[test]
fn modules_are_documented_and_compiled() {
    check(module::violations);
}

#[test]
fn comments_say_more_than_the_name() {
    check(docs::violations);
}

#[test]
fn modules_know_only_what_they_may() {
    check(direction::violations);
}

#[test]
fn the_map_is_true() {
    check(direction::map_violations);
}

#[test]
fn the_ground_is_in_no_circle_of_imports() {
    check(circles::violations);
}

#[test]
fn what_is_for_every_kind_of_learning_knows_the_words_of_none() {
    check(kinds::violations);
}

#[test]
fn text_speaks_of_the_project_only() {
    check(words::violations);
}

/// Runs one rule on the repository.
#[track_caller]
fn check(rule: impl Fn(&Tree) -> Vec<Violation>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => unreachable!("the repository can't be read: {error}"),
    };
    let messages: Vec<String> = rule(&tree).iter().map(ToString::to_string).collect();
    assert!(messages.is_empty(), "\n\n{}\n", messages.join("\n\n"));
}
