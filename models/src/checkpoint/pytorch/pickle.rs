//! The list of tensors in a file of PyTorch: a program for a small machine, of which only what lists tensors is understood, and nothing
//! is ever called.
//!
//! Values stand in one list and refer to each other by number, so a value that contains itself or is nested very deeply costs no
//! more than its bytes. A name that has no place in weights is refused, as is every instruction that `torch.save` doesn't write.

use std::collections::BTreeMap;

/// The names that weights are written with.
const ORDERED_DICT: &str = "collections.OrderedDict";
const REBUILD: &str = "torch._utils._rebuild_tensor_v2";
const REBUILD_PARAMETER: &str = "torch._utils._rebuild_parameter";

/// What numbers of numpy are written with, as they stand beside weights. What they make is nothing that is looked at.
const NUMPY: [&str; 4] = [
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
    "_codecs.encode",
];

/// The kinds of numbers that a storage can hold, by their names there.
const STORAGES: [(&str, &str); 10] = [
    ("torch.FloatStorage", "f32"),
    ("torch.BFloat16Storage", "bf16"),
    ("torch.HalfStorage", "f16"),
    ("torch.DoubleStorage", "f64"),
    ("torch.LongStorage", "i64"),
    ("torch.IntStorage", "i32"),
    ("torch.ShortStorage", "i16"),
    ("torch.CharStorage", "i8"),
    ("torch.ByteStorage", "u8"),
    ("torch.BoolStorage", "bool"),
];

/// A tensor of the list: where its numbers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// The file inside the file.
    pub(super) storage: String,
    /// The kind of its numbers: `f32`.
    pub(super) kind: &'static str,
    /// How many numbers come before it.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
}

/// A value, by its number.
type Id = usize;

#[derive(Debug, Clone)]
enum Node {
    Nothing,
    Flag,
    Whole(i64),
    Text(String),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(String),
    Storage { kind: &'static str, key: String },
    Tensor(Listed),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: BTreeMap<u64, Id>,
}

type Result<T> = std::result::Result<T, String>;

/// What a list holds: a dictionary of tensors, or one in which such a dictionary is among other things.
pub(super) struct Contents {
    nodes: Vec<Node>,
    whole: Id,
}

impl Contents {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut machine = Machine {
            bytes,
            at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: BTreeMap::new(),
        };
        let whole = machine.run()?;
        let nodes = machine.nodes;
        Ok(Self { nodes, whole })
    }

    /// The tensors of the dictionary that these names lead to, by name; without names, of all of it.
    pub(super) fn tensors(&self, names: &[&str]) -> Result<BTreeMap<String, Listed>> {
        let found = self.find(names).map(|it| &self.nodes[it]);
        let Some(Node::Dict(entries)) = found else {
            return Err(match names {
                [] => "holds no dictionary of tensors".to_owned(),
                names => format!("holds no dictionary of tensors `{}`", names.join(".")),
            });
        };
        let mut tensors = BTreeMap::new();
        for (key, value) in entries {
            let Node::Text(name) = &self.nodes[*key] else {
                return Err("holds a dictionary whose keys are no names".to_owned());
            };
            let Node::Tensor(tensor) = &self.nodes[*value] else {
                return Err(format!(
                    "holds {name}, which is no tensor: it is more than weights"
                ));
            };
            tensors.insert(name.clone(), tensor.clone());
        }
        Ok(tensors)
    }

    /// The text that these names lead to.
    pub(super) fn text(&self, names: &[&str]) -> Option<&str> {
        match &self.nodes[self.find(names)?] {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What these names lead to, each in the dictionary of the one before it. Of equal names the last counts.
    fn find(&self, names: &[&str]) -> Option<Id> {
        let is_called =
            |key: Id, name: &str| matches!(&self.nodes[key], Node::Text(it) if it == name);
        names
            .iter()
            .try_fold(self.whole, |at, name| match &self.nodes[at] {
                Node::Dict(entries) => {
                    let mut entries = entries.iter().rev();
                    entries
                        .find(|(key, _)| is_called(*key, name))
                        .map(|it| it.1)
                }
                _ => None,
            })
    }
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id> {
        loop {
            let code = self.byte()?;
            match code {
                b'.' => return self.pop(),
                0x80 => drop(self.byte()?),
                0x95 => drop(self.take(8)?),
                b'(' => self.marks.push(self.stack.len()),
                b'0' => drop(self.pop()?),
                b'N' => self.push(Node::Nothing),
                0x88 | 0x89 => self.push(Node::Flag),
                b'G' => {
                    self.take(8)?;
                    self.push(Node::Nothing);
                }
                b'K' | b'M' | b'J' | 0x8a => self.whole(code)?,
                b'X' | 0x8c => self.text(code)?,
                b')' => self.push(Node::Tuple(Vec::new())),
                b']' => self.push(Node::List(Vec::new())),
                b'}' => self.push(Node::Dict(Vec::new())),
                b't' | 0x85..=0x87 => self.tuple(code)?,
                b'a' | b'e' => self.append(code)?,
                b's' | b'u' => self.set(code)?,
                b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(code)?,
                b'c' | 0x93 => self.global(code)?,
                b'Q' => self.storage()?,
                b'R' => self.call()?,
                // What is set on an object changes no weight: the versions of modules.
                b'b' => drop(self.pop()?),
                other => {
                    return Err(format!(
                        "has the instruction {other:#04x}, which lists no tensors"
                    ));
                }
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("ends in the middle of its list of tensors")?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes, the lowest first, without a sign.
    fn count(&mut self, bytes: usize) -> Result<u64> {
        let taken = self.take(bytes)?.iter().rev();
        Ok(taken.fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.stack.push(self.nodes.len() - 1);
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

    fn whole(&mut self, code: u8) -> Result<()> {
        let number = match code {
            b'K' => self.count(1)? as i64,
            b'M' => self.count(2)? as i64,
            b'J' => i64::from(self.count(4)? as u32 as i32),
            _ => {
                let bytes = usize::from(self.byte()?);
                if bytes > 8 {
                    return Err("has a number of more than 64 bits".to_owned());
                }
                let number = self.count(bytes)?;
                let unused = 64 - 8 * bytes.max(1) as u32;
                if bytes == 0 {
                    0
                } else {
                    ((number << unused) as i64) >> unused
                }
            }
        };
        self.push(Node::Whole(number));
        Ok(())
    }

    fn text(&mut self, code: u8) -> Result<()> {
        let length = self.count(if code == b'X' { 4 } else { 1 })?;
        let length = usize::try_from(length).map_err(|error| error.to_string())?;
        let text = String::from_utf8(self.take(length)?.to_vec());
        let text = text.map_err(|_| "has a name that is not UTF-8".to_owned())?;
        self.push(Node::Text(text));
        Ok(())
    }

    fn tuple(&mut self, code: u8) -> Result<()> {
        let values = match code {
            b't' => self.since_mark()?,
            _ => {
                let mut values = Vec::new();
                for _ in 0x84..code {
                    values.push(self.pop()?);
                }
                values.reverse();
                values
            }
        };
        self.push(Node::Tuple(values));
        Ok(())
    }

    fn append(&mut self, code: u8) -> Result<()> {
        let values = if code == b'a' {
            vec![self.pop()?]
        } else {
            self.since_mark()?
        };
        match self.top()? {
            Node::List(list) => list.extend(values),
            _ => return Err("appends to what is no list".to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, code: u8) -> Result<()> {
        let values = if code == b's' {
            let value = self.pop()?;
            vec![self.pop()?, value]
        } else {
            self.since_mark()?
        };
        let (pairs, rest) = values.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("has a key without a value".to_owned());
        }
        match self.top()? {
            Node::Dict(entries) => entries.extend(pairs.iter().map(|[key, value]| (*key, *value))),
            _ => return Err("sets a key of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn top(&mut self) -> Result<&mut Node> {
        let top = self
            .stack
            .last()
            .ok_or("changes a value that is not there")?;
        Ok(&mut self.nodes[*top])
    }

    fn remember(&mut self, code: u8) -> Result<()> {
        let place = match code {
            b'q' | b'h' => self.count(1)?,
            b'r' | b'j' => self.count(4)?,
            _ => self.memo.len() as u64,
        };
        if code == b'h' || code == b'j' {
            let id = *self
                .memo
                .get(&place)
                .ok_or("recalls what was not remembered")?;
            self.stack.push(id);
        } else {
            let id = *self.stack.last().ok_or("remembers what is not there")?;
            self.memo.insert(place, id);
        }
        Ok(())
    }

    fn global(&mut self, code: u8) -> Result<()> {
        let name = if code == b'c' {
            let (module, name) = (self.line()?, self.line()?);
            format!("{module}.{name}")
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            match (&self.nodes[module], &self.nodes[name]) {
                (Node::Text(module), Node::Text(name)) => format!("{module}.{name}"),
                _ => return Err("names something by what is no text".to_owned()),
            }
        };
        let is_known = [ORDERED_DICT, REBUILD, REBUILD_PARAMETER].contains(&name.as_str())
            || NUMPY.contains(&name.as_str())
            || STORAGES.iter().any(|(storage, _)| *storage == name);
        if !is_known {
            return Err(format!("names {name}, which is no part of weights"));
        }
        self.push(Node::Global(name));
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n');
        let length = length.ok_or("has a name without an end")?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    /// ("storage", kind, key, where it was, how many numbers).
    fn storage(&mut self) -> Result<()> {
        let id = self.pop()?;
        let fields = match &self.nodes[id] {
            Node::Tuple(fields) => fields.as_slice(),
            _ => &[],
        };
        let [_, kind, key, ..] = fields else {
            return Err("has a storage that is described by too little".to_owned());
        };
        let (Node::Global(kind), Node::Text(key)) = (&self.nodes[*kind], &self.nodes[*key]) else {
            return Err("has a storage without a kind and a name".to_owned());
        };
        let found = STORAGES.iter().find(|(name, _)| name == kind);
        let (_, kind) = found.ok_or_else(|| format!("has a storage of {kind}"))?;
        let storage = Node::Storage {
            kind,
            key: key.clone(),
        };
        self.push(storage);
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, called) = (self.pop()?, self.pop()?);
        let (Node::Global(name), Node::Tuple(arguments)) =
            (&self.nodes[called], &self.nodes[arguments])
        else {
            return Err("calls what has no name".to_owned());
        };
        let made = match (name.as_str(), arguments.as_slice()) {
            (ORDERED_DICT, []) => Node::Dict(Vec::new()),
            (REBUILD, [storage, offset, shape, strides, ..]) => {
                let Node::Storage { kind, key } = &self.nodes[*storage] else {
                    return Err("has a tensor without a storage".to_owned());
                };
                Node::Tensor(Listed {
                    storage: key.clone(),
                    kind,
                    offset: self.size(*offset)?,
                    shape: self.sizes(*shape)?,
                    strides: self.sizes(*strides)?,
                })
            }
            (REBUILD_PARAMETER, [tensor, ..]) => self.nodes[*tensor].clone(),
            (name, _) if NUMPY.contains(&name) => Node::Nothing,
            _ => return Err(format!("calls {name} with what it doesn’t take")),
        };
        self.push(made);
        Ok(())
    }

    fn size(&self, id: Id) -> Result<u64> {
        match self.nodes[id] {
            Node::Whole(size) => u64::try_from(size).map_err(|_| format!("has a size of {size}")),
            _ => Err("has a size that is no number".to_owned()),
        }
    }

    fn sizes(&self, id: Id) -> Result<Vec<u64>> {
        match &self.nodes[id] {
            Node::Tuple(sizes) if sizes.len() as u64 <= crate::limits::DIMENSIONS.most => {
                sizes.iter().map(|size| self.size(*size)).collect()
            }
            _ => Err("has a tensor whose shape is none".to_owned()),
        }
    }
}

/// The list of these tensors, each in a storage of its own: name, kind and shape. What [`Contents::read`] understands, as protocol 2.
pub(super) fn write(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.push(b'X');
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    let global = |bytes: &mut Vec<u8>, name: &str| {
        let (module, name) = name.rsplit_once('.').unwrap_or_default();
        bytes.extend(format!("c{module}\n{name}\n").bytes());
    };
    // As many bytes as it takes, with room for the sign.
    let whole = |bytes: &mut Vec<u8>, number: usize| {
        bytes.extend([0x8a, 8]);
        bytes.extend((number as u64).to_le_bytes());
    };
    global(&mut bytes, ORDERED_DICT);
    bytes.extend(b")R(");
    for (index, (name, kind, shape)) in tensors.iter().enumerate() {
        let storage = STORAGES.iter().find(|(_, known)| known == kind);
        text(&mut bytes, name);
        global(&mut bytes, REBUILD);
        bytes.extend(b"((");
        text(&mut bytes, "storage");
        global(&mut bytes, storage.map_or("torch.FloatStorage", |it| it.0));
        text(&mut bytes, &index.to_string());
        text(&mut bytes, "cpu");
        whole(&mut bytes, shape.iter().product());
        bytes.extend(b"tQ");
        whole(&mut bytes, 0);
        bytes.push(b'(');
        shape.iter().for_each(|size| whole(&mut bytes, *size));
        bytes.extend(b"t(");
        for axis in 0..shape.len() {
            whole(&mut bytes, shape[axis + 1..].iter().product());
        }
        bytes.extend(b"t\x89");
        global(&mut bytes, ORDERED_DICT);
        bytes.extend(b")RtR");
    }
    bytes.extend(b"u.");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = write(&[("a.weight", "f32", &[2, 3]), ("b", "bf16", &[])]);
        let read = Contents::read(&bytes).unwrap().tensors(&[]).unwrap();
        let tensor = &read["a.weight"];
        assert_eq!((tensor.kind, tensor.storage.as_str()), ("f32", "0"));
        assert_eq!(
            (&tensor.shape[..], &tensor.strides[..]),
            (&[2, 3][..], &[3, 1][..])
        );
        assert_eq!((read["b"].kind, read["b"].shape.len()), ("bf16", 0));
    }

    #[test]
    fn what_is_more_than_weights_is_refused() {
        let check = |bytes: &[u8], expected: &str| {
            let read = Contents::read(bytes).and_then(|it| it.tensors(&[]));
            let error = read.unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(
            b"cos\nsystem\n(X\x02\0\0\0lstR.",
            "names os.system, which is no part of weights",
        );
        check(
            b"\x80\x02}X\x01\0\0\0aK\x01s.",
            "holds a, which is no tensor",
        );
        check(b"\x80\x02K\x01.", "holds no dictionary");
        check(b"\x80\x02}", "ends in the middle");
        check(b"\x80\x02i", "has the instruction 0x69");
        check(b"t.", "ends a list that was not begun");
        check(b"(0.", "takes a value that is not there");
        // A list in itself costs nothing.
        check(b"]q\0h\0a.", "holds no dictionary");
    }
}
