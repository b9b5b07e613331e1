//! A checkpoint of a network that was not trained but written down: it tells red pictures from blue ones. Its channel 0 passes red on,
//! channel 1 blue, and the classes are the means of both.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    arch::picture::{Architecture, NetConfig, Stem, weights_of},
    tasks::picture::{
        classifier::{About, CLASSIFIER, Looks, View},
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
    },
};
use serde_json::{Map, Value, json};

/// The side of its pictures.
const SIDE: usize = 32;
/// Places of its last map, for each channel.
const PLACES: usize = 16;
/// How far apart its scores are.
const SURE: f32 = 3.0;

/// Writes it into a new folder.
pub(crate) fn red_or_blue(folder: &Path) -> PathBuf {
    let folder = folder.join("red-or-blue");
    fs::create_dir(&folder).unwrap();
    let net = NetConfig {
        architecture: Architecture::Small,
        stem: Stem::Small,
        sides: [SIDE; 2],
        channels: 3,
        classes: 2,
        transformer: None,
    };
    let about = About {
        net: net.clone(),
        classes: ["red", "blue"].map(str::to_owned).to_vec(),
        view: View {
            shape: Shape::square(SIDE, 3),
            short_side: None,
            crop_mode: CropMode::Center,
            filter: Filter::Bilinear,
            alpha: Alpha::OnWhite,
            mean: vec![0.5; 3],
            std: vec![0.5; 3],
            looks: Looks::One,
        },
        temperature: 1.0,
    };
    fs::write(folder.join(CLASSIFIER), serde_json::to_vec(&about).unwrap()).unwrap();
    let (mut header, mut data) = (Map::new(), Vec::new());
    for need in weights_of(&net).unwrap() {
        let values = values(&need.name, &need.shape);
        let from = data.len();
        data.extend(values.iter().flat_map(|it| it.to_le_bytes()));
        let tensor =
            json!({"dtype": "F32", "shape": need.shape, "data_offsets": [from, data.len()]});
        header.insert(need.name, tensor);
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let file = [&length[..], header.as_bytes(), &data].concat();
    fs::write(folder.join("model.safetensors"), file).unwrap();
    folder
}

/// The values of a weight by its name.
fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let count = shape.iter().product();
    let mut values = vec![0.0; count];
    // The middle of the kernel from a channel to another.
    let middle = |to: usize, from: usize| (to * shape[1] + from) * 9 + 4;
    match name {
        "conv1.weight" => {
            values[middle(0, 0)] = 1.0;
            values[middle(1, 2)] = 1.0;
        }
        "conv2.weight" | "conv3.weight" => {
            values[middle(0, 0)] = 1.0;
            values[middle(1, 1)] = 1.0;
        }
        "fc1.weight" => {
            for channel in 0..2 {
                let from = channel * shape[1] + channel * PLACES;
                values[from..from + PLACES].fill(1.0 / PLACES as f32);
            }
        }
        "fc2.weight" => {
            for class in 0..2 {
                values[class * shape[1]] = if class == 0 { SURE } else { -SURE };
                values[class * shape[1] + 1] = if class == 0 { -SURE } else { SURE };
            }
        }
        // Norms leave what they get.
        _ if name.starts_with("bn") && !name.ends_with("bias") && !name.ends_with("mean") => {
            values.fill(1.0);
        }
        _ => {}
    }
    values
}

/// The bytes of a picture of one colour on the left and another on the right.
pub(crate) fn halves(left: [u8; 3], right: [u8; 3], side: usize) -> Vec<u8> {
    let head = format!("P6\n{side} {side}\n255\n");
    let row = (0..side).flat_map(|at| if 2 * at < side { left } else { right });
    let row: Vec<u8> = row.collect();
    [head.into_bytes(), row.repeat(side)].concat()
}

pub(crate) const RED: [u8; 3] = [255, 0, 0];
pub(crate) const BLUE: [u8; 3] = [0, 0, 255];
pub(crate) const GREY: [u8; 3] = [90, 90, 90];
