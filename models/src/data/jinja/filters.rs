//! The filters and tests of a template: the engine's own, and those that Python does otherwise, each with what it costs.

use minijinja::{
    Environment, Error, State, Value, filters as theirs, tests,
    value::{Rest, ValueKind},
};

use super::{
    budget::Cost::{self, Picks, Reads, Sorts, Walks},
    methods, python,
};

/// A name, what it costs, and the function.
type Costed = (&'static str, Cost, Value);

/// Gives the engine filters and tests. There are no others.
pub(super) fn register(environment: &mut Environment<'static>) {
    for (name, cost, original) in filters() {
        environment.add_filter(name, move |state: &State, args: Rest<Value>| {
            cost.spend(state, &args)?;
            cost.made(state, original.call(state, &args)?)
        });
    }
    for (name, cost, original) in type_tests().into_iter().chain(other_tests()) {
        environment.add_test(name, move |state: &State, args: Rest<Value>| {
            cost.spend(state, &args)?;
            Ok::<_, Error>(original.call(state, &args)?.is_true())
        });
    }
}

fn filters() -> Vec<Costed> {
    vec![
        ("default", Picks, Value::from_function(theirs::default)),
        ("d", Picks, Value::from_function(theirs::default)),
        ("first", Picks, Value::from_function(theirs::first)),
        ("last", Picks, Value::from_function(theirs::last)),
        ("attr", Picks, Value::from_function(theirs::attr)),
        ("length", Picks, Value::from_function(theirs::length)),
        ("count", Picks, Value::from_function(theirs::length)),
        ("abs", Picks, Value::from_function(theirs::abs)),
        ("round", Picks, Value::from_function(theirs::round)),
        ("bool", Picks, Value::from_function(theirs::bool)),
        ("int", Reads, Value::from_function(theirs::int)),
        ("float", Reads, Value::from_function(theirs::float)),
        ("safe", Reads, Value::from_function(theirs::safe)),
        ("escape", Reads, Value::from_function(theirs::escape)),
        ("e", Reads, Value::from_function(theirs::escape)),
        ("lower", Reads, Value::from_function(theirs::lower)),
        ("upper", Reads, Value::from_function(theirs::upper)),
        ("title", Reads, Value::from_function(theirs::title)),
        (
            "capitalize",
            Reads,
            Value::from_function(theirs::capitalize),
        ),
        ("trim", Reads, Value::from_function(methods::trim)),
        ("indent", Reads, Value::from_function(methods::indent)),
        ("join", Sorts, Value::from_function(methods::join)),
        ("replace", Reads, Value::from_function(methods::replace)),
        ("string", Reads, Value::from_function(python::text)),
        ("pprint", Reads, Value::from_function(theirs::pprint)),
        ("tojson", Reads, Value::from_function(python::to_json)),
        ("format", Reads, Value::from_function(methods::format)),
        ("split", Reads, Value::from_function(methods::split_at)),
        ("lines", Reads, Value::from_function(methods::split_lines)),
        ("list", Walks, Value::from_function(methods::list)),
        ("batch", Walks, Value::from_function(methods::batch)),
        ("slice", Walks, Value::from_function(methods::slice)),
        ("reverse", Walks, Value::from_function(theirs::reverse)),
        ("items", Walks, Value::from_function(theirs::items)),
        ("map", Walks, Value::from_function(theirs::map)),
        ("select", Walks, Value::from_function(theirs::select)),
        ("reject", Walks, Value::from_function(theirs::reject)),
        (
            "selectattr",
            Walks,
            Value::from_function(theirs::selectattr),
        ),
        (
            "rejectattr",
            Walks,
            Value::from_function(theirs::rejectattr),
        ),
        ("zip", Walks, Value::from_function(theirs::zip)),
        ("chain", Walks, Value::from_function(theirs::chain)),
        ("sort", Sorts, Value::from_function(theirs::sort)),
        ("unique", Sorts, Value::from_function(theirs::unique)),
        ("groupby", Sorts, Value::from_function(theirs::groupby)),
        ("dictsort", Sorts, Value::from_function(theirs::dictsort)),
        ("sum", Sorts, Value::from_function(theirs::sum)),
        ("min", Sorts, Value::from_function(theirs::min)),
        ("max", Sorts, Value::from_function(theirs::max)),
    ]
}

/// Tests of what a value is.
fn type_tests() -> Vec<Costed> {
    vec![
        (
            "undefined",
            Picks,
            Value::from_function(tests::is_undefined),
        ),
        ("defined", Picks, Value::from_function(tests::is_defined)),
        ("none", Picks, Value::from_function(tests::is_none)),
        ("safe", Picks, Value::from_function(tests::is_safe)),
        ("escaped", Picks, Value::from_function(tests::is_safe)),
        ("boolean", Picks, Value::from_function(tests::is_boolean)),
        ("number", Picks, Value::from_function(tests::is_number)),
        ("integer", Picks, Value::from_function(tests::is_integer)),
        ("int", Picks, Value::from_function(tests::is_integer)),
        ("float", Picks, Value::from_function(tests::is_float)),
        ("string", Picks, Value::from_function(tests::is_string)),
        ("sequence", Picks, Value::from_function(is_sequence)),
        ("iterable", Picks, Value::from_function(is_iterable)),
        ("mapping", Picks, Value::from_function(tests::is_mapping)),
        ("callable", Picks, Value::from_function(|_: &Value| false)),
        ("true", Picks, Value::from_function(tests::is_true)),
        ("false", Picks, Value::from_function(tests::is_false)),
        ("odd", Picks, Value::from_function(tests::is_odd)),
        ("even", Picks, Value::from_function(tests::is_even)),
        (
            "divisibleby",
            Picks,
            Value::from_function(tests::is_divisibleby),
        ),
        ("sameas", Picks, Value::from_function(tests::is_sameas)),
        ("filter", Picks, Value::from_function(tests::is_filter)),
        ("test", Picks, Value::from_function(tests::is_test)),
    ]
}

/// Tests that read.
fn other_tests() -> Vec<Costed> {
    vec![
        (
            "startingwith",
            Reads,
            Value::from_function(tests::is_startingwith),
        ),
        (
            "endingwith",
            Reads,
            Value::from_function(tests::is_endingwith),
        ),
        ("lower", Reads, Value::from_function(tests::is_lower)),
        ("upper", Reads, Value::from_function(tests::is_upper)),
        ("in", Reads, Value::from_function(tests::is_in)),
        ("eq", Reads, Value::from_function(tests::is_eq)),
        ("equalto", Reads, Value::from_function(tests::is_eq)),
        ("==", Reads, Value::from_function(tests::is_eq)),
        ("ne", Reads, Value::from_function(tests::is_ne)),
        ("!=", Reads, Value::from_function(tests::is_ne)),
        ("lt", Reads, Value::from_function(tests::is_lt)),
        ("lessthan", Reads, Value::from_function(tests::is_lt)),
        ("<", Reads, Value::from_function(tests::is_lt)),
        ("le", Reads, Value::from_function(tests::is_le)),
        ("<=", Reads, Value::from_function(tests::is_le)),
        ("gt", Reads, Value::from_function(tests::is_gt)),
        ("greaterthan", Reads, Value::from_function(tests::is_gt)),
        (">", Reads, Value::from_function(tests::is_gt)),
        ("ge", Reads, Value::from_function(tests::is_ge)),
        (">=", Reads, Value::from_function(tests::is_ge)),
    ]
}

fn is_sequence(value: &Value) -> bool {
    let kinds = [ValueKind::Seq, ValueKind::Iterable, ValueKind::Map];
    value.as_str().is_some() || kinds.contains(&value.kind())
}

fn is_iterable(value: &Value) -> bool {
    value.as_str().is_some() || (!value.is_none() && value.try_iter().is_ok())
}
