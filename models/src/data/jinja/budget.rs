//! What one rendering may take.
//!
//! The engine counts instructions, and one instruction can double a text, compare two lists of a million items, or put a
//! list into a list ten thousand times. So all that a template makes, walks through and reads is counted here, in bytes,
//! and made lists know how deep they are.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Enumerator, Object, ObjectRepr, ValueKind},
};

use super::operators::Namespace;
use crate::limits;

/// The longest text, in bytes.
pub(super) const MAX_BYTES: usize = limits::RENDERED.most as usize;
/// The longest list.
pub(super) const MAX_ITEMS: usize = limits::RENDERED_LIST.most as usize;
/// The largest width or count that a filter takes.
pub(super) const MAX_WIDTH: usize = limits::RENDERED_WIDTH.most as usize;
/// How deep lists stand in lists.
pub(super) const MAX_DEPTH: usize = limits::RENDERED_DEPTH.most as usize;
/// What a rendering may make and read, in bytes.
const MAX_WORK: u64 = limits::RENDERED_WORK.most;
/// What an item of a list counts, and a text besides its bytes.
const ITEM: usize = 16;
/// What the reading of an item counts besides: the engine takes as long for it as for so many letters.
const READ_ITEM: usize = 64;

/// What a filter, a test or a method does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Gives one of the values, or something about one.
    Picks,
    /// Walks through a list, without reading what is in its items.
    Walks,
    /// Reads all of it.
    Reads,
    /// Walks through a list, reading its items.
    Sorts,
}

impl Cost {
    /// Counts what the arguments cost, and refuses those beyond all use before anything is made of them.
    pub(super) fn spend(self, state: &State, args: &[Value]) -> Result<(), Error> {
        for arg in args {
            match self {
                Self::Picks => drop(text_bytes(arg)?),
                Self::Walks => walk(state, arg)?,
                Self::Reads | Self::Sorts => read(state, arg)?,
            }
        }
        let walked = args.first().and_then(Value::as_str).map_or(0, str::len);
        match self {
            Self::Walks | Self::Sorts if walked > MAX_ITEMS => Err(too_many(walked)),
            _ => Ok(()),
        }
    }

    /// What was made: counted, and a list of its own rather than a promise of one.
    pub(super) fn made(self, state: &State, value: Value) -> Result<Value, Error> {
        if let Some(bytes) = text_bytes(&value)? {
            spend(state, bytes + ITEM)?;
        }
        match value.kind() {
            _ if self == Self::Picks => Ok(value),
            ValueKind::Seq | ValueKind::Iterable => List::made(state, value.try_iter()?),
            ValueKind::Map => keep(state, &value).map(|()| value),
            _ => Ok(value),
        }
    }
}

/// What a rendering has taken so far, in bytes.
#[derive(Debug, Default)]
struct Spent(AtomicU64);

impl Object for Spent {}

impl Spent {
    fn of(state: &State) -> Arc<Self> {
        state.get_or_set_temp_object("anneal.spent", Self::default)
    }

    fn add(&self, bytes: usize) -> Result<(), Error> {
        let bytes = bytes as u64;
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MAX_WORK {
            return Err(wrong(format!(
                "it makes or reads texts and lists of more than {} MiB, as if it repeated them for ever",
                MAX_WORK >> 20
            )));
        }
        Ok(())
    }
}

/// Counts `bytes`.
pub(super) fn spend(state: &State, bytes: usize) -> Result<(), Error> {
    Spent::of(state).add(bytes)
}

/// How many bytes a text has; an error when they are too many, none when the value is no text.
fn text_bytes(value: &Value) -> Result<Option<usize>, Error> {
    match value.as_str().map(str::len) {
        Some(bytes) if bytes > MAX_BYTES => Err(too_long()),
        bytes => Ok(bytes),
    }
}

/// Whether a value is a list or a dict.
pub(super) fn has_items(value: &Value) -> bool {
    let kinds = [ValueKind::Seq, ValueKind::Iterable, ValueKind::Map];
    kinds.contains(&value.kind())
}

/// How many items a list or a dict has, which is checked; none for others.
fn items(value: &Value) -> Result<Option<usize>, Error> {
    if !has_items(value) {
        return Ok(None);
    }
    match value.len().unwrap_or_default() {
        items if items > MAX_ITEMS => Err(too_many(items)),
        items => Ok(Some(items)),
    }
}

/// Counts a walk through a text or a list.
pub(super) fn walk(state: &State, value: &Value) -> Result<(), Error> {
    let bytes = match text_bytes(value)? {
        Some(bytes) => bytes,
        None => items(value)?.unwrap_or_default() * ITEM,
    };
    spend(state, bytes)
}

/// Counts the reading of a value with all that is in it.
pub(super) fn read(state: &State, value: &Value) -> Result<(), Error> {
    read_at(&Spent::of(state), value, 0)
}

fn read_at(spent: &Spent, value: &Value, depth: usize) -> Result<(), Error> {
    let besides = if depth > 0 { READ_ITEM } else { 0 };
    spent.add(text_bytes(value)?.unwrap_or_default() + besides)?;
    if items(value)?.is_none() {
        return Ok(());
    }
    let depth = deeper(depth)?;
    each_child(value, &mut |child| read_at(spent, child, depth))
}

/// How deep lists stand in a value: 0 for what is none. What can't be kept in a list is an error.
fn deep(spent: &Spent, value: &Value) -> Result<usize, Error> {
    if let Some(list) = value.downcast_object_ref::<List>() {
        return Ok(list.depth);
    }
    if is_engines(value) || value.downcast_object_ref::<Namespace>().is_some() {
        return Err(not_kept());
    }
    let Some(items) = items(value)? else {
        return Ok(0);
    };
    spent.add(items * ITEM)?;
    let mut most = 0;
    each_child(value, &mut |child| {
        most = most.max(deep(spent, child)?);
        Ok(())
    })?;
    deeper(most)
}

/// One more than `depth`.
fn deeper(depth: usize) -> Result<usize, Error> {
    match depth >= MAX_DEPTH {
        true => Err(too_deep()),
        false => Ok(depth + 1),
    }
}

/// Refuses what can't be kept: values that are too deep, and those that could stand in themselves.
pub(super) fn keep(state: &State, value: &Value) -> Result<(), Error> {
    deep(&Spent::of(state), value).map(drop)
}

/// Looks at the items of a list, or at the keys and values of a dict.
fn each_child(
    value: &Value,
    look: &mut dyn FnMut(&Value) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(list) = value.downcast_object_ref::<List>() {
        return list.items.iter().try_for_each(look);
    }
    for item in value.try_iter()? {
        look(&item)?;
        if value.kind() == ValueKind::Map {
            look(&value.get_item(&item)?)?;
        }
    }
    Ok(())
}

/// A list that a template made, which knows how deep it is.
#[derive(Debug)]
pub(super) struct List {
    items: Vec<Value>,
    /// 1 for a list of texts.
    depth: usize,
}

impl List {
    /// A list of these, counted.
    pub(super) fn made(
        state: &State,
        items: impl IntoIterator<Item = Value>,
    ) -> Result<Value, Error> {
        let spent = Spent::of(state);
        let mut kept = Vec::new();
        let mut depth = 0;
        for item in items {
            if kept.len() == MAX_ITEMS {
                return Err(too_many(MAX_ITEMS + 1));
            }
            depth = depth.max(deep(&spent, &item)?);
            spent.add(ITEM)?;
            kept.push(item);
        }
        Ok(Value::from_object(Self {
            items: kept,
            depth: deeper(depth)?,
        }))
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

pub(super) fn too_long() -> Error {
    wrong(format!("it makes a text of more than {MAX_BYTES} bytes"))
}

pub(super) fn too_many(items: usize) -> Error {
    wrong(format!("a list has {items} items, more than {MAX_ITEMS}"))
}

pub(super) fn too_deep() -> Error {
    wrong(format!("lists stand in lists more than {MAX_DEPTH} deep"))
}

fn not_kept() -> Error {
    wrong("a namespace, a loop or a macro can’t be kept in a list, a dict or a namespace")
}

/// Whether a value is a part of the engine: a loop or a macro, which hold values of their own.
fn is_engines(value: &Value) -> bool {
    let object = value.as_object();
    object.is_some_and(|it| it.repr() == ObjectRepr::Plain || it.type_name().contains("::vm::"))
}

/// What a template asks for and can't have.
pub(super) fn wrong(problem: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// A width or a count that a filter was given.
pub(super) fn width(width: usize) -> Result<usize, Error> {
    match width > MAX_WIDTH {
        true => Err(wrong(format!(
            "a width or count of {width} is more than {MAX_WIDTH}"
        ))),
        false => Ok(width),
    }
}
