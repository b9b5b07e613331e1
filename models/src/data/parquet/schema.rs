//! Which columns of a Parquet file are read: those that hold text, numbers or truth, and lists and structs of them.
//!
//! Bytes without a text type are left out before a page of them is read: pictures and sounds, which can be most of a
//! file, and keys that nobody can read.

use std::sync::Arc;

use parquet::{
    basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType},
    schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr},
};

use super::caught;

/// The columns with text. The error is a sentence for the user: there is none.
pub(super) fn with_text(schema: &SchemaDescPtr) -> Result<SchemaDescPtr, String> {
    let fields = schema.root_schema().get_fields();
    let kept: Vec<TypePtr> = fields.iter().filter_map(field_with_text).collect();
    if kept.is_empty() {
        let names: Vec<String> = fields
            .iter()
            .map(|it| format!("`{}`", it.name()))
            .take(20)
            .collect();
        return Err(format!(
            "no column of this Parquet file holds text or numbers: {} only bytes",
            match names.as_slice() {
                [] => "there are".to_owned(),
                names => format!("in {} are", names.join(", ")),
            }
        ));
    }
    let root = caught(|| {
        Type::group_type_builder(schema.root_schema().name())
            .with_fields(kept)
            .build()
    })?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(root))))
}

/// These columns of a file, as they are.
pub(super) fn columns(
    schema: &SchemaDescPtr,
    keep: impl Fn(&Type) -> bool,
) -> Result<SchemaDescPtr, String> {
    let fields = schema.root_schema().get_fields().iter();
    let kept: Vec<TypePtr> = fields.filter(|it| keep(it)).cloned().collect();
    let root = caught(|| {
        Type::group_type_builder(schema.root_schema().name())
            .with_fields(kept)
            .build()
    })?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(root))))
}

/// A field without the bytes inside of it. Nothing, if nothing is left.
fn field_with_text(field: &TypePtr) -> Option<TypePtr> {
    if field.is_primitive() {
        return is_text_or_number(field).then(|| field.clone());
    }
    let children = field.get_fields();
    let kept = match field.get_basic_info().converted_type() {
        ConvertedType::LIST => vec![inside_of_list(children)?],
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => vec![inside_of_map(children)?],
        _ => children.iter().filter_map(field_with_text).collect(),
    };
    with_fields(field, kept)
}

/// What a list repeats. The library tells old lists from new ones by how many fields that has, so none may be lost.
fn inside_of_list(children: &[TypePtr]) -> Option<TypePtr> {
    let repeated = only_repeated(children)?;
    if repeated.is_primitive() {
        return field_with_text(repeated);
    }
    match repeated.get_fields() {
        [element] => with_fields(repeated, vec![field_with_text(element)?]),
        _ => if_all_is_text(repeated),
    }
}

/// A key and a value, of which a set has only the first. Neither means anything without the other.
fn inside_of_map(children: &[TypePtr]) -> Option<TypePtr> {
    let pair = only_repeated(children)?;
    let is_pair = !pair.is_primitive() && (1..=2).contains(&pair.get_fields().len());
    if is_pair { if_all_is_text(pair) } else { None }
}

/// The one field of a list or a map. The library stops at one that has another shape.
fn only_repeated(children: &[TypePtr]) -> Option<&TypePtr> {
    let [only] = children else {
        return None;
    };
    (only.get_basic_info().repetition() == Repetition::REPEATED).then_some(only)
}

fn if_all_is_text(group: &TypePtr) -> Option<TypePtr> {
    let mut fields = group.get_fields().iter();
    let all = fields.all(|it| field_with_text(it).as_ref() == Some(it));
    (all && !group.get_fields().is_empty()).then(|| group.clone())
}

fn with_fields(group: &Type, fields: Vec<TypePtr>) -> Option<TypePtr> {
    if fields.is_empty() {
        return None;
    }
    let about = group.get_basic_info();
    let group = Type::group_type_builder(group.name())
        .with_repetition(about.repetition())
        .with_converted_type(about.converted_type())
        .with_logical_type(about.logical_type_ref().cloned())
        .with_id(about.has_id().then(|| about.id()))
        .with_fields(fields)
        .build();
    group.ok().map(Arc::new)
}

pub(super) fn is_text_or_number(field: &Type) -> bool {
    let about = field.get_basic_info();
    match field.get_physical_type() {
        PhysicalType::BYTE_ARRAY => matches!(
            about.converted_type(),
            ConvertedType::UTF8
                | ConvertedType::ENUM
                | ConvertedType::JSON
                | ConvertedType::DECIMAL
        ),
        PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            about.converted_type() == ConvertedType::DECIMAL
                || about.logical_type_ref() == Some(&LogicalType::Float16)
        }
        _ => true,
    }
}
