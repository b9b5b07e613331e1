//! A network as Core ML: a `NeuralNetworkClassifier` of specification 4, which systems from macOS 10.15 and iOS 13 on open.
//!
//! A picture goes in as the system has it, with bytes; the label and the probabilities of all classes come out. The scaler of Core ML
//! has one factor for all channels and adds after it, so bytes become b/255 - mean there, and what is left of normalising, 1/std for each
//! channel, is in the weights of the first convolution. Its zeros around the picture stay zeros so.
//!
//! Deliberately absent: reading what other programs write. [`read`] knows what [`write`] writes, and refuses the rest.

mod messages;

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use prost::Message;

use self::messages::{
    Activation, Border, Borders, Classifier, Convolution, Description, Dictionary, Empty, Feature,
    Image, InnerProduct, Kind, Layer, Metadata, Model, Numbers, Padding, Pooling, Preprocessing,
    Scaler, Texts,
};
use super::plain::{Net, Plain, PlainStep};
use crate::{
    Error, Result, arch::picture::Then, ops::convolution::Geometry, tasks::picture::pixels::Shape,
};

/// What whoever uses the file has to know.
pub(super) const USE: &str = "Give it a picture as `picture`; it normalises it itself and gives `label` and `probabilities`. Of what \
                              Vision can do with a picture first, `centerCrop` is nearest to what the network was shown.";

const INPUT: &str = "picture";
const LABEL: &str = "label";
const PROBABILITIES: &str = "probabilities";
/// What the softmax writes.
const SOFTMAX: &str = "softmax";
const SPECIFICATION: i32 = 4;
/// The numbers of Core ML's orders of colours.
const GRAYSCALE: i32 = 10;
const RGB: i32 = 20;
/// The numbers of Core ML's pools.
const LARGEST: i32 = 0;
const MEAN: i32 = 1;

/// What the output of a step is called. 0 is the picture.
fn written(step: usize) -> String {
    match step {
        0 => INPUT.to_owned(),
        step => format!("step{step}"),
    }
}

fn numbers(tensor: &Tensor) -> Result<Option<Numbers>> {
    let floats = tensor.flatten_all()?.to_vec1()?;
    Ok(Some(Numbers { floats }))
}

fn padding(pixels: usize) -> Option<Padding> {
    let border = Border {
        start: pixels as u64,
        end: pixels as u64,
    };
    let borders = vec![border.clone(), border];
    Some(Padding {
        amounts: Some(Borders { borders }),
    })
}

/// The bytes of the file.
pub(super) fn write(net: &Net) -> Result<Vec<u8>> {
    let mut layers = Vec::new();
    for (at, step) in (1..).zip(&net.steps) {
        let mut layer = layer(step, &net.std)?;
        layer.name = format!("{}_layer", written(at));
        layer.input = step.from.iter().map(|it| written(*it)).collect();
        layer.output = vec![written(at)];
        layers.push(layer);
    }
    layers.push(Layer {
        name: "softmax_layer".to_owned(),
        input: vec![written(net.steps.len())],
        output: vec![SOFTMAX.to_owned()],
        softmax: Some(Empty {}),
        ..Layer::default()
    });
    let bias = |channel: usize| -net.mean.get(channel).copied().unwrap_or_default();
    let mut scaler = Scaler {
        channel_scale: 1.0 / 255.0,
        ..Scaler::default()
    };
    match net.shape.channels {
        1 => scaler.gray_bias = bias(0),
        _ => {
            (scaler.red_bias, scaler.green_bias) = (bias(0), bias(1));
            scaler.blue_bias = bias(2);
        }
    }
    let classifier = Classifier {
        layers,
        preprocessing: vec![Preprocessing {
            feature_name: INPUT.to_owned(),
            scaler: Some(scaler),
        }],
        class_labels: Some(Texts {
            vector: net.classes.clone(),
        }),
        label_probability_layer_name: SOFTMAX.to_owned(),
    };
    let model = Model {
        specification_version: SPECIFICATION,
        description: Some(description(net)),
        classifier: Some(classifier),
    };
    Ok(model.encode_to_vec())
}

fn description(net: &Net) -> Description {
    let feature = |name: &str, says: &str, kind: Kind| Feature {
        name: name.to_owned(),
        short_description: says.to_owned(),
        kind: Some(kind),
    };
    let image = Image {
        width: net.shape.width as i64,
        height: net.shape.height as i64,
        color_space: if net.shape.channels == 1 {
            GRAYSCALE
        } else {
            RGB
        },
    };
    let picture = Kind {
        image: Some(image),
        ..Kind::default()
    };
    let text = Kind {
        text: Some(Empty {}),
        ..Kind::default()
    };
    let dictionary = Kind {
        dictionary: Some(Dictionary {
            text_keys: Some(Empty {}),
        }),
        ..Kind::default()
    };
    Description {
        input: vec![feature(INPUT, "A picture", picture)],
        output: vec![
            feature(LABEL, "What it shows most probably", text),
            feature(PROBABILITIES, "How probable each class is", dictionary),
        ],
        predicted_feature_name: LABEL.to_owned(),
        predicted_probabilities_name: PROBABILITIES.to_owned(),
        metadata: Some(Metadata {
            short_description: USE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            author: "Anneal".to_owned(),
        }),
    }
}

/// A step without its names. What reads the picture has 1/std in its weights.
fn layer(step: &PlainStep, std: &[f32]) -> Result<Layer> {
    let reads_picture = step.from.first() == Some(&0);
    let mut layer = Layer::default();
    match &step.what {
        Plain::Convolution {
            weight,
            bias,
            geometry,
        } => {
            let weight = match reads_picture {
                true => {
                    let std = Tensor::from_slice(std, (1, std.len(), 1, 1), &Device::Cpu)?;
                    weight.broadcast_div(&std)?
                }
                false => weight.clone(),
            };
            layer.convolution = Some(convolution(&weight, bias, *geometry)?);
        }
        _ if reads_picture => {
            return Err(Error::Data(
                "the network does not begin with a convolution, so its pictures can’t be normalised in Core ML".to_owned(),
            ));
        }
        Plain::Add => layer.add = Some(Empty {}),
        Plain::Activation(Then::Gelu) => layer.gelu = Some(Empty {}),
        Plain::Activation(_) => {
            let relu = Some(Empty {});
            layer.activation = Some(Activation { relu });
        }
        Plain::MaxPool(window) => {
            layer.pooling = Some(Pooling {
                kind: LARGEST,
                kernel_size: vec![window.kernel as u64; 2],
                stride: vec![window.stride as u64; 2],
                valid: padding(window.padding),
                is_global: false,
            });
        }
        Plain::MeanPool => {
            layer.pooling = Some(Pooling {
                kind: MEAN,
                valid: padding(0),
                is_global: true,
                ..Pooling::default()
            });
        }
        Plain::Flatten => layer.flatten = Some(Empty {}),
        Plain::Linear { weight, bias } => {
            let (outputs, inputs) = weight.dims2()?;
            layer.inner_product = Some(InnerProduct {
                input_channels: inputs as u64,
                output_channels: outputs as u64,
                has_bias: true,
                weights: numbers(weight)?,
                bias: numbers(bias)?,
            });
        }
    }
    Ok(layer)
}

fn convolution(weight: &Tensor, bias: &Tensor, geometry: Geometry) -> Result<Convolution> {
    let (outputs, channels, _, _) = weight.dims4()?;
    Ok(Convolution {
        output_channels: outputs as u64,
        kernel_channels: channels as u64,
        groups: 1,
        kernel_size: vec![geometry.kernel as u64; 2],
        stride: vec![geometry.stride as u64; 2],
        dilation_factor: vec![1; 2],
        valid: padding(geometry.padding),
        has_bias: true,
        weights: numbers(weight)?,
        bias: numbers(bias)?,
    })
}

/// The network of a file that [`write`] wrote.
pub(super) fn read(bytes: &[u8]) -> Result<Net, String> {
    let model = Model::decode(bytes).map_err(|error| format!("is no Core ML: {error}"))?;
    if model.specification_version != SPECIFICATION {
        return Err("is Core ML of another version".to_owned());
    }
    let description = model.description.unwrap_or_default();
    let input = description.input.first().and_then(|it| it.kind.as_ref());
    let image = input
        .and_then(|it| it.image.as_ref())
        .ok_or("takes no picture")?;
    let channels = match image.color_space {
        GRAYSCALE => 1,
        RGB => 3,
        other => return Err(format!("has the order of colours {other}")),
    };
    let size = |side: i64| usize::try_from(side).map_err(|error| error.to_string());
    let shape = Shape::new(size(image.height)?, size(image.width)?, channels);
    let classifier = model.classifier.ok_or("is no classifier of pictures")?;
    let scaler = classifier
        .preprocessing
        .first()
        .and_then(|it| it.scaler.as_ref());
    let scaler = scaler.ok_or("does not say how pictures are scaled")?;
    if scaler.channel_scale != 1.0 / 255.0 {
        return Err("scales pictures otherwise".to_owned());
    }
    let bias = match channels {
        1 => vec![scaler.gray_bias],
        _ => vec![scaler.red_bias, scaler.green_bias, scaler.blue_bias],
    };
    let [layers @ .., softmax] = classifier.layers.as_slice() else {
        return Err("has no layers".to_owned());
    };
    let last = layers.last().map(|it| it.output.as_slice());
    let is_end = softmax.softmax.is_some()
        && Some(softmax.input.as_slice()) == last
        && softmax.output == [classifier.label_probability_layer_name];
    if !is_end {
        return Err("does not end with probabilities".to_owned());
    }
    let mut places = BTreeMap::from([(INPUT, 0)]);
    let mut steps = Vec::new();
    for layer in layers {
        let place = |name: &String| {
            let place = places.get(name.as_str()).copied();
            place.ok_or_else(|| format!("reads `{name}` before it is written"))
        };
        let from = layer.input.iter().map(place).collect::<Result<_, _>>()?;
        let what = plain(layer).map_err(|error| error.to_string())?;
        let what =
            what.ok_or_else(|| format!("has a layer `{}` that is not written here", layer.name))?;
        steps.push(PlainStep { from, what });
        let output = layer
            .output
            .first()
            .ok_or("has a layer that writes nothing")?;
        places.insert(output, steps.len());
    }
    Ok(Net {
        shape,
        mean: bias.into_iter().map(|it| -it).collect(),
        std: vec![1.0; channels],
        steps,
        classes: classifier.class_labels.unwrap_or_default().vector,
    })
}

fn geometry(kernel: &[u64], stride: &[u64], padding: Option<&Padding>) -> Option<Geometry> {
    let borders = &padding?.amounts.as_ref()?.borders;
    let sides = borders.iter().flat_map(|it| [it.start, it.end]);
    let sides: Vec<u64> = sides.collect();
    let one = |numbers: &[u64]| {
        let first = *numbers.first()?;
        let is_even = numbers.iter().all(|it| *it == first);
        is_even.then_some(usize::try_from(first).ok()?)
    };
    Some(Geometry {
        kernel: one(kernel)?,
        stride: one(stride)?,
        padding: one(&sides)?,
    })
}

/// What a layer does, where it is one that is written here.
fn plain(layer: &Layer) -> Result<Option<Plain>> {
    let tensor = |numbers: &Option<Numbers>, dims: &[u64]| -> Result<Tensor> {
        let floats = numbers.as_ref().map(|it| it.floats.as_slice());
        let dims: Vec<usize> = dims.iter().map(|it| *it as usize).collect();
        Ok(Tensor::from_slice(
            floats.unwrap_or_default(),
            dims.as_slice(),
            &Device::Cpu,
        )?)
    };
    Ok(if let Some(it) = &layer.convolution {
        let Some(geometry) = geometry(&it.kernel_size, &it.stride, it.valid.as_ref()) else {
            return Ok(None);
        };
        let side = geometry.kernel as u64;
        Some(Plain::Convolution {
            weight: tensor(
                &it.weights,
                &[it.output_channels, it.kernel_channels, side, side],
            )?,
            bias: tensor(&it.bias, &[it.output_channels])?,
            geometry,
        })
    } else if let Some(it) = &layer.pooling {
        match (it.kind, it.is_global) {
            (MEAN, true) => Some(Plain::MeanPool),
            (LARGEST, false) => {
                geometry(&it.kernel_size, &it.stride, it.valid.as_ref()).map(Plain::MaxPool)
            }
            _ => None,
        }
    } else if let Some(it) = &layer.inner_product {
        Some(Plain::Linear {
            weight: tensor(&it.weights, &[it.output_channels, it.input_channels])?,
            bias: tensor(&it.bias, &[it.output_channels])?,
        })
    } else if layer
        .activation
        .as_ref()
        .is_some_and(|it| it.relu.is_some())
    {
        Some(Plain::Activation(Then::Relu))
    } else if layer.gelu.is_some() {
        Some(Plain::Activation(Then::Gelu))
    } else if layer.add.is_some() {
        Some(Plain::Add)
    } else {
        layer.flatten.as_ref().map(|_| Plain::Flatten)
    })
}
