//! The messages of Core ML that a network needs, with the numbers of their fields from `Model.proto`, `FeatureTypes.proto` and
//! `NeuralNetwork.proto` (<https://github.com/apple/coremltools>).
//!
//! A number that is 0 and a list that is empty are not written, which means the same to every reader.

use prost::Message;

/// `Model`: what a whole file holds.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(int32, tag = "1")]
    pub(super) specification_version: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) description: Option<Description>,
    #[prost(message, optional, tag = "403")]
    pub(super) classifier: Option<Classifier>,
}

/// What goes in and comes out.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Description {
    #[prost(message, repeated, tag = "1")]
    pub(super) input: Vec<Feature>,
    #[prost(message, repeated, tag = "10")]
    pub(super) output: Vec<Feature>,
    #[prost(string, tag = "11")]
    pub(super) predicted_feature_name: String,
    #[prost(string, tag = "12")]
    pub(super) predicted_probabilities_name: String,
    #[prost(message, optional, tag = "100")]
    pub(super) metadata: Option<Metadata>,
}

/// What people see of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub(super) short_description: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) author: String,
}

/// One thing that goes in or comes out.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Feature {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) short_description: String,
    #[prost(message, optional, tag = "3")]
    pub(super) kind: Option<Kind>,
}

/// What it is: one of these.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Kind {
    #[prost(message, optional, tag = "3")]
    pub(super) text: Option<Empty>,
    #[prost(message, optional, tag = "4")]
    pub(super) image: Option<Image>,
    #[prost(message, optional, tag = "6")]
    pub(super) dictionary: Option<Dictionary>,
}

/// What has no settings.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

/// `ImageFeatureType`: an input that is a picture, with its size in pixels.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(int64, tag = "1")]
    pub(super) width: i64,
    #[prost(int64, tag = "2")]
    pub(super) height: i64,
    #[prost(int32, tag = "3")]
    pub(super) color_space: i32,
}

/// Numbers by texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Dictionary {
    #[prost(message, optional, tag = "2")]
    pub(super) text_keys: Option<Empty>,
}

/// A network that tells classes apart.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Classifier {
    #[prost(message, repeated, tag = "1")]
    pub(super) layers: Vec<Layer>,
    #[prost(message, repeated, tag = "2")]
    pub(super) preprocessing: Vec<Preprocessing>,
    #[prost(message, optional, tag = "100")]
    pub(super) class_labels: Option<Texts>,
    #[prost(string, tag = "200")]
    pub(super) label_probability_layer_name: String,
}

/// Texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Texts {
    #[prost(string, repeated, tag = "1")]
    pub(super) vector: Vec<String>,
}

/// What is done with a picture first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Preprocessing {
    #[prost(string, tag = "1")]
    pub(super) feature_name: String,
    #[prost(message, optional, tag = "10")]
    pub(super) scaler: Option<Scaler>,
}

/// The scale times each byte, then the number of its channel added.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scaler {
    #[prost(float, tag = "10")]
    pub(super) channel_scale: f32,
    #[prost(float, tag = "20")]
    pub(super) blue_bias: f32,
    #[prost(float, tag = "21")]
    pub(super) green_bias: f32,
    #[prost(float, tag = "22")]
    pub(super) red_bias: f32,
    #[prost(float, tag = "30")]
    pub(super) gray_bias: f32,
}

/// A step: one of these.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Layer {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) output: Vec<String>,
    #[prost(message, optional, tag = "100")]
    pub(super) convolution: Option<Convolution>,
    #[prost(message, optional, tag = "120")]
    pub(super) pooling: Option<Pooling>,
    #[prost(message, optional, tag = "130")]
    pub(super) activation: Option<Activation>,
    #[prost(message, optional, tag = "140")]
    pub(super) inner_product: Option<InnerProduct>,
    #[prost(message, optional, tag = "175")]
    pub(super) softmax: Option<Empty>,
    #[prost(message, optional, tag = "230")]
    pub(super) add: Option<Empty>,
    /// Channel by channel, where nothing else is said.
    #[prost(message, optional, tag = "301")]
    pub(super) flatten: Option<Empty>,
    /// The exact one, where nothing else is said.
    #[prost(message, optional, tag = "795")]
    pub(super) gelu: Option<Empty>,
}

/// `ConvolutionLayerParams`: a convolution with its weights.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Convolution {
    #[prost(uint64, tag = "1")]
    pub(super) output_channels: u64,
    #[prost(uint64, tag = "2")]
    pub(super) kernel_channels: u64,
    #[prost(uint64, tag = "10")]
    pub(super) groups: u64,
    #[prost(uint64, repeated, tag = "20")]
    pub(super) kernel_size: Vec<u64>,
    #[prost(uint64, repeated, tag = "30")]
    pub(super) stride: Vec<u64>,
    #[prost(uint64, repeated, tag = "40")]
    pub(super) dilation_factor: Vec<u64>,
    #[prost(message, optional, tag = "50")]
    pub(super) valid: Option<Padding>,
    #[prost(bool, tag = "70")]
    pub(super) has_bias: bool,
    #[prost(message, optional, tag = "90")]
    pub(super) weights: Option<Numbers>,
    #[prost(message, optional, tag = "91")]
    pub(super) bias: Option<Numbers>,
}

/// What is put around a picture.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Padding {
    #[prost(message, optional, tag = "1")]
    pub(super) amounts: Option<Borders>,
}

/// Of height and width.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Borders {
    #[prost(message, repeated, tag = "10")]
    pub(super) borders: Vec<Border>,
}

/// Before and after.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Border {
    #[prost(uint64, tag = "1")]
    pub(super) start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) end: u64,
}

/// Numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Numbers {
    #[prost(float, repeated, tag = "1")]
    pub(super) floats: Vec<f32>,
}

/// A pool. Its kind 0 takes the largest number, 1 the mean.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Pooling {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "10")]
    pub(super) kernel_size: Vec<u64>,
    #[prost(uint64, repeated, tag = "20")]
    pub(super) stride: Vec<u64>,
    #[prost(message, optional, tag = "30")]
    pub(super) valid: Option<Padding>,
    #[prost(bool, tag = "60")]
    pub(super) is_global: bool,
}

/// A function of each number.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Activation {
    #[prost(message, optional, tag = "10")]
    pub(super) relu: Option<Empty>,
}

/// `InnerProductLayerParams`: a linear layer with its weights.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InnerProduct {
    #[prost(uint64, tag = "1")]
    pub(super) input_channels: u64,
    #[prost(uint64, tag = "2")]
    pub(super) output_channels: u64,
    #[prost(bool, tag = "10")]
    pub(super) has_bias: bool,
    #[prost(message, optional, tag = "20")]
    pub(super) weights: Option<Numbers>,
    #[prost(message, optional, tag = "21")]
    pub(super) bias: Option<Numbers>,
}
