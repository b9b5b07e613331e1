//! Networks that others have trained are opened as they are: those of timm and transformers by their folders, those of training scripts
//! by the names in their files. What they have to give is from `tests/goldens/picture_nets.py`, which read it from those programs.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::picture::{Architecture, Mode, Stem},
    checkpoint::{pytorch, save::write_safetensors},
    tasks::picture::published::Published,
};
use serde_json::{Value as Json, json};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    hostile::repository,
    picture_nets::{all, apart, golden, numbers, pictures, size, weight},
};

/// Names and shapes of tensors.
pub(crate) type Tensors = Vec<(String, Vec<usize>)>;

/// Names and shapes of a file.
pub(crate) fn listed(file: &Json) -> Tensors {
    let tensors = file["tensors"].as_array().unwrap().iter();
    let tensor = |it: &Json| {
        let shape = it[1].as_array().unwrap().iter().map(size).collect();
        (it[0].as_str().unwrap().to_owned(), shape)
    };
    tensors.map(tensor).collect()
}

/// Writes the files of a published network.
pub(crate) fn write(file: &Json, folder: &Path) -> PathBuf {
    let listed = listed(file);
    let is_counter = |name: &str| name.ends_with("num_batches_tracked");
    match file["layout"].as_str().unwrap() {
        "kuangliu" => {
            let path = folder.join("ckpt.pth");
            let mut zip = ZipWriter::new(File::create(&path).unwrap());
            let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
            let mut put = |name: &str, bytes: &[u8]| {
                zip.start_file(format!("archive/{name}"), stored).unwrap();
                zip.write_all(bytes).unwrap();
            };
            let list = repository("tests/goldens/picture_nets/kuangliu.pkl");
            put("data.pkl", &fs::read(list).unwrap());
            put("byteorder", b"little");
            for (number, (name, shape)) in listed.iter().enumerate() {
                let bytes: Vec<u8> = match is_counter(name) {
                    true => 7i64.to_le_bytes().to_vec(),
                    false => {
                        let numbers: Vec<f32> = weight(name, shape)
                            .flatten_all()
                            .unwrap()
                            .to_vec1()
                            .unwrap();
                        numbers.iter().flat_map(|it| it.to_le_bytes()).collect()
                    }
                };
                put(&format!("data/{number}"), &bytes);
            }
            put("version", b"3\n");
            zip.finish().unwrap();
            path
        }
        "small" => {
            let path = folder.join("small.pth");
            let tensors = listed.iter().filter(|it| !is_counter(&it.0));
            let tensors = tensors.map(|(name, shape)| (name.clone(), weight(name, shape)));
            pytorch::write(&path, &tensors.collect::<Vec<_>>()).unwrap();
            path
        }
        _ => {
            let tensor = |(name, shape): &(String, Vec<usize>)| {
                let tensor = match is_counter(name) {
                    true => Tensor::new(7i64, &Device::Cpu).unwrap(),
                    false => weight(name, shape),
                };
                (name.clone(), tensor)
            };
            let tensors: BTreeMap<_, _> = listed.iter().map(tensor).collect();
            let path = folder.join("model.safetensors");
            write_safetensors(&path, &tensors, HashMap::new()).unwrap();
            fs::write(folder.join("config.json"), file["config"].to_string()).unwrap();
            if let Some(preprocessor) = file.get("preprocessor") {
                let path = folder.join("preprocessor_config.json");
                fs::write(path, preprocessor.to_string()).unwrap();
            }
            folder.to_owned()
        }
    }
}

/// A file of the shapes of a published network, in which the disk has nothing where the numbers would be.
pub(crate) fn write_shapes(file: &Json, folder: &Path) {
    let mut end = 0;
    let mut header = serde_json::Map::new();
    for (name, shape) in listed(file) {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        let tensor = json!({"dtype": "F16", "shape": shape, "data_offsets": [start, end]});
        header.insert(name, tensor);
    }
    let header = Json::Object(header).to_string();
    let mut written = File::create(folder.join("model.safetensors")).unwrap();
    written
        .write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    written.write_all(header.as_bytes()).unwrap();
    written.set_len((8 + header.len() + end) as u64).unwrap();
}

/// Opens the files of a published network with this name.
fn open(name: &str) -> (tempfile::TempDir, Json, Published) {
    let golden = golden();
    let mut files = golden["files"].as_array().unwrap().iter();
    let file = files.find(|it| it["name"] == name).unwrap().clone();
    let folder = tempfile::tempdir().unwrap();
    let published = Published::open(&write(&file, folder.path())).unwrap();
    (folder, file, published)
}

/// Expects a network to be found, and to give the scores that its own library gives.
#[track_caller]
fn check(name: &str, architecture: Architecture, stem: Stem, classes: usize) -> Published {
    let (_folder, file, published) = open(name);
    let net = &published.net;
    assert_eq!(
        (net.architecture, net.stem, net.classes),
        (architecture, stem, classes)
    );
    let network = published
        .network(None, 1, DType::F32, &Device::Cpu)
        .unwrap();
    let (side, channels) = (size(&file["side"]), size(&file["channels"]));
    let pictures = pictures("pictures", 2, side, channels);
    let seen = network.see(None, &pictures, Mode::Running).unwrap();
    let apart = apart(&all(seen.scores.tensor()), &numbers(&file["scores"]));
    assert!(apart <= 1e-5, "{name}: {apart}");
    published
}

#[test]
fn networks_of_timm_give_the_scores_of_timm() {
    let published = check("resnet18.a1_in1k", Architecture::Resnet18, Stem::Photo, 7);
    let view = &published.view;
    assert_eq!(view.short_side, Some(235));
    assert_eq!(view.shape.height, 224);
    assert_eq!(view.mean, [0.485, 0.456, 0.406]);
    assert_eq!(published.licence.as_deref(), Some("apache-2.0"));
    assert_eq!(published.classes.as_ref().unwrap()[2], "cow, brown");
    assert!(published.notes.is_empty());
    check("resnet34", Architecture::Resnet34, Stem::Photo, 7);
    let published = check("resnet50.tv_in1k", Architecture::Resnet50, Stem::Photo, 7);
    assert_eq!(published.view.short_side, Some(256));
    assert_eq!(published.licence.as_deref(), Some("bsd-3-clause"));
}

#[test]
fn networks_of_transformers_give_the_scores_of_transformers() {
    let published = check("resnet-18", Architecture::Resnet18, Stem::Photo, 7);
    assert_eq!(published.view.short_side, Some(256));
    assert_eq!(published.view.mean, [0.5, 0.5, 0.5]);
    assert_eq!(published.classes.unwrap()[3], "Zürich");
    check("resnet-50", Architecture::Resnet50, Stem::Photo, 7);
}

#[test]
fn what_training_scripts_save_gives_the_scores_of_pytorch() {
    let published = check("kuangliu", Architecture::Resnet18, Stem::Small, 10);
    assert_eq!(published.net.sides, [32, 32]);
    assert_eq!(published.view.std, [0.2023, 0.1994, 0.2010]);
    assert_eq!(published.classes, None);
    assert_eq!(
        published.notes,
        [
            "The file doesn’t say how pictures were shown to the network. They are scaled and normalised with kuangliu’s CIFAR-10."
        ]
    );
    check("small", Architecture::Small, Stem::Small, 10);
    let published = check("small-grey", Architecture::Small, Stem::Small, 10);
    assert_eq!((published.net.sides, published.net.channels), ([28, 28], 1));
    assert_eq!(
        published.notes[0],
        "Its pictures are taken to have 28 x 28 pixels; the file says only that a side has 24 to 31."
    );
}

#[test]
fn a_head_for_other_classes_begins_anew_and_all_else_stays() {
    let (_folder, _, published) = open("small");
    let device = Device::Cpu;
    let old = published.network(None, 1, DType::F32, &device).unwrap();
    for classes in [4, 10] {
        let new = published
            .network(Some(classes), 1, DType::F32, &device)
            .unwrap();
        assert_eq!(new.config().classes, classes);
        for parameter in new.parameters().iter() {
            let numbers = all(&parameter.tensor());
            match parameter.name() {
                "fc2.weight" => {
                    assert_eq!(parameter.tensor().dims(), [classes, 128]);
                    let square = numbers.iter().map(|it| it * it).sum::<f64>();
                    let deviation = (square / numbers.len() as f64).sqrt();
                    assert!((0.009..0.011).contains(&deviation), "{deviation}");
                }
                "fc2.bias" => assert_eq!(numbers, vec![0.0; classes]),
                name => {
                    let before = old.parameters().get(name).unwrap().tensor();
                    assert_eq!(numbers, all(&before), "{name}");
                }
            }
        }
    }
}

/// Tensors of 0 with these names and shapes, in a folder with this config.
pub(crate) fn of_zeros(config: &str, tensors: &Tensors) -> models::Error {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |(name, shape): &(String, Vec<usize>)| {
        let tensor = Tensor::zeros(shape.as_slice(), DType::F16, &Device::Cpu).unwrap();
        (name.clone(), tensor)
    };
    let tensors: BTreeMap<_, _> = tensors.iter().map(tensor).collect();
    let path = folder.path().join("model.safetensors");
    write_safetensors(&path, &tensors, HashMap::new()).unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    Published::open(folder.path()).unwrap_err()
}

#[test]
fn networks_that_are_not_known_are_refused_by_what_they_have() {
    let golden = golden();
    let files = golden["files"].as_array().unwrap();
    let config = files[0]["config"].to_string();
    let whole = listed(&files[0]);
    let check = |change: &dyn Fn(&mut Tensors), words: &str| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        let error = of_zeros(&config, &tensors).to_string();
        assert!(error.starts_with(words), "{error}");
    };
    let rename = |from: &'static str, to: &'static str| {
        move |tensors: &mut Tensors| {
            let found = tensors.iter_mut().find(|it| it.0 == from).unwrap();
            found.0 = to.to_owned();
        }
    };
    check(
        &rename("conv1.weight", "conv1.0.weight"),
        "the network has a stem of three convolutions (ResNet-d and its kin), and only plain ResNets are known here: ",
    );
    check(
        &rename("layer1.0.bn2.bias", "layer1.0.se.fc1.bias"),
        "the network has squeeze-and-excitation in its blocks (SE-ResNet)",
    );
    check(
        &rename("layer4.1.bn2.bias", "layer4.1.bn2.offset"),
        "`layer4.1.bn2.bias` is missing in the network",
    );
    check(
        &|tensors| tensors.push(("extra".to_owned(), vec![1])),
        "`extra` is no part of the network that the other tensors are",
    );
    check(
        &|tensors| tensors.retain(|it| !it.0.starts_with("fc.")),
        "the network has no head: `fc.weight` is missing",
    );
    check(
        &|tensors| tensors.retain(|it| !it.0.starts_with("layer3.1.")),
        "the network has [2, 2, 1, 2] blocks of 2 convolutions",
    );
    check(
        &|tensors| tensors[0].1 = vec![64, 3, 5, 5],
        "the first kernel has 5 pixels",
    );
    check(
        &|tensors| tensors[0].1 = vec![32, 3, 7, 7],
        "`conv1.weight` is [32, 3, 7, 7], and [64, 3, 7, 7] in the network that the other tensors are",
    );
    check(
        &|tensors| {
            tensors.iter_mut().for_each(|it| {
                if it.0.starts_with("fc.") {
                    it.1[0] = 9
                }
            })
        },
        "its config says the classes are 7, and its weights 9",
    );
}

/// A field of a config, what it is changed to, and how the refusal begins.
pub(crate) type Refused = (&'static str, Json, &'static str);

fn refused_of_timm() -> Vec<Refused> {
    vec![
        (
            "/architecture",
            json!("resnet50d.ra2_in1k"),
            "the architecture `resnet50d.ra2_in1k` is not known here: resnet18, resnet34, resnet50 and ViTs such as vit_base_patch16_224 are",
        ),
        (
            "/architecture",
            json!("wide_resnet50_2"),
            "the architecture `wide_resnet50_2` is not known here",
        ),
        (
            "/model_args/stem_width",
            json!(32),
            "the network is built with `model_args.stem_width`",
        ),
        (
            "/global_pool",
            json!("catavgmax"),
            "the network ends with the pool `catavgmax`",
        ),
        (
            "/pretrained_cfg/crop_mode",
            json!("border"),
            "its pictures are cut by `crop_mode: border`",
        ),
        (
            "/pretrained_cfg/crop_mode",
            json!("squash"),
            "its pictures are squashed and then cut to 0.95 of a side",
        ),
        (
            "/pretrained_cfg/interpolation",
            json!("lanczos"),
            "its pictures are scaled by `lanczos`",
        ),
        (
            "/pretrained_cfg/crop_pct",
            json!(0.001),
            "its `crop_pct` is 0.001, which makes sides of 224000 pixels of 224",
        ),
        (
            "/pretrained_cfg/input_size",
            json!([3, 224, 192]),
            "its pictures have 192 x 224 pixels",
        ),
        (
            "/pretrained_cfg/input_size",
            json!([3, 100_000, 100_000]),
            "its `crop_pct` is 0.95, which makes sides of 105263 pixels of 100000",
        ),
        (
            "/pretrained_cfg/std",
            json!([1, 1, 0]),
            "its `std` is [1.0, 1.0, 0.0]",
        ),
        (
            "/pretrained_cfg/mean",
            json!([1, 1]),
            "its `mean` has 2 numbers, and its pictures 3 channels",
        ),
    ]
}

fn refused_of_transformers() -> Vec<Refused> {
    vec![
        (
            "/model_type",
            json!("beit"),
            "the network is of the type `beit`",
        ),
        (
            "/layer_type",
            json!("basic"),
            "the tensors are no network that is known here",
        ),
        (
            "/depths",
            json!([3, 4, 23, 3]),
            "the network has [3, 4, 23, 3] blocks of the type `bottleneck`",
        ),
        ("/hidden_act", json!("gelu"), "its `hidden_act` is `gelu`"),
        (
            "/downsample_in_bottleneck",
            json!(true),
            "its `downsample_in_bottleneck` is on",
        ),
        (
            "/id2label",
            json!({"1": "cat"}),
            "its `id2label` has no name for class 0",
        ),
    ]
}

#[test]
fn configs_that_are_not_known_are_refused_by_their_field() {
    let tensors = vec![("a".to_owned(), vec![1])];
    let golden = golden();
    let config_of = |name: &str| {
        let mut files = golden["files"].as_array().unwrap().iter();
        files.find(|it| it["name"] == name).unwrap()["config"].clone()
    };
    for (name, refused) in [
        ("resnet18.a1_in1k", refused_of_timm()),
        ("resnet-50", refused_of_transformers()),
    ] {
        for (pointer, value, words) in refused {
            let mut config = config_of(name);
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            config.pointer_mut(parent).unwrap()[field] = value;
            let error = of_zeros(&config.to_string(), &tensors).to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
