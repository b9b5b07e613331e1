//! Values of a Parquet file to those of JSON.
//!
//! Text, numbers and truth stay what they are. Dates, times and decimals become text, since JSON has none. A moment that
//! has a zone is written as it is in UTC.

use parquet::{
    basic::{ConvertedType, LogicalType, Repetition, TimeUnit},
    record::{Field, Row},
    schema::types::Type,
};
use serde_json::{Map, Value};

/// The days from 1970 to the beginning of the year 1, and to the end of 9999.
const DAYS: (i32, i32) = (-719_162, 2_932_896);
const MICROS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// The values of a row, or of a struct, by their names.
pub(super) fn values(row: Row, kind: &Type) -> Map<String, Value> {
    let fields = row.into_columns().into_iter().zip(kind.get_fields());
    fields
        .map(|((name, field), kind)| (name, value(field, kind)))
        .collect()
}

pub(super) fn value(field: Field, kind: &Type) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(truth) => Value::from(truth),
        Field::Byte(number) => Value::from(number),
        Field::Short(number) => Value::from(number),
        Field::Int(number) => Value::from(number),
        Field::Long(nanos) if is_in_nanos(kind) => time_or_number(micros_kind(kind)(nanos / 1000)),
        Field::Long(number) => Value::from(number),
        Field::UByte(number) => Value::from(number),
        Field::UShort(number) => Value::from(number),
        Field::UInt(number) => Value::from(number),
        Field::ULong(number) => Value::from(number),
        Field::Float16(number) => Value::from(f64::from(number)),
        // The shortest number that means the same: 0.1, and not 0.10000000149.
        Field::Float(number) => number
            .to_string()
            .parse::<f64>()
            .map_or(Value::Null, Value::from),
        Field::Double(number) => Value::from(number),
        Field::Str(text) => Value::from(text),
        Field::Bytes(_) => Value::Null,
        Field::Group(row) => Value::Object(values(row, kind)),
        Field::ListInternal(list) => {
            let element = element_of(kind);
            let elements = list.elements().iter();
            elements.map(|it| value(it.clone(), element)).collect()
        }
        Field::MapInternal(map) => {
            let pair = kind.get_fields()[0].get_fields();
            let entries = map.entries().iter().map(|(key, one)| {
                let name = match value(key.clone(), &pair[0]) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                (name, value(one.clone(), &pair[1]))
            });
            Value::Object(entries.collect())
        }
        time => time_or_number(time),
    }
}

/// A date, a time or a decimal as text. The library's calendar ends, so a date that nobody can mean stays a number.
fn time_or_number(field: Field) -> Value {
    let last_millis = i64::from(DAYS.1) * MICROS_PER_DAY / 1000;
    let first_millis = i64::from(DAYS.0) * MICROS_PER_DAY / 1000;
    let is_date = |millis: i64| (first_millis..=last_millis).contains(&millis);
    match field {
        Field::Date(day) if !(DAYS.0..=DAYS.1).contains(&day) => Value::from(day),
        Field::TimestampMillis(millis) if !is_date(millis) => Value::from(millis),
        Field::TimestampMicros(micros) if !is_date(micros / 1000) => Value::from(micros),
        field => Value::from(field.to_string().trim_end_matches(" +00:00")),
    }
}

/// Whether numbers of this kind count nanoseconds, which the library does not say of a value.
fn is_in_nanos(kind: &Type) -> bool {
    match kind.get_basic_info().logical_type_ref() {
        Some(LogicalType::Timestamp(it)) => it.unit == TimeUnit::NANOS,
        Some(LogicalType::Time(it)) => it.unit == TimeUnit::NANOS,
        _ => false,
    }
}

fn micros_kind(kind: &Type) -> fn(i64) -> Field {
    match kind.get_basic_info().logical_type_ref() {
        Some(LogicalType::Time(_)) => Field::TimeMicros,
        _ => Field::TimestampMicros,
    }
}

/// The kind of a list's elements. Between the two stands a repeated group, which the oldest lists lack.
fn element_of(list: &Type) -> &Type {
    let repeated = match list.get_basic_info().converted_type() {
        ConvertedType::LIST | ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => {
            &list.get_fields()[0]
        }
        _ => return list,
    };
    if repeated.is_primitive() {
        return repeated;
    }
    match repeated.get_fields() {
        [element] if !is_old_element(repeated, element) => element,
        _ => repeated,
    }
}

/// Whether a repeated group with one field is itself an element, by the names that old programs gave it.
fn is_old_element(repeated: &Type, only: &Type) -> bool {
    let is_list = repeated.get_basic_info().converted_type() == ConvertedType::LIST
        || only.get_basic_info().repetition() == Repetition::REPEATED;
    !is_list && (repeated.name() == "array" || repeated.name().ends_with("_tuple"))
}
