//! Files of pictures that somebody changed (see `hostile.rs`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::Device;
use image::ImageFormat;
use models::{
    limits::{self, Limit},
    tasks::picture::{
        augment::{Augmentation, Flip},
        decode::{self, Alpha},
        doctor,
        pixels::Shape,
        published::Published,
        source::{Choice, PictureSet},
    },
};
use serde_json::Value;

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
    picture_cifar::{cifar_names, cifar_pickle, cifar_records},
    picture_data::{encoded, idx, noise},
    picture_nets, picture_published,
};

const TABLE: &str = "file_name,label,group\na.png,dog,1\nb.png,\"c, d\",\n";
const LINES: &str = "{\"file_name\": \"a.png\", \"label\": \"dog\", \"group\": 1}\n\n{\"file_name\": \"b.png\", \"label\": 7}\n";

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_files(work);
    readers.extend(of_idx(work));
    readers.extend(of_lists(work));
    readers.extend(of_cifar(work));
    readers.extend(of_networks(work));
    let table = fs::read(repository("tests/parquet/pictures.parquet")).unwrap();
    let file = folder(work, "picture_parquet").join("a.parquet");
    readers.push(reader("picture_parquet", 6, None, file, vec![table], read));
    readers
}

fn folder(work: &Path, name: &str) -> PathBuf {
    let folder = work.join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Arrays of pictures, and their labels.
fn of_idx(work: &Path) -> [Reader; 2] {
    let pixels = idx(&[3, 4, 5], &noise(Shape::new(12, 5, 1), 1));
    let labels = idx(&[3], &[0, 1, 1]);
    let files = [
        ("picture_idx", 3, "train-images-idx3-ubyte"),
        ("picture_idx_labels", 1, "train-labels-idx1-ubyte"),
    ];
    files.map(|(name, share, changed)| {
        let folder = folder(work, name);
        fs::write(folder.join(files[0].2), &pixels).unwrap();
        fs::write(folder.join(files[1].2), &labels).unwrap();
        let sample = if share == 3 { &pixels } else { &labels };
        reader(
            name,
            share,
            None,
            folder.join(changed),
            vec![sample.clone()],
            in_its_folder,
        )
    })
}

/// Lists of labels.
fn of_lists(work: &Path) -> [Reader; 2] {
    let lists = [
        ("picture_csv", "metadata.csv", TABLE),
        ("picture_jsonl", "metadata.jsonl", LINES),
    ];
    lists.map(|(name, file, text)| {
        let folder = folder(work, name);
        for (number, picture) in (1..).zip(["a.png", "b.png"]) {
            let shape = Shape::square(4, 3);
            let file = encoded(&noise(shape, number), shape, ImageFormat::Png);
            fs::write(folder.join(picture), file).unwrap();
        }
        let most = Some(limits::PICTURE_METADATA);
        reader(
            name,
            2,
            most,
            folder.join(file),
            vec![text.as_bytes().to_vec()],
            in_its_folder,
        )
    })
}

/// Batches of CIFAR in both forms.
fn of_cifar(work: &Path) -> [Reader; 2] {
    let most = Some(limits::PICTURE_PICKLE);
    let (binary, python) = (folder(work, "cifar_binary"), folder(work, "cifar_pickle"));
    fs::write(python.join("batches.meta"), cifar_names()).unwrap();
    let (binary, python) = (binary.join("data_batch_1.bin"), python.join("data_batch_1"));
    [
        reader(
            "cifar_binary",
            2,
            most,
            binary,
            vec![cifar_records(3)],
            in_its_folder,
        ),
        reader(
            "cifar_pickle",
            5,
            most,
            python,
            vec![cifar_pickle(3)],
            in_its_folder,
        ),
    ]
}

/// What describes a network of somebody else, beside its weights, of which only the shapes are read.
fn of_networks(work: &Path) -> [Reader; 2] {
    let golden = picture_nets::golden();
    let file = |name: &str| {
        let mut files = golden["files"].as_array().unwrap().iter();
        files.find(|it| it["name"] == name).unwrap()
    };
    let (timm, transformers) = (file("resnet18.a1_in1k"), file("resnet-18"));
    let json = |part: &Value| part.to_string().into_bytes();
    let (config, preprocessor) = ("config.json", "preprocessor_config.json");
    let samples = [
        vec![json(&timm["config"]), json(&transformers["config"])],
        vec![json(&transformers["preprocessor"])],
    ];
    let names = ["picture_network", "picture_preprocessor"];
    let mut files = samples.into_iter().zip(names).zip([config, preprocessor]);
    std::array::from_fn(|_| {
        let ((samples, name), changed) = files.next().unwrap();
        let folder = folder(work, name);
        picture_published::write_shapes(timm, &folder);
        fs::write(folder.join(config), json(&transformers["config"])).unwrap();
        fs::write(
            folder.join(preprocessor),
            json(&transformers["preprocessor"]),
        )
        .unwrap();
        let most = Some(limits::MODEL_JSON);
        reader(name, 2, most, folder.join(changed), samples, |file| {
            Published::open(file.parent().unwrap_or(file)).map(drop)
        })
    })
}

/// A reader for each format of pictures.
fn of_files(work: &Path) -> Vec<Reader> {
    let golden = repository("tests/goldens/pictures/golden.safetensors");
    let golden = candle_core::safetensors::load(golden, &Device::Cpu).unwrap();
    let samples = |begins: &str| -> Vec<Vec<u8>> {
        let mut names: Vec<&String> = golden.keys().collect();
        names.sort();
        let files = names
            .into_iter()
            .filter(|it| it.starts_with(begins) && it.ends_with(".file"));
        files.map(|it| golden[it].to_vec1().unwrap()).collect()
    };
    let formats = [
        ("picture_jpeg", 6, "jpeg."),
        ("picture_png", 6, "decode.png"),
        ("picture_gif", 3, "decode.gif"),
        ("picture_webp", 4, "decode.webp"),
        ("picture_bmp", 2, "decode.bmp"),
        ("picture_tiff", 5, "decode.tiff"),
        ("picture_pnm", 1, "decode.p"),
    ];
    let formats = formats.map(|(name, share, begins)| {
        let samples = match begins {
            "decode.p" => [samples("decode.ppm"), samples("decode.pgm")].concat(),
            begins => samples(begins),
        };
        let decoding = |file: &Path| {
            let refused = |problem: String| models::Error::format(file, problem);
            // What is too long is refused before it is read, as in a set.
            let bytes = limits::PICTURE_FILE.read(file, "read the picture")?;
            let picture = decode::decode(&bytes, Alpha::OnWhite).map_err(refused)?;
            assert_eq!(
                decode::shape(&bytes).unwrap().bytes() % picture.shape.height,
                0
            );
            assert_eq!(picture.pixels.len(), picture.shape.bytes());
            Ok(())
        };
        let (most, file) = (Some(limits::PICTURE_FILE), work.join(name));
        reader(name, share, most, file, samples, decoding)
    });
    formats.into()
}

fn reader(
    name: &'static str,
    share: usize,
    most: Option<Limit>,
    file: PathBuf,
    samples: Vec<Vec<u8>>,
    read: fn(&Path) -> models::Result<()>,
) -> Reader {
    Reader {
        name,
        share,
        most,
        megabytes: 512,
        seconds: 5.0,
        file,
        samples,
        read: reading(read),
    }
}

fn in_its_folder(file: &Path) -> models::Result<()> {
    read(file.parent().unwrap_or(file))
}

/// Reads a set, looks at all of it, and writes each picture as a network takes it.
fn read(path: &Path) -> models::Result<()> {
    let choice = Choice {
        held_out: 0.3,
        ..Choice::default()
    };
    let set = PictureSet::read(&[path.to_owned()], &choice, None)?;
    doctor::examine(&set);
    let augmentation = Augmentation {
        pad: 2,
        flip: Flip::Random,
        cutout: 2,
        jitter: 0.2,
        ..Augmentation::default()
    };
    let mut out = vec![0.0; set.shape.bytes()];
    for at in 0..set.len().min(20) {
        let (pixels, shape) = (set.pixels(at), set.shape);
        augmentation.write(pixels, shape, shape, &[0.5], &[0.2], 1, 0, at, &mut out);
        assert!(set.labels[at] < set.classes.len() as u32);
    }
    Ok(())
}
