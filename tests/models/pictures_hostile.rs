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
        source::{Choice, PictureSet},
    },
};

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
    picture_data::{cifar_pickle, cifar_records, encoded, idx, noise},
};

const TABLE: &str = "file_name,label,group\na.png,dog,1\nb.png,\"c, d\",\n";
const LINES: &str = "{\"file_name\": \"a.png\", \"label\": \"dog\", \"group\": 1}\n\n{\"file_name\": \"b.png\", \"label\": 7}\n";

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let folder = |name: &str| {
        let folder = work.join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    let mut readers = of_files(work);
    let (arrays, labels) = (folder("picture_arrays"), folder("picture_labels"));
    let pixels = idx(&[3, 4, 5], &noise(Shape::new(12, 5, 1), 1));
    for folder in [&arrays, &labels] {
        fs::write(folder.join("train-images-idx3-ubyte"), &pixels).unwrap();
        fs::write(
            folder.join("train-labels-idx1-ubyte"),
            idx(&[3], &[0, 1, 1]),
        )
        .unwrap();
    }
    let named = [("metadata.csv", TABLE), ("metadata.jsonl", LINES)];
    let of_metadata = named.map(|(name, text)| {
        let folder = folder(&format!("picture_{name}"));
        for picture in ["a.png", "b.png"] {
            let pixels = noise(
                Shape::square(4, 3),
                picture.len() as u64 + u64::from(picture.as_bytes()[0]),
            );
            fs::write(
                folder.join(picture),
                encoded(&pixels, Shape::square(4, 3), ImageFormat::Png),
            )
            .unwrap();
        }
        let name = if name.ends_with("csv") {
            ("picture_csv", name)
        } else {
            ("picture_jsonl", name)
        };
        let most = Some(limits::PICTURE_METADATA);
        reader(
            name.0,
            2,
            most,
            folder.join(name.1),
            vec![text.as_bytes().to_vec()],
            in_its_folder,
        )
    });
    readers.extend(of_metadata);
    let table = fs::read(repository("tests/parquet/pictures.parquet")).unwrap();
    let pickle = Some(limits::PICTURE_PICKLE);
    let (idx_of_labels, batch, python) = (idx(&[3], &[0, 1, 1]), cifar_records(3), cifar_pickle(3));
    let idx_file = arrays.join("train-images-idx3-ubyte");
    let idx_labels = labels.join("train-labels-idx1-ubyte");
    let binary = folder("cifar_binary").join("data_batch_1.bin");
    let of_python = folder("cifar_python");
    fs::write(
        of_python.join("batches.meta"),
        crate::picture_data::cifar_names(),
    )
    .unwrap();
    readers.extend([
        reader(
            "picture_idx",
            3,
            None,
            idx_file,
            vec![pixels],
            in_its_folder,
        ),
        reader(
            "picture_idx_labels",
            1,
            None,
            idx_labels,
            vec![idx_of_labels],
            in_its_folder,
        ),
        reader(
            "cifar_binary",
            2,
            pickle,
            binary,
            vec![batch],
            in_its_folder,
        ),
        reader(
            "cifar_pickle",
            5,
            pickle,
            of_python.join("data_batch_1"),
            vec![python],
            in_its_folder,
        ),
        reader(
            "picture_parquet",
            6,
            None,
            folder("picture_parquet").join("a.parquet"),
            vec![table],
            read,
        ),
    ]);
    readers
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
