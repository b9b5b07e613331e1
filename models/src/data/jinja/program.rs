//! A template as the engine runs it, with the operators exchanged for ours.
//!
//! The engine's own operators know no limits, and there is no other way to get between it and them: its instructions are
//! read, and those that make, walk through or compare something call a filter instead. The names of these filters can't
//! be written in a template.

use std::{collections::BTreeMap, sync::Arc};

use minijinja::{
    AutoEscape, Environment, Error, Value,
    machinery::{
        CompiledTemplate, Instruction, Instructions, TemplateConfig, Token, Vm, WhitespaceConfig,
        make_string_output, tokenize,
    },
};
use self_cell::self_cell;

pub(super) const ADD: &str = "+";
pub(super) const MULTIPLY: &str = "*";
pub(super) const CONCATENATE: &str = "~";
pub(super) const EQUAL: &str = "a==b";
pub(super) const UNEQUAL: &str = "a!=b";
pub(super) const LESS: &str = "a<b";
pub(super) const LESS_OR_EQUAL: &str = "a<=b";
pub(super) const MORE: &str = "a>b";
pub(super) const MORE_OR_EQUAL: &str = "a>=b";
pub(super) const ITEM: &str = "a[b]";
pub(super) const SLICE: &str = "a[b:c:d]";
pub(super) const LIST: &str = "[a,b]";
pub(super) const MAP: &str = "{a:b}";
pub(super) const SET: &str = "a.b=c";
/// Counts a walk through the values on top of the stack, and leaves them there.
pub(super) const WALK: &str = "walk-through";
/// The same for all that is in them.
pub(super) const READ: &str = "read-through";
/// The same for those that a loop is to remember; it is the first itself.
pub(super) const KEEP: &str = "keep-in-loop";

/// A variable that is 1.
pub(super) const ONE: &str = "__one__";

/// How transformers reads a template.
const SPACE: WhitespaceConfig = WhitespaceConfig {
    keep_trailing_newline: false,
    lstrip_blocks: true,
    trim_blocks: true,
};

/// That a filter has no place of its own among those that the engine remembers.
const NO_LOCAL: u8 = !0;

self_cell!(
    /// The source of a template, and what it is to the engine.
    pub(super) struct Program {
        owner: String,
        #[covariant]
        dependent: Code,
    }

    impl { Debug }
);

/// The instructions of a template, and of its blocks by name.
struct Code<'a> {
    main: Instructions<'a>,
    blocks: BTreeMap<&'a str, Instructions<'a>>,
}

impl std::fmt::Debug for Code<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").finish_non_exhaustive()
    }
}

impl Program {
    /// Compiles a template. Its name in errors is `chat`.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let source = with_late_products(source);
        let config = TemplateConfig {
            syntax_config: Default::default(),
            ws_config: SPACE,
            default_auto_escape: Arc::new(|_| AutoEscape::None),
        };
        Self::try_new(source, |source| {
            let given = CompiledTemplate::new("chat", source, &config);
            let given = given.map_err(|error| error.to_string())?;
            let blocks = given.blocks.iter();
            Ok(Code {
                main: bounded(&given.instructions),
                blocks: blocks.map(|(name, it)| (*name, bounded(it))).collect(),
            })
        })
    }

    /// What the template writes of `context`.
    pub(super) fn run(&self, environment: &Environment, context: Value) -> Result<String, Error> {
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        let code = self.borrow_dependent();
        let vm = Vm::new(environment);
        vm.eval(
            &code.main,
            context,
            &code.blocks,
            &mut out,
            AutoEscape::None,
        )
        .map(drop)?;
        Ok(text)
    }
}

/// A source whose products are made when the template runs. The engine multiplies what is known while it compiles, without
/// bounds; a variable among the factors keeps it from that.
fn with_late_products(source: &str) -> String {
    let mut made = String::new();
    let mut copied = 0;
    let mut is_argument = false;
    for token in tokenize(source, false, Default::default(), SPACE) {
        // What is no template is refused when it is compiled.
        let Ok((token, span)) = token else { break };
        if matches!(token, Token::Mul) && !is_argument {
            let end = span.end_offset as usize;
            made += &source[copied..end];
            made += &format!(" {ONE} *");
            copied = end;
        }
        // There, a star is no product.
        is_argument = matches!(token, Token::ParenOpen | Token::Comma);
    }
    made + &source[copied..]
}

/// The same instructions with bounds.
fn bounded<'a>(given: &Instructions<'a>) -> Instructions<'a> {
    let mut made = Instructions::new(given.name(), given.source());
    let mut moved = Vec::new();
    let mut count = 0;
    while let Some(instruction) = given.get(moved.len() as u32) {
        let line = given.get_line(moved.len() as u32).unwrap_or_default();
        moved.push(count);
        for instruction in replaced(instruction) {
            count = 1 + made.add_with_line(instruction, u16::try_from(line).unwrap_or(u16::MAX));
        }
    }
    moved.push(count);
    for at in 0..count {
        if let Some(target) = made.get_mut(at).and_then(target) {
            *target = moved[*target as usize];
        }
    }
    made
}

/// Where an instruction goes on, if it says so.
fn target<'i>(instruction: &'i mut Instruction<'_>) -> Option<&'i mut u32> {
    match instruction {
        Instruction::Iterate(target)
        | Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target)
        | Instruction::BuildMacro(_, target, _) => Some(target),
        _ => None,
    }
}

/// What an instruction becomes.
fn replaced<'a>(given: &Instruction<'a>) -> Vec<Instruction<'a>> {
    use Instruction as I;
    let filter = |name, values: usize| I::ApplyFilter(name, u16::try_from(values).ok(), NO_LOCAL);
    // The filter gives several values back as one list, which is laid out again.
    let first = |name, values: usize, instruction: &I<'a>| match values {
        0 => vec![instruction.clone()],
        1 => vec![filter(name, 1), instruction.clone()],
        _ => vec![
            filter(name, values),
            I::UnpackList(values),
            instruction.clone(),
        ],
    };
    match given {
        // Also what stands in the template is written through the formatter, which counts it.
        I::EmitRaw(text) => vec![I::LoadConst(Value::from(*text)), I::Emit],
        I::Add => vec![filter(ADD, 2)],
        I::Mul => vec![filter(MULTIPLY, 2)],
        I::StringConcat => vec![filter(CONCATENATE, 2)],
        I::Eq => vec![filter(EQUAL, 2)],
        I::Ne => vec![filter(UNEQUAL, 2)],
        I::Lt => vec![filter(LESS, 2)],
        I::Lte => vec![filter(LESS_OR_EQUAL, 2)],
        I::Gt => vec![filter(MORE, 2)],
        I::Gte => vec![filter(MORE_OR_EQUAL, 2)],
        I::GetItem => vec![filter(ITEM, 2)],
        I::Slice => vec![filter(SLICE, 4)],
        I::BuildList(items) => vec![I::ApplyFilter(
            LIST,
            items.and_then(|it| u16::try_from(it).ok()),
            NO_LOCAL,
        )],
        I::BuildMap(pairs) => vec![filter(MAP, pairs * 2)],
        I::SetAttr(name) => vec![
            I::LoadConst(Value::from(*name)),
            filter(SET, 3),
            I::DiscardTop,
        ],
        I::In | I::CompareAndPreserve(_) => first(READ, 2, given),
        I::UnpackLists(lists) => first(READ, *lists, given),
        I::MergeKwargs(maps) => first(READ, *maps, given),
        I::CallMethod("changed", Some(values)) => first(KEEP, usize::from(*values), given),
        // A loop is called with what it goes on with.
        I::CallFunction(_, Some(1)) | I::FastRecurse | I::PushLoop(_) | I::UnpackList(_) => {
            first(WALK, 1, given)
        }
        _ => vec![given.clone()],
    }
}
