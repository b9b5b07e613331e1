//! A batch of CIFAR as Python wrote it: a dictionary with an array of bytes and a list of numbers, or with names.
//!
//! A pickle is a program. Only the instructions that make dictionaries, lists, strings, numbers and NumPy arrays are run; nothing
//! is ever called, and every other name is refused. Values stand in one list and refer to each other by number, and bytes stay
//! where they are, so a value that contains itself or is nested very deeply costs no more than its bytes.
//!
//! Deliberately absent: weights, which `checkpoint::pytorch` reads by the same rule.

use std::{collections::HashMap, ops::Range};

use crate::limits;

/// Names that may be called, and what each makes.
const GLOBALS: [(&str, Global); 4] = [
    ("numpy.core.multiarray._reconstruct", Global::Reconstruct),
    ("numpy._core.multiarray._reconstruct", Global::Reconstruct),
    ("numpy.ndarray", Global::Array),
    ("numpy.dtype", Global::Dtype),
];
/// The most values.
const MAX_VALUES: usize = limits::PICTURE_VALUES.most as usize;

type Id = usize;
type Result<T> = std::result::Result<T, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Global {
    Reconstruct,
    Array,
    Dtype,
}

#[derive(Debug, Clone)]
enum Node {
    Nothing,
    Whole(i64),
    /// Text or bytes, by their place.
    Bytes(Range<usize>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    /// The kind of an array's numbers, by its name.
    Dtype(Id),
    /// An array, with its state once that was set.
    Array(Option<Id>),
}

/// What a file holds.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
    whole: Id,
}

/// An array of bytes.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    pub(super) shape: Vec<usize>,
    pub(super) bytes: &'a [u8],
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    pushed: usize,
}

impl<'a> Pickle<'a> {
    /// Reads a file. The error is the end of a sentence about it.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut machine = Machine {
            bytes,
            at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            pushed: 0,
        };
        let whole = machine.run()?;
        Ok(Self {
            bytes,
            nodes: machine.nodes,
            whole,
        })
    }

    /// What the dictionary has by the first of these names that it has.
    fn find(&self, names: &[&str]) -> Option<&Node> {
        let Node::Dict(entries) = &self.nodes[self.whole] else {
            return None;
        };
        let is_called = |key: Id, name: &str| match &self.nodes[key] {
            Node::Bytes(at) => &self.bytes[at.clone()] == name.as_bytes(),
            _ => false,
        };
        names.iter().find_map(|name| {
            let found = entries.iter().find(|(key, _)| is_called(*key, name));
            found.map(|(_, value)| &self.nodes[*value])
        })
    }

    fn missing(names: &[&str]) -> String {
        format!("has no `{}`", names.join("` or `"))
    }

    /// A list of numbers from 0 to 255.
    pub(super) fn numbers(&self, names: &[&str]) -> Result<Vec<u8>> {
        let Some(Node::List(list)) = self.find(names) else {
            return Err(Self::missing(names));
        };
        let number = |id: &Id| match self.nodes[*id] {
            Node::Whole(number) => u8::try_from(number)
                .map_err(|_| format!("has the label {number}, and labels are from 0 to 255")),
            _ => Err("has a label that is no number".to_owned()),
        };
        list.iter().map(number).collect()
    }

    /// A list of texts.
    pub(super) fn texts(&self, names: &[&str]) -> Result<Vec<String>> {
        let Some(Node::List(list)) = self.find(names) else {
            return Err(Self::missing(names));
        };
        let text = |id: &Id| match &self.nodes[*id] {
            Node::Bytes(at) => Ok(String::from_utf8_lossy(&self.bytes[at.clone()]).into_owned()),
            _ => Err("has a name that is no text".to_owned()),
        };
        list.iter().map(text).collect()
    }

    /// An array of bytes whose rows lie one behind the other.
    pub(super) fn array(&self, names: &[&str]) -> Result<Bytes<'a>> {
        let Some(Node::Array(Some(state))) = self.find(names) else {
            return Err(Self::missing(names));
        };
        let wrong = || "has an array that is none of bytes, row by row".to_owned();
        let Node::Tuple(state) = &self.nodes[*state] else {
            return Err(wrong());
        };
        // (version, shape, the kind of its numbers, whether columns come first, bytes)
        let [_, shape, kind, order, bytes] = state.as_slice() else {
            return Err(wrong());
        };
        let (Node::Tuple(shape), Node::Dtype(kind), Node::Whole(0), Node::Bytes(bytes)) = (
            &self.nodes[*shape],
            &self.nodes[*kind],
            &self.nodes[*order],
            &self.nodes[*bytes],
        ) else {
            return Err(wrong());
        };
        let is_of_bytes =
            matches!(&self.nodes[*kind], Node::Bytes(at) if &self.bytes[at.clone()] == b"u1");
        let size = |id: &Id| match self.nodes[*id] {
            Node::Whole(size) => usize::try_from(size).map_err(|_| wrong()),
            _ => Err(wrong()),
        };
        let shape: Vec<usize> = shape.iter().map(size).collect::<Result<_>>()?;
        let count = shape
            .iter()
            .try_fold(1_usize, |all, next| all.checked_mul(*next));
        if !is_of_bytes || count != Some(bytes.len()) {
            return Err(wrong());
        }
        Ok(Bytes {
            shape,
            bytes: &self.bytes[bytes.clone()],
        })
    }
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id> {
        loop {
            let code = self.count(1)? as u8;
            match code {
                b'.' => return self.pop(),
                0x80 => _ = self.take(1)?,
                0x95 => _ = self.take(8)?,
                b'(' => self.mark()?,
                b'N' => self.push(Node::Nothing)?,
                0x88 => self.push(Node::Whole(1))?,
                0x89 => self.push(Node::Whole(0))?,
                b'K' | b'M' | b'J' => self.whole(code)?,
                b'U' | b'C' | 0x8c => self.text(1)?,
                b'T' | b'B' | b'X' => self.text(4)?,
                b')' => self.push(Node::Tuple(Vec::new()))?,
                b']' => self.push(Node::List(Vec::new()))?,
                b'}' => self.push(Node::Dict(Vec::new()))?,
                b't' | 0x85..=0x87 => self.tuple(code)?,
                b'a' | b'e' => self.append(code)?,
                b's' | b'u' => self.set(code)?,
                b'q' | b'r' | 0x94 => self.remember(code)?,
                b'h' | b'j' => self.recall(code)?,
                b'c' | 0x93 => self.global(code)?,
                b'R' => self.call()?,
                b'b' => self.build()?,
                other => {
                    return Err(format!(
                        "has the instruction {other:#04x}, which no batch of pictures needs"
                    ));
                }
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<Range<usize>> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("ends in the middle: it was cut off")?;
        let taken = self.at..end;
        self.at = end;
        Ok(taken)
    }

    /// A number of so many bytes, the lowest first, without a sign.
    fn count(&mut self, bytes: usize) -> Result<u64> {
        let taken = self.take(bytes)?;
        let lowest_last = self.bytes[taken].iter().rev();
        Ok(lowest_last.fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }

    fn counted(&mut self) -> Result<()> {
        self.pushed += 1;
        match self.pushed > MAX_VALUES {
            true => Err(format!(
                "has more than {MAX_VALUES} values, and no batch of pictures has so many"
            )),
            false => Ok(()),
        }
    }

    fn push(&mut self, node: Node) -> Result<()> {
        self.counted()?;
        self.nodes.push(node);
        self.stack.push(self.nodes.len() - 1);
        Ok(())
    }

    fn mark(&mut self) -> Result<()> {
        self.counted()?;
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop(&mut self) -> Result<Id> {
        let least = self.marks.last().copied().unwrap_or(0);
        let id = self.stack.pop().filter(|_| self.stack.len() >= least);
        id.ok_or_else(|| "takes a value that is not there".to_owned())
    }

    fn since_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        let mark = mark.ok_or("ends a list that was not begun")?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&mut self) -> Result<&mut Node> {
        let top = self
            .stack
            .last()
            .ok_or("changes a value that is not there")?;
        Ok(&mut self.nodes[*top])
    }

    fn whole(&mut self, code: u8) -> Result<()> {
        let number = match code {
            b'K' => self.count(1)? as i64,
            b'M' => self.count(2)? as i64,
            _ => i64::from(self.count(4)? as u32 as i32),
        };
        self.push(Node::Whole(number))
    }

    fn text(&mut self, bytes: usize) -> Result<()> {
        let length = self.count(bytes)?;
        let length = usize::try_from(length).map_err(|error| error.to_string())?;
        let text = self.take(length)?;
        self.push(Node::Bytes(text))
    }

    fn tuple(&mut self, code: u8) -> Result<()> {
        let mut values = Vec::new();
        match code {
            b't' => values = self.since_mark()?,
            _ => {
                for _ in 0x84..code {
                    values.push(self.pop()?);
                }
                values.reverse();
            }
        }
        self.push(Node::Tuple(values))
    }

    fn append(&mut self, code: u8) -> Result<()> {
        let values = match code {
            b'a' => vec![self.pop()?],
            _ => self.since_mark()?,
        };
        match self.top()? {
            Node::List(list) => list.extend(values),
            _ => return Err("appends to what is no list".to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, code: u8) -> Result<()> {
        let values = match code {
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.since_mark()?,
        };
        let (pairs, rest) = values.as_chunks::<2>();
        match self.top()? {
            Node::Dict(entries) if rest.is_empty() => {
                entries.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            }
            _ => return Err("sets a key of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<()> {
        let place = match code {
            b'q' => self.count(1)?,
            b'r' => self.count(4)?,
            _ => self.memo.len() as u64,
        };
        let id = *self.stack.last().ok_or("remembers what is not there")?;
        self.memo.insert(place, id);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Result<()> {
        self.counted()?;
        let place = self.count(if code == b'h' { 1 } else { 4 })?;
        let id = self
            .memo
            .get(&place)
            .ok_or("recalls what was not remembered")?;
        self.stack.push(*id);
        Ok(())
    }

    fn global(&mut self, code: u8) -> Result<()> {
        let (module, name) = match code {
            b'c' => (self.line()?, self.line()?),
            _ => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.nodes[module], &self.nodes[name]) {
                    (Node::Bytes(module), Node::Bytes(name)) => (module.clone(), name.clone()),
                    _ => return Err("names something by what is no text".to_owned()),
                }
            }
        };
        let text = |at: Range<usize>| String::from_utf8_lossy(&self.bytes[at]);
        let name = format!("{}.{}", text(module), text(name));
        let found = GLOBALS.iter().find(|(it, _)| *it == name);
        let (_, global) = found.ok_or_else(|| {
            let shown: String = name.chars().take(100).collect();
            format!("names {shown}, which is no part of a batch of pictures")
        })?;
        self.push(Node::Global(*global))
    }

    fn line(&mut self) -> Result<Range<usize>> {
        let length = self.bytes[self.at..].iter().position(|byte| *byte == b'\n');
        let line = self.take(length.ok_or("has a name without an end")?)?;
        self.at += 1;
        Ok(line)
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, called) = (self.pop()?, self.pop()?);
        let made = match (&self.nodes[called], &self.nodes[arguments]) {
            (Node::Global(Global::Reconstruct), Node::Tuple(_)) => Node::Array(None),
            (Node::Global(Global::Dtype), Node::Tuple(arguments)) if !arguments.is_empty() => {
                Node::Dtype(arguments[0])
            }
            _ => return Err("calls what is no part of a batch of pictures".to_owned()),
        };
        self.push(made)
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        match self.top()? {
            Node::Array(known) => *known = Some(state),
            // How the numbers of a kind lie, of which bytes have one way.
            Node::Dtype(_) => {}
            _ => return Err("sets what is no array".to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_a_batch_is_refused() {
        let check = |bytes: &[u8], expected: &str| {
            let read = Pickle::read(bytes).and_then(|it| it.array(&["data"]).map(drop));
            let error = read.unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(
            b"cos\nsystem\n(U\x02lstR.",
            "names os.system, which is no part of a batch",
        );
        check(b"\x80\x02}U\x04dataK\x01s.", "has no `data`");
        check(b"\x80\x02}", "ends in the middle");
        check(b"\x80\x02i", "has the instruction 0x69");
        check(b"cnumpy\nndarray\n)R.", "calls what is no part");
        check(b"t.", "ends a list that was not begun");
        // A list in itself costs nothing.
        check(b"]q\0h\0a.", "has no `data`");
    }
}
