//! Files of pictures that somebody changed (see `hostile.rs`).

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use candle_core::{DType, Device};
use image::ImageFormat;
use models::{
    checkpoint::{folder::WEIGHTS, save::write_safetensors},
    limits::{self, Limit},
    tasks::picture::{
        augment::{Augmentation, Flip},
        classifier::{About, CLASSIFIER, Classifier},
        decode::{self, Alpha},
        doctor,
        pixels::{Picture, Shape},
        published::Published,
        source::{Choice, PictureSet},
    },
};
use serde_json::Value;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
    picture_cifar::{archive, cifar_names, cifar_pickle, cifar_records, unpacked_archive},
    picture_data::{encoded, idx, noise, packed, png},
    picture_nets, picture_published, picture_vit,
};

const TABLE: &str = "file_name,label,group\na.png,dog,1\nb.png,\"c, d\",\n";
const LINES: &str = "{\"file_name\": \"a.png\", \"label\": \"dog\", \"group\": 1}\n\n{\"file_name\": \"b.png\", \"label\": 7}\n";

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_files(work);
    readers.extend(of_idx(work));
    readers.extend(of_lists(work));
    readers.extend(of_cifar(work));
    readers.extend(of_networks(work));
    readers.extend(of_vit(work));
    readers.push(of_torch(work));
    readers.push(of_classifier(work));
    readers.push(of_class_names(work));
    readers.extend(of_archives(work));
    readers.push(of_pixels(work));
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

/// The same of a ViT, with the weights themselves, which the network is made of.
fn of_vit(work: &Path) -> [Reader; 2] {
    let file = picture_vit::goldens().swap_remove(0);
    let json = |part: &str| file[part].to_string().into_bytes();
    let files = [
        ("picture_vit", "config", "config.json"),
        (
            "picture_vit_seen",
            "preprocessor",
            "preprocessor_config.json",
        ),
    ];
    files.map(|(name, part, changed)| {
        let folder = folder(work, name);
        picture_published::write(&file, &folder);
        let (most, samples) = (Some(limits::MODEL_JSON), vec![json(part)]);
        reader(name, 3, most, folder.join(changed), samples, |file| {
            let published = Published::open(file.parent().unwrap_or(file))?;
            let network = published.network(None, 1, DType::F32, &Device::Cpu);
            network.map(drop)
        })
    })
}

/// The list of tensors in a file of PyTorch with a network. The file itself is put around it, since a changed one is refused by its sums.
fn of_torch(work: &Path) -> Reader {
    let golden = picture_nets::golden();
    let mut files = golden["files"].as_array().unwrap().iter();
    let file = files.find(|it| it["name"] == "small-grey").unwrap();
    let folder = folder(work, "picture_torch");
    let whole = picture_published::write(file, &folder);
    let mut parts = ZipArchive::new(File::open(whole).unwrap()).unwrap();
    let mut sample = Vec::new();
    for at in 0..parts.len() {
        let mut part = parts.by_index(at).unwrap();
        if part.name().unwrap().ends_with("/data.pkl") {
            part.read_to_end(&mut sample).unwrap();
        }
    }
    let path = folder.join("data.pkl");
    reader("picture_torch", 2, None, path, vec![sample], |file| {
        let whole = file.with_file_name("small.pth");
        let changed = file.with_file_name("changed.pth");
        put_list(&whole, file, &changed);
        let published = Published::open(&changed)?;
        let network = published.network(Some(3), 1, DType::F32, &Device::Cpu);
        network.map(drop)
    })
}

/// The file of PyTorch `from` with another list of tensors.
fn put_list(from: &Path, list: &Path, to: &Path) {
    let mut parts = ZipArchive::new(File::open(from).unwrap()).unwrap();
    let mut zip = ZipWriter::new(File::create(to).unwrap());
    for at in 0..parts.len() {
        let part = parts.by_index_raw(at).unwrap();
        let name = part.name().unwrap().into_owned();
        match name.ends_with("/data.pkl") {
            true => {
                let stored =
                    SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                zip.start_file(name, stored).unwrap();
                zip.write_all(&fs::read(list).unwrap()).unwrap();
            }
            false => zip.raw_copy_file(part).unwrap(),
        }
    }
    zip.finish().unwrap();
}

/// What a checkpoint says of its network, which is then asked.
fn of_classifier(work: &Path) -> Reader {
    let folder = folder(work, "picture_classifier");
    let file = picture_vit::goldens().swap_remove(0);
    let published = Published::open(&picture_published::write(&file, &folder)).unwrap();
    let network = published.network(None, 1, DType::F32, &Device::Cpu);
    let network = network.unwrap();
    let weights = network.parameters().iter();
    let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
    write_safetensors(&folder.join(WEIGHTS), &weights.collect(), HashMap::new()).unwrap();
    let about = About {
        net: published.net,
        classes: published.classes.unwrap(),
        view: published.view,
        temperature: 1.5,
    };
    about.save(&folder).unwrap();
    let path = folder.join(CLASSIFIER);
    let (most, sample) = (Some(limits::MODEL_JSON), fs::read(&path).unwrap());
    reader("picture_classifier", 3, most, path, vec![sample], |file| {
        let folder = file.parent().unwrap_or(file);
        let classifier = Classifier::open(folder, DType::F32, &Device::Cpu)?;
        let shape = Shape::new(5, 7, 3);
        let pixels = vec![7; shape.bytes()];
        classifier.predict(Picture { shape, pixels }).map(drop)
    })
}

/// A packed array of pictures, and an archive of CIFAR. What is in the archive is changed and then packed, or its sums would refuse it.
fn of_archives(work: &Path) -> [Reader; 3] {
    let gzip = folder(work, "picture_gzip");
    let pixels = packed(&idx(&[3, 4, 5], &noise(Shape::new(12, 5, 1), 1)));
    fs::write(gzip.join("train-labels-idx1-ubyte"), idx(&[3], &[0, 1, 1])).unwrap();
    let files = [
        ("data_batch_1.bin", cifar_records(3)),
        ("batches.meta.txt", b"a\nb\nc\n".to_vec()),
    ];
    let (tar, packed_tar) = (unpacked_archive(&files), archive(&files));
    let folders = ["picture_tar", "picture_tar_gzip"].map(|it| folder(work, it));
    let packed_file = folders[1].join("cifar-10-binary.tar.gz");
    let in_tar = |file: &Path| {
        let changed = file.with_file_name("cifar-10-binary.tar.gz");
        fs::write(&changed, packed(&fs::read(file).unwrap())).unwrap();
        read(&changed)
    };
    [
        reader(
            "picture_gzip",
            1,
            None,
            gzip.join("train-images-idx3-ubyte.gz"),
            vec![pixels],
            in_its_folder,
        ),
        reader(
            "picture_tar",
            3,
            None,
            folders[0].join("a.tar"),
            vec![tar],
            in_tar,
        ),
        reader(
            "picture_tar_gzip",
            1,
            None,
            packed_file,
            vec![packed_tar],
            read,
        ),
    ]
}

/// The file of pixels of a set that was read before.
fn of_pixels(work: &Path) -> Reader {
    let (data, cache) = (
        folder(work, "picture_pixels_of"),
        folder(work, "picture_pixels"),
    );
    for (number, class) in ["a", "b"].iter().enumerate() {
        fs::create_dir_all(data.join(class)).unwrap();
        for at in 0..3 {
            let file = data.join(class).join(format!("{at}.png"));
            fs::write(file, png(number as u64 * 3 + at)).unwrap();
        }
    }
    let choice = || Choice {
        side: Some(4),
        ..Choice::default()
    };
    PictureSet::read(std::slice::from_ref(&data), &choice(), Some(&cache)).unwrap();
    let file = fs::read_dir(&cache)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let sample = fs::read(&file).unwrap();
    Reader {
        read: reading(move |_| {
            let set = PictureSet::read(std::slice::from_ref(&data), &choice(), Some(&cache))?;
            doctor::examine(&set);
            Ok(())
        }),
        ..reader("picture_pixels", 2, None, file, vec![sample], read)
    }
}

/// What the classes of CIFAR are called.
fn of_class_names(work: &Path) -> Reader {
    let folder = folder(work, "cifar_names");
    fs::write(folder.join("data_batch_1"), cifar_pickle(3)).unwrap();
    let (most, file) = (Some(limits::PICTURE_PICKLE), folder.join("batches.meta"));
    reader(
        "cifar_names",
        2,
        most,
        file,
        vec![cifar_names()],
        in_its_folder,
    )
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
        megabytes: 512,
        ..Reader::small(name, share, most, file, samples, reading(read))
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
