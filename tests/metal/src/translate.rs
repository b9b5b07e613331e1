//! From WGSL to MSL, through naga, as candle's Metal device takes it.

use std::{fmt::Write, fs, io, path::Path};

use naga::{
    AddressSpace, StorageAccess,
    back::msl,
    compact::{KeepUnused, compact},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ValidationFlags, Validator},
};

use crate::kernels::{KERNELS, Kernel, STORAGES};

/// What the host has to know of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Binding {
    /// A buffer that is only read.
    Read,
    /// A buffer that is written, and perhaps read.
    Write,
    /// A structure of this many bytes, handed over by value.
    Values(u32),
}

/// A kernel for Metal.
pub struct Translated {
    /// Of the function.
    pub name: String,
    pub text: String,
    /// Threads of a group.
    pub threads: u32,
    /// By slot: the number of a binding in WGSL is the index of the buffer in Metal.
    pub bindings: Vec<Binding>,
}

/// The lengths of arrays, which naga hands over to every function that touches an array without one. Ours are told how many
/// numbers there are and get no checks, so nothing reads them, and they are struck: as a slot, a parameter and an argument.
const SIZES: [&str; 3] = [
    "\n, constant _mslBufferSizes& _buffer_sizes [[buffer(30)]]",
    ",\n    constant _mslBufferSizes& _buffer_sizes",
    ", _buffer_sizes",
];

/// Where naga wants those lengths: the last slot that Metal has.
const SIZES_SLOT: u8 = 30;

/// Fewer threads are a risk: Apple's compiler is known to be wrong about groups of a single subgroup.
const FEWEST_THREADS: u32 = 64;

/// Panics where naga refuses the text, with its words.
pub fn translate(kernel: &Kernel, storage: &str) -> Translated {
    let source = kernel.source(storage);
    let mut module = naga::front::wgsl::parse_str(&source).unwrap_or_else(|problem| {
        panic!(
            "{} {storage}: {}",
            kernel.name,
            problem.emit_to_string(&source)
        )
    });
    let name = format!("{storage}_{}", kernel.name);
    module.entry_points[0].name.clone_from(&name);
    compact(&mut module, KeepUnused::No);
    let capabilities =
        Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_INT16;
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|problem| panic!("{name}: {}", problem.emit_to_string(&source)));
    let (bindings, resources) = slots(&module);
    let threads = module.entry_points[0].workgroup_size[0];
    assert!(
        threads >= FEWEST_THREADS,
        "{name} has groups of {threads} threads"
    );
    let unchecked = BoundsCheckPolicy::Unchecked;
    let options = msl::Options {
        lang_version: (3, 0),
        per_entry_point_map: [(name.clone(), resources)].into_iter().collect(),
        fake_missing_bindings: false,
        bounds_check_policies: BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        // Every kernel writes the memory of its group before it reads it, ends its loops, and divides by what is not zero.
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let (text, names) = msl::write_string(&module, &info, &options, &Default::default())
        .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    let written = names.entry_point_names.into_iter().next();
    assert_eq!(
        written.and_then(Result::ok).as_deref(),
        Some(&*name),
        "naga gave it another name"
    );
    Translated {
        name,
        text: without_sizes(&text),
        threads,
        bindings,
    }
}

/// What is bound at each slot, for the host and for naga.
fn slots(module: &naga::Module) -> (Vec<Binding>, msl::EntryPointResources) {
    let mut bindings = vec![None; SIZES_SLOT as usize];
    let mut resources = msl::EntryPointResources {
        sizes_buffer: Some(SIZES_SLOT),
        ..Default::default()
    };
    for (_, global) in module.global_variables.iter() {
        let Some(place) = global.binding else {
            continue;
        };
        let (binding, mutable) = match global.space {
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => {
                (Binding::Write, true)
            }
            AddressSpace::Storage { .. } => (Binding::Read, false),
            AddressSpace::Uniform => {
                let size = module.types[global.ty].inner.size(module.to_ctx());
                assert!(
                    size % 16 == 0,
                    "values of {size} bytes: fill up to a multiple of 16"
                );
                (Binding::Values(size), false)
            }
            _ => panic!("a binding of a kind that the host does not know"),
        };
        bindings[place.binding as usize] = Some(binding);
        let target = msl::BindTarget {
            buffer: Some(place.binding as u8),
            mutable,
            ..Default::default()
        };
        resources.resources.insert(place, target);
    }
    let bindings: Vec<Binding> = bindings.into_iter().map_while(|it| it).collect();
    assert_eq!(
        bindings.len(),
        resources.resources.len(),
        "a slot is left out, or nothing reads it"
    );
    (bindings, resources)
}

fn without_sizes(text: &str) -> String {
    let mut text = SIZES
        .iter()
        .fold(text.to_owned(), |text, sizes| text.replace(sizes, ""));
    if let Some(start) = text.find("struct _mslBufferSizes")
        && let Some(length) = text[start..].find("};\n\n")
    {
        text.replace_range(start..start + length + 4, "");
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let text = lines.join("\n") + "\n";
    for word in [
        "_buffer_sizes",
        "BufferSizes",
        "loop_bound",
        "naga_div",
        "naga_mod",
    ] {
        let line = text.lines().find(|it| it.contains(word));
        assert!(line.is_none(), "a kernel’s text has `{word}`: {line:?}");
    }
    text
}

/// Every file that is to be committed, by name: one a kernel and storage, and the table of what a host has to know of them.
pub fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut rows = String::new();
    for kernel in KERNELS {
        let all = STORAGES.map(|storage| translate(kernel, storage));
        let [first, ..] = &all;
        let same = |it: &Translated| it.threads == first.threads && it.bindings == first.bindings;
        assert!(
            all.iter().all(same),
            "{} has other slots in another storage",
            kernel.name
        );
        let bindings: Vec<String> = first.bindings.iter().map(|it| format!("{it:?}")).collect();
        let (name, threads) = (kernel.name, first.threads);
        // To a string, writing can't fail.
        let _ = writeln!(rows, "    {name:?}: {threads}, [{}];", bindings.join(", "));
        files.extend(
            all.into_iter()
                .map(|it| (format!("{}.metal", it.name), it.text)),
        );
    }
    files.push(("mod.rs".to_owned(), TABLE.replace("@ROWS@\n", &rows)));
    files
}

/// Storages stand in the order of [`STORAGES`].
const TABLE: &str = r#"//! What a host has to know of each kernel, and its text in each storage. Written by `tests/metal`, as all that stands here.

use super::{
    Binding::{Read, Values, Write},
    Text,
};

/// `name: threads of a group, [what is bound at each slot];`
macro_rules! texts {
    ($($name:literal: $threads:literal, [$($binding:expr),*];)*) => {
        &[$(Text {
            name: $name,
            threads: $threads,
            bindings: &[$($binding),*],
            by_storage: [
                include_str!(concat!("f32x4_", $name, ".metal")),
                include_str!(concat!("f32x1_", $name, ".metal")),
                include_str!(concat!("f16x4_", $name, ".metal")),
                include_str!(concat!("f16x1_", $name, ".metal")),
                include_str!(concat!("bf16x4_", $name, ".metal")),
                include_str!(concat!("bf16x1_", $name, ".metal")),
            ],
        },)*]
    };
}

pub(super) const TEXTS: &[Text] = texts! {
@ROWS@
};
"#;

/// Writes every file anew, and removes those of kernels that are no more.
pub fn write_all(folder: &Path) -> io::Result<usize> {
    let files = files();
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !files.iter().any(|(known, _)| **known == *name) {
            fs::remove_file(entry.path())?;
        }
    }
    for (name, text) in &files {
        fs::write(folder.join(name), text)?;
    }
    Ok(files.len())
}

/// The names of the files that are not what naga writes now.
pub fn outdated(folder: &Path) -> Vec<String> {
    let files = files();
    let same = |(name, text): &&(String, String)| {
        fs::read_to_string(folder.join(name)).is_ok_and(|it| it == *text)
    };
    let mut outdated: Vec<String> = files
        .iter()
        .filter(|it| !same(it))
        .map(|(name, _)| name.clone())
        .collect();
    let there = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = there.map(|it| it.file_name().to_string_lossy().into_owned());
    outdated.extend(names.filter(|name| files.iter().all(|(known, _)| known != name)));
    outdated
}
