//! What is written of a trained network for other programs computes what the network does. How those programs themselves read it is in
//! `tests/peers/peer_picture_exports.py`.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::picture::{Architecture, NetConfig, Network, Stem, Transformer},
    checkpoint::{folder::WEIGHTS, save::write_safetensors},
    tasks::picture::{
        classifier::{About, Looks, View},
        decode::Alpha,
        export::{Exported, FORMATS, Format, export},
        pixels::Shape,
        published::Published,
        resize::{CropMode, Filter},
    },
};
use serde_json::{Value as Json, json};

use crate::picture_nets::Formula;

/// A network of each architecture.
const NETWORKS: [(Architecture, Stem, usize, usize); 6] = [
    (Architecture::Resnet18, Stem::Photo, 64, 3),
    (Architecture::Resnet18, Stem::Photo, 64, 1),
    (Architecture::Resnet50, Stem::Photo, 33, 3),
    (Architecture::Resnet18, Stem::Small, 32, 3),
    (Architecture::Small, Stem::Small, 28, 1),
    (Architecture::Airbench94, Stem::Small, 32, 3),
];

fn about((architecture, stem, side, channels): (Architecture, Stem, usize, usize)) -> About {
    let classes = ["cat", "cow, brown", "Zürich", "\"quoted\"\n", "e"];
    About {
        net: NetConfig {
            architecture,
            stem,
            sides: [side; 2],
            channels,
            classes: classes.len(),
            transformer: None,
        },
        classes: classes.map(str::to_owned).to_vec(),
        view: View {
            shape: Shape::square(side, channels),
            short_side: Some(side + 5),
            crop_mode: CropMode::Center,
            filter: Filter::Bicubic,
            alpha: Alpha::default(),
            mean: vec![0.485, 0.456, 0.406][..channels].to_vec(),
            std: vec![0.229, 0.224, 0.225][..channels].to_vec(),
            looks: Looks::One,
        },
        temperature: 1.7,
    }
}

/// A checkpoint of a network, as training leaves it.
fn checkpoint(about: &About, change: impl Fn(&mut Network)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut network =
        Network::new(about.net.clone(), &mut Formula(DType::F32), DType::F32).unwrap();
    change(&mut network);
    about.save(folder.path()).unwrap();
    let parameters = network.parameters().iter();
    let tensors: BTreeMap<String, Tensor> = parameters
        .map(|it| (it.name().to_owned(), it.tensor()))
        .collect();
    write_safetensors(&folder.path().join(WEIGHTS), &tensors, HashMap::new()).unwrap();
    folder
}

/// Exports a network of this architecture, and expects scores to be the same.
#[track_caller]
fn check(about: &About, format: Format, to: &Path) -> Exported {
    let folder = checkpoint(about, |_| {});
    let exported = export(folder.path(), format, to).unwrap();
    let apart = exported.compared.apart;
    assert!(apart <= 1e-5, "{format:?} {:?}: {apart}", about.net);
    assert_eq!(exported.path, to);
    assert!(exported.bytes > 4 * 100_000);
    exported
}

#[test]
fn every_network_is_written_in_every_format_with_the_scores_it_gives() {
    for network in NETWORKS {
        let about = about(network);
        for format in FORMATS {
            let folder = tempfile::tempdir().unwrap();
            check(&about, format.format, &folder.path().join("network"));
        }
    }
}

#[test]
fn a_resnet_for_photos_has_the_names_and_the_config_of_timm() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("network");
    let mut about = about(NETWORKS[0]);
    let exported = check(&about, Format::Safetensors, &to);
    assert_eq!(
        exported.notes,
        [
            "Divide scores by the temperature 1.7 before they become probabilities, as is done here; it is in the config and not in the weights."
        ]
    );
    let config: Json = serde_json::from_slice(&fs::read(to.join("config.json")).unwrap()).unwrap();
    let shown = &config["pretrained_cfg"];
    assert_eq!(config["architecture"], "resnet18");
    assert_eq!(config["label_names"][1], "cow, brown");
    assert_eq!(shown["mean"], json!([0.485, 0.456, 0.406]));
    assert_eq!(shown["interpolation"], "bicubic");
    let tensors = candle_core::safetensors::load(to.join(WEIGHTS), &Device::Cpu).unwrap();
    // As many as torchvision's network has, with the counters of its norms.
    assert_eq!(tensors.len(), 122);
    let counter = &tensors["layer2.0.downsample.1.num_batches_tracked"];
    assert_eq!((counter.dtype(), counter.rank()), (DType::I64, 0));
    let published = Published::open(&to).unwrap();
    assert_eq!(published.classes.as_ref(), Some(&about.classes));
    assert_eq!(published.view, about.view);
    assert_eq!(published.net, about.net);
    about.temperature = 1.0;
    let notes = check(&about, Format::Safetensors, &folder.path().join("other")).notes;
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_network_that_timm_does_not_know_says_so_and_is_opened_here() {
    for network in &NETWORKS[3..] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("network");
        let about = about(*network);
        let exported = check(&about, Format::Safetensors, &to);
        let sentence = "timm has no network of this shape, so its config is our own.";
        assert!(exported.notes[1].starts_with(sentence), "{exported:?}");
        let published = Published::open(&to).unwrap();
        assert_eq!(published.net, about.net);
        assert_eq!(published.view, about.view);
    }
}

#[test]
fn a_vit_is_written_for_timm_and_refused_in_formats_that_have_no_attention_here() {
    let sizes = Transformer {
        patch: 16,
        width: 192,
        layers: 12,
        heads: 3,
        hidden: 768,
        epsilon: 1e-6,
    };
    let mut about = about((Architecture::Vit, Stem::Photo, 224, 3));
    about.net.transformer = Some(sizes);
    about.view.crop_mode = CropMode::Squash;
    about.view.short_side = None;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("network");
    check(&about, Format::Safetensors, &to);
    let config: Json = serde_json::from_slice(&fs::read(to.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["architecture"], "vit_tiny_patch16_224");
    assert_eq!(config["pretrained_cfg"]["crop_mode"], "squash");
    assert_eq!(config["pretrained_cfg"]["crop_pct"], 1.0);
    // What transformers adds to a variance, timm has no name for.
    about.net.transformer = Some(Transformer {
        epsilon: 1e-12,
        ..sizes
    });
    let notes = check(&about, Format::Safetensors, &folder.path().join("other")).notes;
    assert!(
        notes[1].ends_with("the names are those of timm’s ViT."),
        "{notes:?}"
    );
    let checkpoint = checkpoint(&about, |_| {});
    for format in [Format::Onnx, Format::Coreml] {
        let to = folder.path().join("refused");
        let error = export(checkpoint.path(), format, &to).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with(
                "the network is a ViT, and of those only safetensors are written here"
            ),
            "{said}"
        );
        assert!(!to.exists());
    }
}

#[test]
fn how_often_a_picture_is_looked_at_is_said_where_others_look_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut about = about(NETWORKS[4]);
    about.view.looks = Looks::Six;
    let exported = check(&about, Format::Onnx, &folder.path().join("network.onnx"));
    let sentence = "Here the network looks at each picture six times, and takes the mean.";
    assert!(exported.notes[0].starts_with(sentence), "{exported:?}");
    assert_eq!(
        exported.notes[2],
        "It was shown pictures whose short side was scaled to 33 pixels (bicubic), and of which the middle of 28 x 28 was cut out."
    );
}

#[test]
fn what_is_there_already_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let about = about(NETWORKS[4]);
    let checkpoint = checkpoint(&about, |_| {});
    let file = folder.path().join("letter.txt");
    fs::write(&file, "Dear").unwrap();
    for format in FORMATS {
        for there in [&file, folder.path()] {
            let error = export(checkpoint.path(), format.format, there).unwrap_err();
            let words = "there is something already where the export would be";
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "Dear");
}

#[test]
fn a_network_that_can_not_be_written_leaves_nothing_behind() {
    let about = about(NETWORKS[5]);
    // A pool of largest numbers and a factor below 0 can't change places.
    let checkpoint = checkpoint(&about, |network| {
        let numbers = Tensor::full(-1f32, 64, &Device::Cpu).unwrap();
        network.set("group1.norm1.weight", &numbers).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::Onnx, Format::Coreml] {
        let to = folder.path().join("network");
        let error = export(checkpoint.path(), format, &to).unwrap_err();
        let words = "the norm `group1.norm1` follows no convolution that it could be put into";
        assert!(error.to_string().starts_with(words), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
