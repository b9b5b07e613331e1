//! The kinds of learning. A kind is a folder here and a name in the lists below; everything else works with all of them.
//!
//! Deliberately absent: what a kind has to say, which is [`Kind`], and the loop.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Map, Value};

use crate::{
    Result,
    train::{
        Problem, Resolved, TrainPlan, TrainRequest,
        estimate::Estimate,
        fields::Field,
        kind::{Kind, Subject},
        tree::Part,
    },
};

pub mod fields;
pub mod language;
pub mod overrides;
pub mod picture;
pub mod probe;
pub mod puzzle;
pub mod starter;
pub mod tiny;

use kinds::{Language, Picture, Probe, Puzzle};
use tiny::TinyPlace;

/// What stands for each kind: one line in here, and a name in the list below.
pub mod kinds {
    pub use super::{language::Language, picture::Picture, probe::Probe, puzzle::Puzzle};
}

/// The field of a run file that names the kind. Absent, it is language, as in all files from before there were others.
pub const TASK: &str = "task";

/// A request for a run of any kind.
pub type AnyRequest = TrainRequest<TaskRequest>;
/// A plan of a run of any kind.
pub type AnyPlan = TrainPlan<TaskPlan>;
/// A plan of a run of any kind, with what a person wants to know about it.
pub type AnyResolved = Resolved<TaskPlan>;

/// Lists the kinds, and makes what holds one of them.
macro_rules! kinds {
    ($dollar:tt $($kind:ident),+) => {
        /// The names of all kinds, as in a run file.
        pub const KINDS: &[&str] = &[$($kind::NAME),+];

        /// The name of the kind whose data this looks like, if a kind says so.
        pub fn recognized(path: &Path) -> Option<&'static str> {
            $(if $kind::recognizes(path) {
                return Some($kind::NAME);
            })+
            None
        }

        /// The fields that only one kind has, kind by kind.
        const FIELDS: &[&[Field]] = &[$($kind::FIELDS),+];

        kinds!(@any TaskRequest, Request, "What only the kind of a run is asked.", $($kind),+);
        kinds!(@any TaskPlan, Plan, "What only the kind of a run decides.", $($kind),+);

        /// Does something for the kind of a request or a plan: `with_kind!(TaskPlan, plan.task, K, task => K::sources(task))`.
        #[macro_export]
        macro_rules! with_kind {
            ($dollar any:ident, $dollar task:expr, $dollar name:ident, $dollar part:pat => $dollar body:expr) => {
                match $dollar task {
                    $($crate::tasks::$dollar any::$kind($dollar part) => {
                        type $dollar name = $crate::tasks::kinds::$kind;
                        $dollar body
                    })+
                }
            };
        }
    };
    (@any $any:ident, $part:ident, $doc:literal, $($kind:ident),+) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq)]
        pub enum $any {
            $(#[doc = concat!("Of the kind [`", stringify!($kind), "`].")] $kind(<$kind as Kind>::$part),)+
        }

        impl $any {
            /// The name of the kind.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $kind::NAME,)+
                }
            }

            /// What the kind learns from, in the plural.
            pub fn unit(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $kind::UNIT,)+
                }
            }
        }

        $(impl From<<$kind as Kind>::$part> for $any {
            fn from(part: <$kind as Kind>::$part) -> Self {
                Self::$kind(part)
            }
        })+

        impl Part for $any {
            fn unread(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$kind(part) => part.unread(),)+
                }
            }

            fn read(tree: &Value, unread: &mut Vec<String>) -> Result<Self, Problem> {
                let (name, rest) = named(tree)?;
                $(if name == $kind::NAME {
                    return Part::read(&rest, unread).map(Self::$kind);
                })+
                let problem = format!("is `{name}`, which is no kind of learning; there are: {}", KINDS.join(", "));
                Err(Problem { field: TASK.to_owned(), problem })
            }
        }

        impl Serialize for $any {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(part) => write::<$kind, _>(part, to),)+
                }
            }
        }

        impl<'de> Deserialize<'de> for $any {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let tree = Value::deserialize(from)?;
                Self::read(&tree, &mut Vec::new()).map_err(de::Error::custom)
            }
        }
    };
}

kinds!($ Language, Puzzle, Probe, Picture);

/// The name of the kind that a tree of fields is about, and the tree without it.
fn named(tree: &Value) -> Result<(String, Value), Problem> {
    let mut fields = tree.as_object().cloned().unwrap_or_default();
    match fields.remove(TASK) {
        None | Some(Value::Null) => Ok((Language::NAME.to_owned(), Value::Object(fields))),
        Some(Value::String(name)) => Ok((name, Value::Object(fields))),
        Some(other) => Err(Problem {
            field: TASK.to_owned(),
            problem: format!("is {other}, and has to be the name of a kind of learning"),
        }),
    }
}

/// Writes the part of a kind with its name before it, unless that is understood.
fn write<K: Kind, S: Serializer>(part: &impl Serialize, to: S) -> Result<S::Ok, S::Error> {
    let mut tree = Map::new();
    if K::NAME != Language::NAME {
        tree.insert(TASK.to_owned(), K::NAME.into());
    }
    if let Value::Object(fields) = serde_json::to_value(part).map_err(ser::Error::custom)? {
        tree.extend(fields);
    }
    tree.serialize(to)
}

impl Default for TaskRequest {
    fn default() -> Self {
        Self::Language(Default::default())
    }
}

impl TaskRequest {
    /// One that asks for nothing but the kind of this name.
    pub fn named(name: &str) -> Result<Self, Problem> {
        Self::read(&serde_json::json!({ TASK: name }), &mut Vec::new())
    }

    /// Tries the smallest run of the kind, as [`tiny::try_tiny`] does.
    pub fn try_tiny(&self, place: &TinyPlace) -> Result<Option<f64>> {
        with_kind!(TaskRequest, self, K, _ => tiny::try_tiny::<K>(place))
    }
}

impl TaskPlan {
    /// The files that a run learns from and starts from, by what they are for it.
    pub fn sources(&self) -> BTreeMap<String, PathBuf> {
        with_kind!(TaskPlan, self, K, task => K::sources(task))
    }

    /// The files and folders of the data.
    pub fn data(&self) -> &[PathBuf] {
        with_kind!(TaskPlan, self, K, task => K::data(task))
    }

    /// What is trained, and how.
    pub fn subject(&self) -> Subject {
        with_kind!(TaskPlan, self, K, task => K::subject(task))
    }

    /// What can be done with the result, as the app calls it.
    pub fn uses(&self) -> &'static [&'static str] {
        with_kind!(TaskPlan, self, K, task => K::uses(task))
    }

    /// What a person can still do about memory when a run has nothing left to give up.
    pub fn smaller(&self) -> Option<String> {
        with_kind!(TaskPlan, self, K, task => K::smaller(task))
    }

    /// The fields that decide the shape of the weights, those that decide the order of the data, and those that name files.
    pub fn decisive_fields(&self) -> [&'static [&'static str]; 3] {
        with_kind!(TaskPlan, self, K, _ => [K::SHAPED_BY, K::ORDERED_BY, K::NAMES_OF_FILES])
    }

    /// Whether some weights don't learn, so that they can be kept in fewer bytes.
    pub fn has_frozen_weights(&self) -> bool {
        with_kind!(TaskPlan, self, K, task => K::has_frozen_weights(task))
    }
}

impl AnyPlan {
    /// What the run will take, from the shape of its model where that is now.
    pub fn estimate(&self) -> Result<Estimate> {
        with_kind!(TaskPlan, &self.task, K, task => {
            let plan = TrainPlan { run: self.run.clone(), task: task.clone() };
            Ok(K::estimate(&plan, &K::read_shape(task)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{language::request::TokenizerSource, *};

    #[test]
    fn an_empty_request_is_the_default() {
        let request: AnyRequest = serde_json::from_str("{}").unwrap();
        assert_eq!(request, AnyRequest::default());
    }

    #[test]
    fn an_unknown_field_is_named() {
        let read = serde_json::from_str::<AnyRequest>(r#"{"lora": {"rnak": 8}}"#);
        let problem = read.unwrap_err().to_string();
        assert_eq!(problem, "`lora.rnak` is not a setting");
    }

    #[test]
    fn auto_is_the_same_as_nothing() {
        for auto in [
            r#"{"batch": "auto"}"#,
            r#"{"batch": {"rows": "auto"}}"#,
            r#"{"batch": {"rows": null}}"#,
        ] {
            let request: AnyRequest = serde_json::from_str(auto).unwrap();
            assert_eq!(request, AnyRequest::default(), "{auto}");
        }
        for wrong in [
            r#"{"batch": "many"}"#,
            r#"{"batch": {"rows": "many"}}"#,
            r#"{"batch": {"rows": -1}}"#,
            r#"{"batch": {"row": 1}}"#,
        ] {
            assert!(
                serde_json::from_str::<AnyRequest>(wrong).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let request: AnyRequest = serde_json::from_str(
            r#"{"method": "scratch", "scratch": {"preset": "micro", "tokenizer": "trained"}, "dtype": {"compute": "bf16"},
                "optimizer": {"kind": "sgd"}, "data": {"files": ["a.jsonl"], "learn": "all"}}"#,
        )
        .unwrap();
        let written = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<AnyRequest>(&written).unwrap(),
            request
        );
        let TaskRequest::Language(task) = request.task else {
            panic!("a request is about language unless it says otherwise");
        };
        let tokenizer = task.scratch.unwrap().tokenizer;
        assert_eq!(tokenizer, Some(TokenizerSource::Trained));
    }
}
