//! The filters and tests of a template: the engine's own, and those that Python does otherwise, each with what it costs.

use minijinja::{
    Environment, Error, State, Value, filters as theirs, tests as their_tests, value::Rest,
};

use super::{
    budget::{
        Cost::{self, Picks, Reads, Sorts, Walks},
        has_items,
    },
    methods, python,
};

/// Names of one function, what it costs, and the function.
type Costed = (&'static [&'static str], Cost, Value);

/// Gives the engine filters and tests. There are no others.
pub(super) fn register(environment: &mut Environment<'static>) {
    for (names, cost, original) in filters() {
        for name in names {
            let original = original.clone();
            environment.add_filter(*name, move |state: &State, args: Rest<Value>| {
                cost.spend(state, &args)?;
                cost.made(state, original.call(state, &args)?)
            });
        }
    }
    for (names, cost, original) in tests() {
        for name in names {
            let original = original.clone();
            environment.add_test(*name, move |state: &State, args: Rest<Value>| {
                cost.spend(state, &args)?;
                Ok::<_, Error>(original.call(state, &args)?.is_true())
            });
        }
    }
}

#[rustfmt::skip]
fn filters() -> Vec<Costed> {
    vec![
        (&["default", "d"], Picks, Value::from_function(theirs::default)),
        (&["first"], Picks, Value::from_function(theirs::first)),
        (&["last"], Picks, Value::from_function(theirs::last)),
        (&["attr"], Picks, Value::from_function(theirs::attr)),
        (&["length", "count"], Picks, Value::from_function(theirs::length)),
        (&["abs"], Picks, Value::from_function(theirs::abs)),
        (&["round"], Picks, Value::from_function(theirs::round)),
        (&["bool"], Picks, Value::from_function(theirs::bool)),
        (&["int"], Reads, Value::from_function(theirs::int)),
        (&["float"], Reads, Value::from_function(theirs::float)),
        (&["safe"], Reads, Value::from_function(theirs::safe)),
        (&["escape", "e"], Reads, Value::from_function(theirs::escape)),
        (&["lower"], Reads, Value::from_function(theirs::lower)),
        (&["upper"], Reads, Value::from_function(theirs::upper)),
        (&["title"], Reads, Value::from_function(theirs::title)),
        (&["capitalize"], Reads, Value::from_function(theirs::capitalize)),
        (&["trim"], Reads, Value::from_function(methods::trim)),
        (&["indent"], Reads, Value::from_function(methods::indent)),
        (&["join"], Sorts, Value::from_function(methods::join)),
        (&["replace"], Reads, Value::from_function(methods::replace)),
        (&["string"], Reads, Value::from_function(python::text)),
        (&["pprint"], Reads, Value::from_function(theirs::pprint)),
        (&["tojson"], Reads, Value::from_function(python::to_json)),
        (&["format"], Reads, Value::from_function(methods::format)),
        (&["split"], Reads, Value::from_function(methods::split)),
        (&["lines"], Reads, Value::from_function(methods::split_lines)),
        (&["list"], Walks, Value::from_function(methods::list)),
        (&["batch"], Walks, Value::from_function(methods::batch)),
        (&["slice"], Walks, Value::from_function(methods::slice)),
        (&["reverse"], Walks, Value::from_function(theirs::reverse)),
        (&["items"], Walks, Value::from_function(theirs::items)),
        (&["map"], Walks, Value::from_function(theirs::map)),
        (&["select"], Walks, Value::from_function(theirs::select)),
        (&["reject"], Walks, Value::from_function(theirs::reject)),
        (&["selectattr"], Walks, Value::from_function(theirs::selectattr)),
        (&["rejectattr"], Walks, Value::from_function(theirs::rejectattr)),
        (&["zip"], Walks, Value::from_function(theirs::zip)),
        (&["chain"], Walks, Value::from_function(theirs::chain)),
        (&["sort"], Sorts, Value::from_function(theirs::sort)),
        (&["unique"], Sorts, Value::from_function(theirs::unique)),
        (&["groupby"], Sorts, Value::from_function(theirs::groupby)),
        (&["dictsort"], Sorts, Value::from_function(theirs::dictsort)),
        (&["sum"], Sorts, Value::from_function(theirs::sum)),
        (&["min"], Sorts, Value::from_function(theirs::min)),
        (&["max"], Sorts, Value::from_function(theirs::max)),
    ]
}

#[rustfmt::skip]
fn tests() -> Vec<Costed> {
    vec![
        (&["undefined"], Picks, Value::from_function(their_tests::is_undefined)),
        (&["defined"], Picks, Value::from_function(their_tests::is_defined)),
        (&["none"], Picks, Value::from_function(their_tests::is_none)),
        (&["safe", "escaped"], Picks, Value::from_function(their_tests::is_safe)),
        (&["boolean"], Picks, Value::from_function(their_tests::is_boolean)),
        (&["number"], Picks, Value::from_function(their_tests::is_number)),
        (&["integer", "int"], Picks, Value::from_function(their_tests::is_integer)),
        (&["float"], Picks, Value::from_function(their_tests::is_float)),
        (&["string"], Picks, Value::from_function(their_tests::is_string)),
        (&["sequence"], Picks, Value::from_function(is_sequence)),
        (&["iterable"], Picks, Value::from_function(is_iterable)),
        (&["mapping"], Picks, Value::from_function(their_tests::is_mapping)),
        (&["callable"], Picks, Value::from_function(|_: &Value| false)),
        (&["true"], Picks, Value::from_function(their_tests::is_true)),
        (&["false"], Picks, Value::from_function(their_tests::is_false)),
        (&["odd"], Picks, Value::from_function(their_tests::is_odd)),
        (&["even"], Picks, Value::from_function(their_tests::is_even)),
        (&["divisibleby"], Picks, Value::from_function(their_tests::is_divisibleby)),
        (&["sameas"], Picks, Value::from_function(their_tests::is_sameas)),
        (&["filter"], Picks, Value::from_function(their_tests::is_filter)),
        (&["test"], Picks, Value::from_function(their_tests::is_test)),
        (&["startingwith"], Reads, Value::from_function(their_tests::is_startingwith)),
        (&["endingwith"], Reads, Value::from_function(their_tests::is_endingwith)),
        (&["lower"], Reads, Value::from_function(their_tests::is_lower)),
        (&["upper"], Reads, Value::from_function(their_tests::is_upper)),
        (&["in"], Reads, Value::from_function(their_tests::is_in)),
        (&["eq", "equalto", "=="], Reads, Value::from_function(their_tests::is_eq)),
        (&["ne", "!="], Reads, Value::from_function(their_tests::is_ne)),
        (&["lt", "lessthan", "<"], Reads, Value::from_function(their_tests::is_lt)),
        (&["le", "<="], Reads, Value::from_function(their_tests::is_le)),
        (&["gt", "greaterthan", ">"], Reads, Value::from_function(their_tests::is_gt)),
        (&["ge", ">="], Reads, Value::from_function(their_tests::is_ge)),
    ]
}

fn is_sequence(value: &Value) -> bool {
    value.as_str().is_some() || has_items(value)
}

fn is_iterable(value: &Value) -> bool {
    value.as_str().is_some() || (!value.is_none() && value.try_iter().is_ok())
}
