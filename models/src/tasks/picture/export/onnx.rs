//! A network as ONNX: opset 17 of the standard's operators, in a file of version 8.
//!
//! The input `pictures` [N, c, h, w] has values from 0 to 1 and is normalised inside; the output `probabilities` [N, v] comes from a
//! softmax. The classes are in the metadata under `labels`, as a list in JSON, so that commas in names do no harm. GELU is written out
//! with Erf, since it has no operator of its own in this opset.
//!
//! Deliberately absent: reading what other programs write. [`read`] knows what [`write`] writes, and refuses the rest.

mod messages;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use prost::Message;

use self::messages::{
    Attribute, Dimension, Dimensions, Entry, Graph, Kind, Model, Node, OperatorSet, Stored,
    TensorKind, ValueInfo,
};
use super::plain::{Net, Plain, PlainStep};
use crate::{
    Result, arch::picture::Then, ops::convolution::Geometry, tasks::picture::pixels::Shape,
};

/// What whoever uses the file has to know.
pub(super) const USE: &str = "Give it pictures as `pictures` [N, channels, height, width] with values from 0 to 1; it \
                              normalises them itself and gives `probabilities` [N, classes].";

const INPUT: &str = "pictures";
const OUTPUT: &str = "probabilities";
const LABELS: &str = "labels";
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// The number of f32 among ONNX's kinds of numbers.
const FLOAT: i32 = 1;
/// The numbers of a whole number and of a list of them among its kinds of attributes.
const INT: i32 = 2;
const INTS: i32 = 7;
/// What the picture is called after it was normalised.
const CENTRED: &str = "centred";
const NORMALISED: &str = "normalised";
/// The operators of GELU, x/2 (1 + erf(x/√2)), in order.
const GELU: [&str; 5] = ["Div", "Erf", "Add", "Mul", "Mul"];
const ROOT_OF_TWO: &str = "root_of_two";
const ONE: &str = "one";
const HALF: &str = "half";

/// A file on its way.
#[derive(Default)]
struct Writing {
    nodes: Vec<Node>,
    stored: Vec<Stored>,
}

impl Writing {
    fn node(&mut self, kind: &str, inputs: &[&str], output: &str, attributes: Vec<Attribute>) {
        self.nodes.push(Node {
            input: inputs.iter().map(|it| (*it).to_owned()).collect(),
            output: vec![output.to_owned()],
            name: Some(format!("{output}_{}", kind.to_lowercase())),
            op_type: Some(kind.to_owned()),
            attribute: attributes,
        });
    }

    fn store(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        let numbers: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
        self.stored.push(Stored {
            dims: tensor.dims().iter().map(|it| *it as i64).collect(),
            data_type: Some(FLOAT),
            name: Some(name.to_owned()),
            raw_data: Some(numbers.iter().flat_map(|it| it.to_le_bytes()).collect()),
        });
        Ok(())
    }

    fn store_numbers(&mut self, name: &str, numbers: &[f32], dims: &[usize]) -> Result<()> {
        self.store(name, &Tensor::from_slice(numbers, dims, &Device::Cpu)?)
    }

    /// Writes a step that writes `name`.
    fn step(&mut self, step: &PlainStep, name: &str, is_last: bool) -> Result<()> {
        let inputs: Vec<String> = step.from.iter().map(|it| written(*it)).collect();
        let x = inputs.first().map(String::as_str).unwrap_or_default();
        let [weight_name, bias_name, inner] =
            ["weight", "bias", "scores"].map(|it| format!("{name}.{it}"));
        match &step.what {
            Plain::Convolution {
                weight,
                bias,
                geometry,
            } => {
                self.store(&weight_name, weight)?;
                self.store(&bias_name, bias)?;
                let inputs = [x, &weight_name, &bias_name];
                self.node("Conv", &inputs, name, of_geometry(*geometry));
            }
            Plain::Add => {
                let other = inputs.get(1).map(String::as_str).unwrap_or_default();
                self.node("Add", &[x, other], name, Vec::new());
            }
            Plain::Activation(Then::Gelu) => self.gelu(x, name)?,
            Plain::Activation(_) => self.node("Relu", &[x], name, Vec::new()),
            Plain::MaxPool(window) => self.node("MaxPool", &[x], name, of_geometry(*window)),
            Plain::MeanPool => {
                let map = format!("{name}.map");
                self.node("GlobalAveragePool", &[x], &map, Vec::new());
                self.node("Flatten", &[&map], name, vec![int("axis", 1)]);
            }
            Plain::Flatten => self.node("Flatten", &[x], name, vec![int("axis", 1)]),
            Plain::Linear { weight, bias } => {
                self.store(&weight_name, weight)?;
                self.store(&bias_name, bias)?;
                let inputs = [x, &weight_name, &bias_name];
                let output = if is_last { &inner } else { name };
                // The weights are [o, d], and the operator takes [d, o] where nothing is said.
                self.node("Gemm", &inputs, output, vec![int("transB", 1)]);
                if is_last {
                    self.node("Softmax", &[&inner], OUTPUT, vec![int("axis", 1)]);
                }
            }
        }
        Ok(())
    }

    fn gelu(&mut self, x: &str, name: &str) -> Result<()> {
        if !self
            .stored
            .iter()
            .any(|it| it.name.as_deref() == Some(HALF))
        {
            for (name, number) in [
                (ROOT_OF_TWO, std::f32::consts::SQRT_2),
                (ONE, 1.0),
                (HALF, 0.5),
            ] {
                self.store_numbers(name, &[number], &[])?;
            }
        }
        let [scaled, error, share, product] =
            ["scaled", "erf", "share", "product"].map(|it| format!("{name}.{it}"));
        let operands: [(&[&str], &str); 5] = [
            (&[x, ROOT_OF_TWO], &scaled),
            (&[&scaled], &error),
            (&[&error, ONE], &share),
            (&[x, &share], &product),
            (&[&product, HALF], name),
        ];
        for (kind, (inputs, output)) in GELU.into_iter().zip(operands) {
            self.node(kind, inputs, output, Vec::new());
        }
        Ok(())
    }
}

/// What the output of a step is called. 0 is the normalised picture.
fn written(step: usize) -> String {
    match step {
        0 => NORMALISED.to_owned(),
        step => format!("step{step}"),
    }
}

fn int(name: &str, number: i64) -> Attribute {
    Attribute {
        name: Some(name.to_owned()),
        i: Some(number),
        ints: Vec::new(),
        kind: Some(INT),
    }
}

fn of_geometry(geometry: Geometry) -> Vec<Attribute> {
    let ints = |name: &str, number: usize, count: usize| Attribute {
        name: Some(name.to_owned()),
        i: None,
        ints: vec![number as i64; count],
        kind: Some(INTS),
    };
    vec![
        ints("kernel_shape", geometry.kernel, 2),
        ints("strides", geometry.stride, 2),
        ints("pads", geometry.padding, 4),
    ]
}

/// The bytes of the file.
pub(super) fn write(net: &Net) -> Result<Vec<u8>> {
    let Shape {
        height,
        width,
        channels,
    } = net.shape;
    let mut writing = Writing::default();
    for (name, numbers) in [("mean", &net.mean), ("std", &net.std)] {
        writing.store_numbers(name, numbers, &[1, channels, 1, 1])?;
    }
    writing.node("Sub", &[INPUT, "mean"], CENTRED, Vec::new());
    writing.node("Div", &[CENTRED, "std"], NORMALISED, Vec::new());
    for (at, step) in (1..).zip(&net.steps) {
        writing.step(step, &written(at), at == net.steps.len())?;
    }
    let sizes = [channels, height, width];
    let model = Model {
        ir_version: Some(IR_VERSION),
        producer_name: Some("anneal".to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        doc_string: Some(USE.to_owned()),
        opset_import: vec![OperatorSet {
            domain: Some(String::new()),
            version: Some(OPSET),
        }],
        metadata_props: vec![Entry {
            key: Some(LABELS.to_owned()),
            value: Some(serde_json::Value::from(net.classes.clone()).to_string()),
        }],
        graph: Some(Graph {
            node: writing.nodes,
            name: Some("network".to_owned()),
            initializer: writing.stored,
            input: vec![value(INPUT, &sizes)],
            output: vec![value(OUTPUT, &[net.classes.len()])],
        }),
    };
    Ok(model.encode_to_vec())
}

/// What a value is: so many of these sizes.
fn value(name: &str, sizes: &[usize]) -> ValueInfo {
    let free = Dimension {
        dim_value: None,
        dim_param: Some("N".to_owned()),
    };
    let sizes = sizes.iter().map(|it| Dimension {
        dim_value: Some(*it as i64),
        dim_param: None,
    });
    ValueInfo {
        name: Some(name.to_owned()),
        kind: Some(Kind {
            tensor: Some(TensorKind {
                elem_type: Some(FLOAT),
                shape: Some(Dimensions {
                    dim: [free].into_iter().chain(sizes).collect(),
                }),
            }),
        }),
        doc_string: None,
    }
}

/// A file that is read.
struct Reading<'a> {
    stored: BTreeMap<&'a str, &'a Stored>,
    /// The plain step that writes each value.
    places: BTreeMap<&'a str, usize>,
    steps: Vec<PlainStep>,
}

/// The network of a file that [`write`] wrote.
pub(super) fn read(bytes: &[u8]) -> Result<Net, String> {
    let model = Model::decode(bytes).map_err(|error| format!("is no ONNX: {error}"))?;
    let opset = model.opset_import.first().and_then(|it| it.version);
    if (model.ir_version, opset) != (Some(IR_VERSION), Some(OPSET)) {
        return Err("is ONNX of another version".to_owned());
    }
    let labels = model
        .metadata_props
        .iter()
        .find(|it| it.key.as_deref() == Some(LABELS));
    let labels = labels.and_then(|it| it.value.as_deref()).unwrap_or("[]");
    let classes: Vec<String> = serde_json::from_str(labels).map_err(|error| error.to_string())?;
    let graph = model.graph.as_ref().ok_or("has no graph")?;
    let shape = input_shape(graph).ok_or("has no input of pictures")?;
    let stored = graph.initializer.iter();
    let mut reading = Reading {
        stored: stored
            .filter_map(|it| Some((it.name.as_deref()?, it)))
            .collect(),
        places: BTreeMap::from([(NORMALISED, 0)]),
        steps: Vec::new(),
    };
    let numbers = |name: &str| -> Result<Vec<f32>, String> {
        let flat = reading.tensor(name)?.flatten_all();
        flat.and_then(|it| it.to_vec1())
            .map_err(|error| error.to_string())
    };
    let (mean, std) = (numbers("mean")?, numbers("std")?);
    let is = |node: &Node, kind: &str, inputs: &[&str], output: &str| {
        node.op_type.as_deref() == Some(kind) && node.input == inputs && node.output == [output]
    };
    let [sub, div, nodes @ .., softmax] = graph.node.as_slice() else {
        return Err("has too few steps".to_owned());
    };
    let begins =
        is(sub, "Sub", &[INPUT, "mean"], CENTRED) && is(div, "Div", &[CENTRED, "std"], NORMALISED);
    let scores = nodes.last().and_then(|it| it.output.first());
    let scores = scores.map(String::as_str).unwrap_or_default();
    if !begins || !is(softmax, "Softmax", &[scores], OUTPUT) {
        return Err("does not begin with pixels or end with probabilities".to_owned());
    }
    let mut nodes = nodes;
    while let Some(taken) = reading.take(nodes)? {
        nodes = &nodes[taken..];
    }
    let steps = reading.steps;
    Ok(Net {
        shape,
        mean,
        std,
        steps,
        classes,
    })
}

fn input_shape(graph: &Graph) -> Option<Shape> {
    let input = graph.input.first()?;
    let sizes = &input.kind.as_ref()?.tensor.as_ref()?.shape.as_ref()?.dim;
    let size = |at: usize| usize::try_from(sizes.get(at)?.dim_value?).ok();
    (input.name.as_deref() == Some(INPUT)).then_some(())?;
    Some(Shape::new(size(2)?, size(3)?, size(1)?))
}

impl<'a> Reading<'a> {
    fn tensor(&self, name: &str) -> Result<Tensor, String> {
        let stored = self
            .stored
            .get(name)
            .filter(|it| it.data_type == Some(FLOAT));
        let stored = stored.ok_or_else(|| format!("has no numbers `{name}`"))?;
        let dims: Vec<usize> = stored.dims.iter().map(|it| *it as usize).collect();
        let bytes = stored.raw_data.as_deref().unwrap_or_default();
        Tensor::from_raw_buffer(bytes, DType::F32, &dims, &Device::Cpu)
            .map_err(|error| format!("has numbers `{name}` that are none: {error}"))
    }

    /// The plain steps that a node reads; weights are none.
    fn from(&self, node: &Node) -> Result<Vec<usize>, String> {
        let read = node
            .input
            .iter()
            .filter(|it| !self.stored.contains_key(it.as_str()));
        let place = |name: &String| {
            let place = self.places.get(name.as_str()).copied();
            place.ok_or_else(|| format!("reads `{name}` before it is written"))
        };
        read.map(place).collect()
    }

    /// Takes the next step. Returns how many nodes it was, or nothing at the end.
    fn take(&mut self, nodes: &'a [Node]) -> Result<Option<usize>, String> {
        let Some(node) = nodes.first() else {
            return Ok(None);
        };
        let kind = node.op_type.as_deref().unwrap_or_default();
        let next = nodes.get(1).and_then(|it| it.op_type.as_deref());
        let stored = |at: usize| {
            let name = node.input.get(at).map(String::as_str).unwrap_or_default();
            self.tensor(name)
        };
        let (what, count) = match (kind, next) {
            ("Conv", _) => {
                let (weight, bias, geometry) = (stored(1)?, stored(2)?, geometry_of(node)?);
                let convolution = Plain::Convolution {
                    weight,
                    bias,
                    geometry,
                };
                (convolution, 1)
            }
            ("Gemm", _) if int_of(node, "transB") == Some(1) => {
                let (weight, bias) = (stored(1)?, stored(2)?);
                (Plain::Linear { weight, bias }, 1)
            }
            ("Add", _) => (Plain::Add, 1),
            ("Relu", _) => (Plain::Activation(Then::Relu), 1),
            ("MaxPool", _) => (Plain::MaxPool(geometry_of(node)?), 1),
            ("GlobalAveragePool", Some("Flatten")) => (Plain::MeanPool, 2),
            ("Flatten", _) if int_of(node, "axis") == Some(1) => (Plain::Flatten, 1),
            ("Div", _) => {
                self.check_gelu(nodes)?;
                (Plain::Activation(Then::Gelu), GELU.len())
            }
            (other, _) => return Err(format!("has the step `{other}`, which is not written here")),
        };
        let from = self.from(node)?;
        self.steps.push(PlainStep { from, what });
        let output = nodes[count - 1].output.first();
        let output = output.ok_or("has a step that writes nothing")?;
        self.places.insert(output, self.steps.len());
        Ok(Some(count))
    }

    /// Whether these nodes begin with GELU.
    fn check_gelu(&self, nodes: &[Node]) -> Result<(), String> {
        let wrong = || "has steps that are no GELU".to_owned();
        let [div, erf, add, product, half] = nodes.get(..GELU.len()).ok_or_else(wrong)? else {
            return Err(wrong());
        };
        let nodes = [div, erf, add, product, half];
        let kinds = nodes.map(|it| it.op_type.as_deref().unwrap_or_default());
        let input = |node: &Node, at: usize| node.input.get(at).cloned().unwrap_or_default();
        let output = |node: &Node| node.output.first().cloned().unwrap_or_default();
        let (x, scaled) = (input(div, 0), output(div));
        let expected: [Vec<String>; 5] = [
            vec![x.clone(), ROOT_OF_TWO.to_owned()],
            vec![scaled],
            vec![output(erf), ONE.to_owned()],
            vec![x, output(add)],
            vec![output(product), HALF.to_owned()],
        ];
        let reads = nodes
            .iter()
            .zip(&expected)
            .all(|(it, inputs)| it.input == *inputs);
        let constants = [
            (ROOT_OF_TWO, std::f32::consts::SQRT_2),
            (ONE, 1.0),
            (HALF, 0.5),
        ];
        for (name, number) in constants {
            let tensor = self.tensor(name)?;
            if tensor.to_scalar::<f32>().ok() != Some(number) {
                return Err(wrong());
            }
        }
        match kinds == GELU && reads {
            true => Ok(()),
            false => Err(wrong()),
        }
    }
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    let mut attributes = node.attribute.iter();
    attributes.find(|it| it.name.as_deref() == Some(name))
}

fn int_of(node: &Node, name: &str) -> Option<i64> {
    attribute(node, name)?.i
}

fn geometry_of(node: &Node) -> Result<Geometry, String> {
    let number = |name: &str| {
        let numbers = attribute(node, name).map(|it| it.ints.as_slice());
        let numbers = numbers.unwrap_or_default();
        let first = numbers.first().and_then(|it| usize::try_from(*it).ok());
        let first = first.filter(|_| numbers.iter().all(|it| *it == numbers[0]));
        first.ok_or_else(|| format!("has a step with an odd `{name}`"))
    };
    Ok(Geometry {
        kernel: number("kernel_shape")?,
        stride: number("strides")?,
        padding: number("pads")?,
    })
}
