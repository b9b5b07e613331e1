//! Exports a network in every format, and says what it shows: our side of `peer_picture_exports.py`.
//!
//! picture_exports SOURCE PICTURES OUT
//!
//! SOURCE is a network that [`Published`] opens, or `airbench94` for one with drawn weights; PICTURES a folder of files; OUT a folder to be
//! made: `checkpoint`, `network`, `network.onnx`, `network.mlmodel`, `exported.json`, and `ours.safetensors` with the pictures as the network was
//! shown them, the scores and the probabilities.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a comparison stops at what it did not expect"
)]

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{
        initial::InitialWeights,
        picture::{Architecture, Mode, NetConfig, Network, Stem},
    },
    checkpoint::{folder::WEIGHTS, save::write_safetensors},
    tasks::picture::{
        classifier::{About, Classifier, Looks, View},
        decode::{Alpha, decode},
        export::{FORMATS, export},
        pixels::Shape,
        published::Published,
        resize::{CropMode, Filter},
    },
};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [source, pictures, out] = arguments.as_slice() else {
        println!("picture_exports SOURCE PICTURES OUT");
        return;
    };
    let out = Path::new(out);
    let checkpoint = out.join("checkpoint");
    fs::create_dir_all(&checkpoint).unwrap();
    write_checkpoint(source, &checkpoint);
    let all = FORMATS.map(|format| {
        let ending = format.ending.map(|it| format!(".{it}")).unwrap_or_default();
        export(
            &checkpoint,
            format.format,
            &out.join(format!("network{ending}")),
        )
        .unwrap()
    });
    fs::write(
        out.join("exported.json"),
        serde_json::to_vec_pretty(&all).unwrap(),
    )
    .unwrap();
    say(
        &checkpoint,
        Path::new(pictures),
        &out.join("ours.safetensors"),
    );
}

fn write_checkpoint(source: &str, folder: &Path) {
    let device = Device::Cpu;
    let (network, classes, view) = if source == "airbench94" {
        let net = NetConfig {
            architecture: Architecture::Airbench94,
            stem: Stem::Small,
            sides: [32; 2],
            channels: 3,
            classes: 10,
            transformer: None,
        };
        let view = View {
            shape: Shape::square(32, 3),
            short_side: None,
            crop_mode: CropMode::Center,
            filter: Filter::Bilinear,
            alpha: Alpha::default(),
            mean: vec![0.4914, 0.4822, 0.4465],
            std: vec![0.2470, 0.2435, 0.2616],
            looks: Looks::One,
        };
        let mut weights = InitialWeights::new(1, &device);
        (
            Network::new(net, &mut weights, DType::F32).unwrap(),
            None,
            view,
        )
    } else {
        let published = Published::open(Path::new(source)).unwrap();
        let network = published.network(None, 1, DType::F32, &device).unwrap();
        (network, published.classes, published.view)
    };
    let net = network.config().clone();
    let numbered = || (0..net.classes).map(|it| format!("class {it}")).collect();
    let about = About {
        classes: classes.unwrap_or_else(numbered),
        net: net.clone(),
        view,
        temperature: 1.0,
    };
    about.save(folder).unwrap();
    let tensors = network
        .parameters()
        .iter()
        .map(|it| (it.name().to_owned(), it.tensor()));
    let tensors: BTreeMap<String, Tensor> = tensors.collect();
    write_safetensors(&folder.join(WEIGHTS), &tensors, HashMap::new()).unwrap();
}

fn say(checkpoint: &Path, pictures: &Path, to: &Path) {
    let classifier = Classifier::open(checkpoint, DType::F32, &Device::Cpu).unwrap();
    let view = &classifier.about().view;
    let mut files: Vec<PathBuf> = fs::read_dir(pictures)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    let seen = files.iter().map(|file| {
        view.of(decode(&fs::read(file).unwrap(), view.alpha).unwrap())
            .pixels
    });
    let seen: Vec<Vec<u8>> = seen.collect();
    let Shape {
        height,
        width,
        channels,
    } = view.shape;
    let (mut scores, mut probabilities) = (Vec::new(), Vec::new());
    for chunk in seen.chunks(50) {
        let pixels: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
        let all = classifier.probabilities(&pixels, view.shape).unwrap();
        probabilities.extend(all.into_iter().flatten());
        let number = |(at, byte): (usize, &u8)| {
            let channel = (at % channels).min(view.mean.len() - 1);
            (f32::from(*byte) / 255.0 - view.mean[channel]) / view.std[channel]
        };
        let numbers = pixels
            .iter()
            .flat_map(|it| it.iter().enumerate().map(number));
        let dims = (chunk.len(), height, width, channels);
        let numbers = Tensor::from_vec(numbers.collect::<Vec<f32>>(), dims, &Device::Cpu).unwrap();
        let said = classifier
            .network()
            .see(None, &numbers, Mode::Running)
            .unwrap();
        scores.extend(
            said.scores
                .tensor()
                .flatten_all()
                .unwrap()
                .to_vec1::<f32>()
                .unwrap(),
        );
    }
    let (count, classes) = (seen.len(), classifier.about().classes.len());
    let tensors = BTreeMap::from([
        (
            "seen".to_owned(),
            Tensor::from_vec(
                seen.concat(),
                (count, height, width, channels),
                &Device::Cpu,
            )
            .unwrap(),
        ),
        (
            "scores".to_owned(),
            Tensor::from_vec(scores, (count, classes), &Device::Cpu).unwrap(),
        ),
        (
            "probabilities".to_owned(),
            Tensor::from_vec(probabilities, (count, classes), &Device::Cpu).unwrap(),
        ),
    ]);
    write_safetensors(to, &tensors, HashMap::new()).unwrap();
}
