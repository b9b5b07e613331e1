//! The operators of a template, as Python has them and within the budget: `program.rs` has the engine call these.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use minijinja::{
    Environment, Error, State, Value, functions,
    value::{Enumerator, Kwargs, Object, Rest, ValueKind},
};

use super::{
    budget::{self, List, MAX_BYTES, MAX_ITEMS, read, spend, too_long, too_many, walk, wrong},
    program::{
        ADD, CONCATENATE, EQUAL, ITEM, KEEP, LESS, LESS_OR_EQUAL, LIST, MAP, MORE, MORE_OR_EQUAL,
        MULTIPLY, ONE, READ, SET, SLICE, UNEQUAL, WALK,
    },
    python,
};

type Comparison = fn(&Value, &Value) -> bool;
type Count = fn(&State, &Value) -> Result<(), Error>;

/// Gives the engine the operators, and the functions that make something.
pub(super) fn register(environment: &mut Environment<'static>) {
    environment.add_filter(ADD, add);
    environment.add_filter(MULTIPLY, multiply);
    environment.add_filter(CONCATENATE, concatenate);
    environment.add_filter(ITEM, item);
    environment.add_filter(SLICE, slice);
    environment.add_filter(LIST, |state: &State, items: Rest<Value>| {
        List::made(state, items.0)
    });
    environment.add_filter(MAP, map);
    environment.add_filter(SET, set);
    let comparisons: [(&str, Comparison); 6] = [
        (EQUAL, |a, b| a == b),
        (UNEQUAL, |a, b| a != b),
        (LESS, |a, b| a < b),
        (LESS_OR_EQUAL, |a, b| a <= b),
        (MORE, |a, b| a > b),
        (MORE_OR_EQUAL, |a, b| a >= b),
    ];
    for (name, compare) in comparisons {
        environment.add_filter(name, move |state: &State, a: Value, b: Value| {
            read(state, &a)?;
            read(state, &b)?;
            Ok::<_, Error>(compare(&a, &b))
        });
    }
    let counts: [(&str, Count); 2] = [(WALK, walk), (READ, read)];
    for (name, count) in counts {
        environment.add_filter(name, move |state: &State, values: Rest<Value>| {
            values.iter().try_for_each(|it| count(state, it))?;
            Ok::<_, Error>(given_back(values.0))
        });
    }
    environment.add_filter(KEEP, |state: &State, values: Rest<Value>| {
        for value in values.iter().skip(1) {
            budget::keep(state, value)?;
            read(state, value)?;
        }
        Ok::<_, Error>(given_back(values.0))
    });
    environment.add_global(ONE, 1);
    environment.add_function("range", functions::range);
    environment.add_function("namespace", namespace);
    environment.add_function(
        "dict",
        |state: &State, given: Option<Value>, more: Kwargs| {
            let made = functions::dict(given, more)?;
            budget::keep(state, &made)?;
            Ok::<_, Error>(made)
        },
    );
}

/// The values again: one as it is, several as a list whose last item is the first.
fn given_back(mut values: Vec<Value>) -> Value {
    match values.len() {
        1 => values.remove(0),
        _ => {
            values.reverse();
            Value::from(values)
        }
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn add(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return joined(state, a, b);
    }
    if is_list(&a) && is_list(&b) {
        return List::made(state, a.try_iter()?.chain(b.try_iter()?));
    }
    calculated(&a, &b, "added", i128::checked_add, |a, b| a + b)
}

fn joined(state: &State, a: &str, b: &str) -> Result<Value, Error> {
    if a.len() + b.len() > MAX_BYTES {
        return Err(too_long());
    }
    spend(state, a.len() + b.len())?;
    Ok(Value::from([a, b].concat()))
}

/// `~`, which joins what `str` gives of both.
fn concatenate(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    read(state, &a)?;
    read(state, &b)?;
    joined(state, &python::text(&a)?, &python::text(&b)?)
}

fn multiply(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    let is_repeated = |value: &Value| value.as_str().is_some() || is_list(value);
    let (repeated, times) = match (is_repeated(&a), is_repeated(&b)) {
        (true, false) => (&a, &b),
        (false, true) => (&b, &a),
        _ => return calculated(&a, &b, "multiplied", i128::checked_mul, |a, b| a * b),
    };
    let times = match i64::try_from(times.clone()) {
        Ok(times) => usize::try_from(times).unwrap_or_default(),
        Err(_) => return Err(wrong_kinds(&a, &b, "multiplied")),
    };
    if let Some(text) = repeated.as_str() {
        let bytes = text.len().saturating_mul(times);
        if bytes > MAX_BYTES {
            return Err(too_long());
        }
        spend(state, bytes)?;
        return Ok(Value::from(text.repeat(times)));
    }
    let items: Vec<Value> = repeated.try_iter()?.take(MAX_ITEMS + 1).collect();
    let most = items.len().saturating_mul(times);
    if most > MAX_ITEMS {
        return Err(too_many(most));
    }
    List::made(state, items.iter().cycle().take(most).cloned())
}

/// A calculation of two numbers, whole if both are.
fn calculated(
    a: &Value,
    b: &Value,
    done: &str,
    whole: fn(i128, i128) -> Option<i128>,
    float: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let is_whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if is_whole(a) && is_whole(b) {
        let made = whole(i128::try_from(a.clone())?, i128::try_from(b.clone())?);
        let made = made.ok_or_else(|| wrong(format!("{a} and {b} can’t be {done}: too large")))?;
        return Ok(i64::try_from(made).map_or_else(|_| Value::from(made), Value::from));
    }
    let number = |value: &Value| match is_whole(value) {
        true => i128::try_from(value.clone()).map(|it| it as f64),
        false => f64::try_from(value.clone()),
    };
    match (a.kind(), number(a), b.kind(), number(b)) {
        (
            ValueKind::Number | ValueKind::Bool,
            Ok(a),
            ValueKind::Number | ValueKind::Bool,
            Ok(b),
        ) => Ok(Value::from(float(a, b))),
        _ => Err(wrong_kinds(a, b, done)),
    }
}

/// `value[key]`.
fn item(state: &State, value: Value, key: Value) -> Result<Value, Error> {
    read(state, &key)?;
    if value.as_str().is_some() {
        walk(state, &value)?;
    }
    value.get_item(&key)
}

/// `value[start:stop:step]`.
fn slice(
    state: &State,
    value: Value,
    start: Value,
    stop: Value,
    step: Value,
) -> Result<Value, Error> {
    let place = |place: Value| match place.is_none() {
        true => Ok(None),
        false => i64::try_from(place).map(Some),
    };
    let step = place(step)?.unwrap_or(1);
    if step == 0 {
        return Err(wrong("a slice can’t have a step of 0"));
    }
    let (start, stop) = (place(start)?, place(stop)?);
    walk(state, &value)?;
    if let Some(text) = value.as_str() {
        let letters = text.chars().count();
        let chosen = places(letters, start, stop, step);
        if step == 1 {
            let (skipped, taken) = (chosen.start as usize, chosen.count);
            return Ok(text
                .chars()
                .skip(skipped)
                .take(taken)
                .collect::<String>()
                .into());
        }
        spend(state, letters.saturating_mul(size_of::<char>()))?;
        let letters: Vec<char> = text.chars().collect();
        return Ok(chosen.map(|at| letters[at]).collect::<String>().into());
    }
    if value.is_none() || value.is_undefined() {
        return List::made(state, []);
    }
    if !is_list(&value) {
        return Err(wrong(format!("a {} can’t be sliced", value.kind())));
    }
    let items: Vec<Value> = value.try_iter()?.take(MAX_ITEMS + 1).collect();
    let chosen = places(items.len(), start, stop, step);
    List::made(state, chosen.map(|at| items[at].clone()))
}

/// The places that a slice takes of `length`, as Python counts them.
fn places(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Places {
    let length = length as i64;
    let (first, last) = match step > 0 {
        true => (0, length),
        false => (-1, length - 1),
    };
    let bounded = |place: i64| match place < 0 {
        true => place.saturating_add(length).max(first),
        false => place.min(last),
    };
    let start = start.map_or(if step > 0 { first } else { last }, bounded);
    let stop = stop.map_or(if step > 0 { last } else { first }, bounded);
    let span = if step > 0 { stop - start } else { start - stop };
    let step_size = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
    let count = match span > 0 {
        true => ((span - 1) / step_size + 1) as usize,
        false => 0,
    };
    Places { start, step, count }
}

/// Places in a text or a list, from `start` on.
struct Places {
    start: i64,
    step: i64,
    count: usize,
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let place = self.start;
        self.start = self.start.saturating_add(self.step);
        usize::try_from(place).ok()
    }
}

/// `{key: value, …}`.
fn map(state: &State, values: Rest<Value>) -> Result<Value, Error> {
    let pairs = values.chunks_exact(2);
    for pair in pairs.clone() {
        read(state, &pair[0])?;
    }
    spend(state, values.len() * size_of::<Value>())?;
    let made: Value = pairs.map(|it| (it[0].clone(), it[1].clone())).collect();
    budget::keep(state, &made)?;
    Ok(made)
}

/// What `namespace` gives: a dict whose values a template can set.
#[derive(Debug, Default)]
pub(super) struct Namespace(Mutex<BTreeMap<String, Value>>);

impl Namespace {
    fn values(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: &State, name: &str, value: Value) -> Result<(), Error> {
        budget::keep(state, &value)?;
        self.values().insert(name.to_owned(), value);
        Ok(())
    }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.values().get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self
            .values()
            .keys()
            .map(|it| Value::from(it.as_str()))
            .collect();
        Enumerator::Values(names)
    }
}

fn namespace(state: &State, given: Option<Value>) -> Result<Value, Error> {
    let made = Namespace::default();
    if let Some(given) = given.filter(|it| !it.is_undefined()) {
        if given.kind() != ValueKind::Map {
            let problem = format!(
                "`namespace` takes names with values, not a {}",
                given.kind()
            );
            return Err(wrong(problem));
        }
        for name in given.try_iter()? {
            let value = given.get_item(&name)?;
            made.set(state, name.as_str().unwrap_or_default(), value)?;
        }
    }
    Ok(Value::from_object(made))
}

/// `{% set namespace.name = value %}`.
fn set(state: &State, value: Value, namespace: Value, name: &str) -> Result<(), Error> {
    match namespace.downcast_object_ref::<Namespace>() {
        Some(namespace) => namespace.set(state, name, value),
        None => Err(wrong(format!(
            "only values of a namespace can be set, not those of a {}",
            namespace.kind()
        ))),
    }
}

fn wrong_kinds(a: &Value, b: &Value, done: &str) -> Error {
    wrong(format!("a {} and a {} can’t be {done}", a.kind(), b.kind()))
}
