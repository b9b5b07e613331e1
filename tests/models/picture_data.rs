//! Pictures that runs learn from: every layout of files, how they are decoded and scaled, what is kept aside, and how they are seen.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use flate2::{Compression, write::GzEncoder};
use image::{ExtendedColorType, ImageFormat};
use models::{
    random::Random,
    tasks::picture::{
        augment::{Augmentation, Border, Flip, write_plain, write_shifted},
        decode::{self, Alpha},
        doctor,
        pixels::{Picture, Shape},
        resize::{Filter, fit_within, resize},
        source::{Choice, Overlap, PictureSet},
        store::DEFAULT_SIDE,
    },
};

use crate::hostile::repository;

const GOLDEN: &str = "tests/goldens/pictures/golden.safetensors";

fn read(path: &Path) -> models::Result<PictureSet> {
    PictureSet::read(&[path.to_owned()], &CHOICE, None)
}

const CHOICE: Choice = Choice {
    held_out: 0.25,
    side: None,
    short_side: None,
    channels: None,
    filter: Filter::Bilinear,
    alpha: Alpha::OnWhite,
    seed: 1,
};

#[track_caller]
fn check_refused<T: std::fmt::Debug>(read: models::Result<T>, words: &[&str]) {
    let error = read.unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

/// Pixels that are others for each number.
pub(crate) fn noise(shape: Shape, number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..shape.bytes()).map(|_| random.bits() as u8).collect()
}

/// A file of a picture.
pub(crate) fn encoded(pixels: &[u8], shape: Shape, format: ImageFormat) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let colour = if shape.channels == 1 {
        ExtendedColorType::L8
    } else {
        ExtendedColorType::Rgb8
    };
    let (width, height) = (shape.width as u32, shape.height as u32);
    image::write_buffer_with_format(&mut file, pixels, width, height, colour, format).unwrap();
    file.into_inner()
}

/// An IDX file of bytes.
pub(crate) fn idx(shape: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, shape.len() as u8];
    file.extend(shape.iter().flat_map(|it| it.to_be_bytes()));
    file.extend(bytes);
    file
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A folder with so many pictures of 5 x 4 to learn from, and others to test with.
fn arrays(folder: &Path, train: u32, test: u32) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    for (part, count, is_packed) in [("train", train, true), ("t10k", test, false)] {
        let pixels: Vec<u8> = (0..count)
            .flat_map(|at| noise(Shape::new(4, 5, 1), at.into()))
            .collect();
        let labels: Vec<u8> = (0..count).map(|at| (at % 3) as u8).collect();
        let files = [
            ("images-idx3", idx(&[count, 4, 5], &pixels)),
            ("labels-idx1", idx(&[count], &labels)),
        ];
        for (name, bytes) in files {
            match is_packed {
                true => fs::write(
                    folder.join(format!("{part}-{name}-ubyte.gz")),
                    packed(&bytes),
                ),
                false => fs::write(folder.join(format!("{part}-{name}-ubyte")), bytes),
            }
            .unwrap();
        }
    }
    folder.to_owned()
}

#[test]
fn idx_files_are_read_packed_or_not_with_the_parts_that_they_bring() {
    let folder = tempfile::tempdir().unwrap();
    let path = arrays(folder.path(), 40, 7);
    let set = read(&path).unwrap();
    assert_eq!(
        (set.shape, set.len(), set.decoded),
        (Shape::new(4, 5, 1), 47, 0)
    );
    assert_eq!(set.classes, ["0", "1", "2"]);
    assert_eq!(
        (set.train.len() + set.held_out.len(), set.test.len()),
        (40, 7)
    );
    assert!(!set.has_own_held_out && !set.held_out.is_empty());
    // Files come in the order of their names.
    assert_eq!(
        (set.names[0].as_str(), set.names[7].as_str()),
        ("test row 1", "train row 1")
    );
    assert_eq!(set.pixels(9), noise(set.shape, 2));
    assert_eq!(set.labels[9], 2);
    // The first seven are in both.
    let expected = set
        .test
        .iter()
        .filter(|at| set.train.contains(&(**at + 7)))
        .count();
    let overlap = Overlap {
        held_out_in_train: 0,
        test_in_train: expected,
        test_in_held_out: 7 - expected,
    };
    assert_eq!(set.overlap, overlap);
    fs::write(folder.path().join("classes.txt"), "cat\ndog\nbird\nfish\n").unwrap();
    assert_eq!(read(&path).unwrap().classes, ["cat", "dog", "bird", "fish"]);
    let only = PictureSet::read(&[path.join("train-images-idx3-ubyte.gz")], &CHOICE, None);
    assert_eq!(only.unwrap().len(), 40);
}

#[test]
fn an_idx_file_that_is_not_what_it_says_is_refused() {
    let check = |pictures: &[u8], labels: Option<Vec<u8>>, words: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train-images-idx3-ubyte"), pictures).unwrap();
        if let Some(labels) = labels {
            fs::write(folder.path().join("train-labels-idx1-ubyte"), labels).unwrap();
        }
        check_refused(read(folder.path()), words);
    };
    let labels = |count: u32| Some(idx(&[count], &vec![1; count as usize]));
    check(
        &idx(&[2, 2, 2], &[0; 8]),
        None,
        &["`train-labels-idx1-ubyte` is missing"],
    );
    check(
        &idx(&[2, 2, 2], &[0; 8]),
        labels(3),
        &["[3]", "there are 2 pictures"],
    );
    check(
        &idx(&[2, 2, 2], &[0; 7]),
        labels(2),
        &["declares [2, 2, 2] bytes, and has 7"],
    );
    check(
        &idx(&[2, 2, 2], &[0; 9]),
        labels(2),
        &["declares [2, 2, 2] bytes, and has more"],
    );
    check(&idx(&[2, 2], &[0; 4]), labels(2), &["dimensions [2, 2]"]);
    check(
        &idx(&[u32::MAX; 3], &[]),
        labels(2),
        &["17,179,869,184 bytes are the most"],
    );
    check(&[0, 0, 13, 3, 0], labels(2), &["fractions of 4 bytes"]);
    check(&[0, 0, 8, 3, 0], labels(2), &["ends in its header"]);
    check(&[0x1f, 0x8b, 8, 0, 0], labels(2), &["ends in its header"]);
    check(
        &idx(&[2, 2, 2], &[0; 8]),
        Some(idx(&[2], &[0, 0])),
        &["all pictures are of one class, `0`"],
    );
}

/// Writes files into a folder.
fn write(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn png(number: u64) -> Vec<u8> {
    let shape = Shape::new(6, 6, 3);
    encoded(&noise(shape, number), shape, ImageFormat::Png)
}

#[test]
fn folders_of_classes_are_read_in_the_order_of_code_points() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("Zebra/a.png", png(1)),
            ("ant/deep/er/b.PNG", png(2)),
            ("ant/a.png", png(3)),
            ("écureuil/x.png", png(4)),
            ("ant/.DS_Store", vec![1]),
            ("ant/Thumbs.db", vec![1]),
            ("__MACOSX/ant/._a.png", vec![1]),
            (".git/a.png", png(5)),
            ("ant/notes.txt", vec![1]),
            ("ant/broken.jpg", vec![0xff, 0xd8, 0xff, 0xe0]),
            ("stray.png", png(6)),
        ],
    );
    let set = read(folder.path()).unwrap();
    assert_eq!(set.classes, ["Zebra", "ant", "écureuil"]);
    assert_eq!(
        set.names,
        [
            "Zebra/a.png",
            "ant/a.png",
            "ant/deep/er/b.PNG",
            "écureuil/x.png"
        ]
    );
    assert_eq!(set.labels, [0, 1, 1, 2]);
    assert_eq!(set.shape, Shape::square(6, 3));
    assert_eq!(set.pixels(2), noise(set.shape, 2));
    let mut problems: Vec<&str> = set.problems.iter().map(|it| it.name.as_str()).collect();
    problems.sort_unstable();
    assert_eq!(problems, ["ant/broken.jpg", "ant/notes.txt", "stray.png"]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    check_refused(read(folder.path()), &["the class `empty` has no picture"]);
    check_refused(
        read(&folder.path().join("Zebra")),
        &["has 1 picture and no folder for each class"],
    );
}

#[test]
fn parts_that_a_folder_brings_are_kept_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for at in 0..12 {
        files.push((
            format!("train/{}/{at}.png", ["a", "b"][at % 2]),
            png(at as u64),
        ));
    }
    // Two of them again, one under another label.
    files.extend([
        ("val/a/1.png".to_owned(), png(0)),
        ("val/b/2.png".to_owned(), png(100)),
    ]);
    files.extend([
        ("test/b/3.png".to_owned(), png(4)),
        ("test/a/4.png".to_owned(), png(100)),
    ]);
    let files: Vec<(&str, Vec<u8>)> = files
        .iter()
        .map(|(name, it)| (name.as_str(), it.clone()))
        .collect();
    write(folder.path(), &files);
    let set = read(folder.path()).unwrap();
    assert_eq!(
        (set.train.len(), set.held_out.len(), set.test.len()),
        (12, 2, 2)
    );
    assert!(set.has_own_held_out);
    let overlap = Overlap {
        held_out_in_train: 1,
        test_in_train: 1,
        test_in_held_out: 1,
    };
    assert_eq!((set.classes.len(), set.overlap), (2, overlap));
}

#[test]
fn a_list_of_labels_is_read_with_its_groups() {
    let table = "file_name,label,group\na.png,dog,1\nin/b.png,cat,1\nc.png,dog,2\nmissing.png,cat,2\nd.png,,2\n";
    let lines = "{\"file_name\": \"a.png\", \"label\": \"dog\", \"group\": 1}\n\n{\"file_name\": \"in/b.png\", \"label\": \"cat\", \"group\": 1}\n\
                 {\"file_name\": \"c.png\", \"label\": \"dog\", \"group\": \"2\"}\n{\"file_name\": \"missing.png\", \"label\": \"cat\"}\n\
                 {\"file_name\": \"d.png\", \"label\": null}\n";
    for (name, text) in [("metadata.csv", table), ("metadata.jsonl", lines)] {
        let folder = tempfile::tempdir().unwrap();
        let pictures = [
            ("a.png", png(1)),
            ("in/b.png", png(2)),
            ("c.png", png(3)),
            ("d.png", png(4)),
        ];
        write(folder.path(), &pictures);
        write(folder.path(), &[(name, text.as_bytes().to_vec())]);
        let set = read(folder.path()).unwrap();
        assert_eq!(
            (set.classes.join(" "), &set.labels[..]),
            ("cat dog".to_owned(), &[1, 0, 1][..])
        );
        let groups = set.groups.as_ref().unwrap();
        assert!(groups[0] == groups[1] && groups[1] != groups[2]);
        assert_eq!(set.held_out.contains(&0), set.held_out.contains(&1));
        let problems: Vec<&str> = set.problems.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(problems, ["missing.png", "d.png"]);
    }
    for (table, word) in [
        (
            "file_name,label\n../a.png,dog\n",
            "line 2: `../a.png` is not in the folder",
        ),
        (
            "file_name,label\n/etc/a.png,dog\n",
            "line 2: `/etc/a.png` is not in the folder",
        ),
        (
            "file_name,label\na.png,dog\na.png,cat\n",
            "line 3: `a.png` is named a second time",
        ),
        ("name,label\na.png,dog\n", "line 2: has no `file_name`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("a.png", png(1)),
                ("metadata.csv", table.as_bytes().to_vec()),
            ],
        );
        check_refused(read(folder.path()), &[word]);
    }
}

fn golden() -> HashMap<String, Tensor> {
    candle_core::safetensors::load(repository(GOLDEN), &Device::Cpu).unwrap()
}

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn picture_of(tensor: &Tensor) -> Picture {
    let (height, width, channels) = tensor.dims3().unwrap();
    Picture {
        shape: Shape::new(height, width, channels),
        pixels: bytes_of(tensor),
    }
}

/// Pillow's results: see `tests/goldens/pictures.py`.
#[test]
fn pictures_are_scaled_to_the_bytes_that_pillow_makes() {
    let golden = golden();
    let mut compared = 0;
    for (name, tensor) in &golden {
        let Some((case, "from")) = name.rsplit_once('.') else {
            continue;
        };
        let from = picture_of(tensor);
        for (name, filter) in [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)] {
            let expected = picture_of(&golden[&format!("{case}.{name}")]);
            let Shape { height, width, .. } = expected.shape;
            let found = match case.strip_prefix("fit.") {
                Some(rest) => {
                    let short = rest.split('.').next_back().unwrap().parse().unwrap();
                    fit_within(&from, short, height, filter)
                }
                None => resize(&from, height, width, filter),
            };
            assert_eq!(found, expected, "{case} {name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 26);
}

#[test]
fn files_are_decoded_to_the_pixels_that_pillow_finds() {
    let golden = golden();
    let mut compared = 0;
    for (name, file) in &golden {
        let Some((case, "file")) = name.rsplit_once('.') else {
            continue;
        };
        let (file, expected) = (
            bytes_of(file),
            picture_of(&golden[&format!("{case}.pixels")]),
        );
        let found =
            decode::decode(&file, Alpha::Dropped).unwrap_or_else(|error| panic!("{case} {error}"));
        assert_eq!(decode::shape(&file).unwrap(), found.shape, "{case}");
        let found = found.with_channels(expected.shape.channels);
        assert_eq!(found.shape, expected.shape, "{case}");
        let apart = found
            .pixels
            .iter()
            .zip(&expected.pixels)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        // Decoders of JPEG round their cosines and spread their colours in ways of their own.
        let most = if case.starts_with("jpeg") { 4 } else { 0 };
        assert!(apart <= Some(most), "{case}: {apart:?} apart");
        compared += 1;
    }
    assert_eq!(compared, 36);
}

#[test]
fn what_can_be_seen_through_stands_on_white() {
    let mut file = std::io::Cursor::new(Vec::new());
    let pixels = [200, 100, 0, 0, 200, 100, 0, 255, 200, 100, 0, 51];
    image::write_buffer_with_format(
        &mut file,
        &pixels,
        3,
        1,
        ExtendedColorType::Rgba8,
        ImageFormat::Png,
    )
    .unwrap();
    let file = file.into_inner();
    let on_white = decode::decode(&file, Alpha::OnWhite).unwrap();
    assert_eq!(on_white.pixels, [255, 255, 255, 200, 100, 0, 244, 224, 204]);
    let dropped = decode::decode(&file, Alpha::Dropped).unwrap();
    assert_eq!(dropped.pixels, [200, 100, 0].repeat(3));
}

#[test]
fn what_is_no_whole_picture_is_refused_with_the_reason() {
    let golden = golden();
    let jpeg = bytes_of(&golden["jpeg.baseline.file"]);
    let png = bytes_of(&golden["decode.png-colour.file"]);
    let heic = [&[0, 0, 0, 24], &b"ftypheic\0\0\0\0mif1heic"[..]].concat();
    let mut large = png.clone();
    // The width and the height of a PNG stand behind its first 16 bytes, and a sum behind its header.
    large[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
    let sum = crc32(&large[12..29]);
    large[29..33].copy_from_slice(&sum.to_be_bytes());
    for (bytes, words) in [
        (&jpeg[..jpeg.len() - 2], "the end of the JPEG is missing"),
        (&jpeg[..jpeg.len() / 2], "the end of the JPEG is missing"),
        (&png[..png.len() / 2], "can’t be decoded"),
        (&heic, "is HEIC, which can’t be read here; convert it"),
        (
            &large,
            "has 16384 x 16384 pixels, which is 268,435,456, and 100,000,000 pixels are the most",
        ),
        (b"", "is empty"),
        (
            b"some words that are no picture",
            "is no picture that can be read",
        ),
        (b"%PDF-1.7 and more of it", "is no picture that can be read"),
    ] {
        let error = decode::decode(bytes, Alpha::OnWhite).unwrap_err();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    }
}

/// The sum of a part of a PNG.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

#[test]
fn photos_of_many_sizes_become_one_and_a_common_size_stays() {
    let photo = |side: usize, number: u64| {
        let shape = Shape::new(side, side + 4, 3);
        encoded(&noise(shape, number), shape, ImageFormat::Png)
    };
    let check = |sizes: &[usize], choice: Choice, expected: Shape| {
        let folder = tempfile::tempdir().unwrap();
        for (at, side) in sizes.iter().enumerate() {
            write(
                folder.path(),
                &[(
                    &format!("{}/{at}.png", ["a", "b"][at % 2]),
                    photo(*side, at as u64),
                )],
            );
        }
        let set = PictureSet::read(&[folder.path().to_owned()], &choice, None).unwrap();
        assert_eq!(
            (set.shape, set.len(), set.decoded),
            (expected, sizes.len(), sizes.len())
        );
        assert!((0..set.len()).all(|at| set.pixels(at).len() == expected.bytes()));
    };
    check(&[20; 4], CHOICE, Shape::new(20, 24, 3));
    check(&[20, 20, 20, 30], CHOICE, Shape::square(DEFAULT_SIDE, 3));
    check(&[300; 2], CHOICE, Shape::square(DEFAULT_SIDE, 3));
    let choice = Choice {
        side: Some(16),
        short_side: Some(18),
        channels: Some(1),
        ..CHOICE
    };
    check(&[20, 30, 18], choice, Shape::square(16, 1));
    let folder = tempfile::tempdir().unwrap();
    let square = |side: usize, number: u64| {
        let shape = Shape::square(side, 1);
        encoded(&noise(shape, number), shape, ImageFormat::Png)
    };
    for at in 0..20 {
        write(
            folder.path(),
            &[(
                &format!("{}/{at}.png", ["a", "b"][at % 2]),
                square(if at == 7 { 90 } else { 10 }, at as u64),
            )],
        );
    }
    assert_eq!(read(folder.path()).unwrap().shape, Shape::square(10, 1));
    let refused = |choice: Choice| PictureSet::read(&[folder.path().to_owned()], &choice, None);
    check_refused(
        refused(Choice {
            side: Some(0),
            ..CHOICE
        }),
        &["`data.side` is 0"],
    );
    check_refused(
        refused(Choice {
            side: Some(5000),
            ..CHOICE
        }),
        &["4,096 pixels are the most"],
    );
    check_refused(
        refused(Choice {
            side: Some(9),
            short_side: Some(8),
            ..CHOICE
        }),
        &["`data.short_side` is 8"],
    );
    check_refused(
        refused(Choice {
            channels: Some(2),
            ..CHOICE
        }),
        &["`data.channels` is 2"],
    );
    check_refused(
        refused(Choice {
            held_out: 1.0,
            ..CHOICE
        }),
        &["`data.held_out` is 1"],
    );
}

#[test]
fn one_picture_in_two_formats_is_on_one_side() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape::square(6, 3);
    for at in 0..60 {
        let pixels = noise(shape, at);
        let class = ["a", "b"][at as usize % 2];
        for (ending, format) in [("png", ImageFormat::Png), ("bmp", ImageFormat::Bmp)] {
            write(
                folder.path(),
                &[(
                    &format!("{class}/{at}.{ending}"),
                    encoded(&pixels, shape, format),
                )],
            );
        }
    }
    let mut set = read(folder.path()).unwrap();
    let sides = |set: &PictureSet| -> BTreeMap<u64, Vec<bool>> {
        let mut sides = BTreeMap::<u64, Vec<bool>>::new();
        for at in 0..set.len() {
            sides
                .entry(set.identities[at])
                .or_default()
                .push(set.held_out.contains(&at));
        }
        sides
    };
    let by_picture = sides(&set);
    assert_eq!((by_picture.len(), set.overlap), (60, Overlap::default()));
    assert!(
        by_picture
            .values()
            .all(|it| it.len() == 2 && it[0] == it[1])
    );
    assert!(
        (10..60).contains(&set.held_out.len()),
        "{}",
        set.held_out.len()
    );
    // By groups, all of a group go together, and equal pictures still do.
    let groups: Vec<u64> = (0..120).map(|at| at / 7).collect();
    set.split_by_groups(&groups, 5).unwrap();
    assert!(sides(&set).values().all(|it| it[0] == it[1]));
    for group in 0..17 {
        let mut members = (0..120).filter(|at| groups[*at] == group);
        let first = set.held_out.contains(&members.next().unwrap());
        assert!(members.all(|at| set.held_out.contains(&at) == first));
    }
    assert_eq!(set.train.len() + set.held_out.len(), 120);
    assert!(!set.held_out.is_empty() && !set.train.is_empty());
    check_refused(
        set.split_by_groups(&groups[1..], 5),
        &["119 groups for 120 pictures"],
    );
}

#[test]
fn a_second_reading_decodes_nothing_and_a_damaged_file_of_pixels_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (data, cache) = (folder.path().join("data"), folder.path().join("cache"));
    for at in 0..9 {
        write(
            &data,
            &[(&format!("{}/{at}.png", ["a", "b"][at % 2]), png(at as u64))],
        );
    }
    write(&data, &[("a/x.png", b"\x89PNG\r\n\x1a\n".to_vec())]);
    let read = |choice: &Choice| {
        PictureSet::read(std::slice::from_ref(&data), choice, Some(&cache)).unwrap()
    };
    let first = read(&CHOICE);
    assert_eq!((first.decoded, first.problems.len()), (9, 1));
    let again = read(&CHOICE);
    assert_eq!(again.decoded, 0);
    let all = |set: &PictureSet| -> Vec<Vec<u8>> {
        (0..set.len()).map(|at| set.pixels(at).to_vec()).collect()
    };
    assert_eq!(all(&again), all(&first));
    assert_eq!(
        (&again.identities, &again.names),
        (&first.identities, &first.names)
    );
    assert_eq!(
        (&again.held_out, &again.problems),
        (&first.held_out, &first.problems)
    );
    let files = || -> Vec<PathBuf> {
        fs::read_dir(&cache)
            .unwrap()
            .map(|it| it.unwrap().path())
            .collect()
    };
    let [file] = files().try_into().unwrap();
    drop((first, again));
    let whole = fs::read(&file).unwrap();
    for at in [0, whole.len() / 2, whole.len() - 30, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        fs::write(&file, damaged).unwrap();
        assert_eq!(read(&CHOICE).decoded, 9, "byte {at}");
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    assert_eq!(read(&CHOICE).decoded, 9);
    // Another picture, or another size, is another file.
    assert_eq!(
        read(&Choice {
            side: Some(4),
            ..CHOICE
        })
        .decoded,
        9
    );
    write(&data, &[("a/0.png", png(77))]);
    assert_eq!(read(&CHOICE).decoded, 9);
    assert_eq!(files().len(), 3);
}

const MEAN: [f32; 3] = [0.5, 0.4, 0.3];
const STD: [f32; 3] = [0.2, 0.25, 0.3];

fn seen(
    augmentation: &Augmentation,
    shape: Shape,
    to: Shape,
    epoch: usize,
    row: usize,
) -> Vec<f32> {
    let mut out = vec![0.0; to.bytes()];
    augmentation.write(
        &noise(shape, row as u64),
        shape,
        to,
        &MEAN,
        &STD,
        9,
        epoch,
        row,
        &mut out,
    );
    out
}

#[test]
fn how_a_picture_is_seen_follows_from_its_epoch_and_row_alone() {
    let shape = Shape::new(12, 10, 3);
    for augmentation in [
        Augmentation {
            pad: 2,
            flip: Flip::Random,
            cutout: 3,
            ..Augmentation::default()
        },
        Augmentation {
            random_resized_crop: Some((0.3, 1.0)),
            jitter: 0.4,
            ..Augmentation::default()
        },
        Augmentation {
            pad: 4,
            border: Border::Zeros,
            flip: Flip::Alternating,
            jitter: 0.2,
            ..Augmentation::default()
        },
    ] {
        let forward: Vec<_> = (0..50)
            .map(|row| seen(&augmentation, shape, shape, 3, row))
            .collect();
        let backward: Vec<_> = (0..50)
            .rev()
            .map(|row| seen(&augmentation, shape, shape, 3, row))
            .collect();
        assert!(forward.iter().eq(backward.iter().rev()));
        let other: Vec<_> = (0..50)
            .map(|row| seen(&augmentation, shape, shape, 4, row))
            .collect();
        assert!(forward.iter().zip(&other).filter(|(a, b)| a != b).count() > 35);
        assert!(forward.iter().flatten().all(|it| it.is_finite()));
    }
}

/// What a byte is as a number of a channel.
fn number(byte: u8, channel: usize) -> f32 {
    (f32::from(byte) / 255.0 - MEAN[channel]) / STD[channel]
}

#[test]
fn a_shift_with_a_border_is_the_part_of_the_picture_that_it_says() {
    // So wide that no part of it is the mirror of another.
    let shape = Shape::new(5, 7, 3);
    for border in [Border::Reflect, Border::Zeros] {
        let augmentation = Augmentation {
            pad: 2,
            border,
            flip: Flip::Random,
            ..Augmentation::default()
        };
        let (mut places, mut mirrored) = (BTreeMap::new(), 0);
        for row in 0..400 {
            let (found, pixels) = (
                seen(&augmentation, shape, shape, 0, row),
                noise(shape, row as u64),
            );
            let inside = |at: isize, count: usize| match border {
                _ if (0..count as isize).contains(&at) => Some(at as usize),
                Border::Zeros => None,
                Border::Reflect if at < 0 => Some(-at as usize),
                Border::Reflect => Some(2 * (count - 1) - at as usize),
            };
            let is = |top: isize, left: isize, is_mirrored: bool| {
                (0..5).all(|y: isize| {
                    (0..7).all(|x: isize| {
                        let column = if is_mirrored { 6 - x } else { x };
                        let place = inside(y + top, 5).zip(inside(column + left, 7));
                        (0..3).all(|channel| {
                            let byte = place.map_or(0, |(y, x)| pixels[(y * 7 + x) * 3 + channel]);
                            found[((y * 7 + x) * 3) as usize + channel] == number(byte, channel)
                        })
                    })
                })
            };
            let all = (-2..=2).flat_map(|top| (-2..=2).map(move |left| (top, left)));
            let place = all
                .clone()
                .find(|(top, left)| is(*top, *left, false))
                .map(|it| (it, false));
            let place = place.or_else(|| {
                all.clone()
                    .find(|(top, left)| is(*top, *left, true))
                    .map(|it| (it, true))
            });
            let (place, is_mirrored) = place.unwrap();
            *places.entry(place).or_insert(0) += 1;
            mirrored += usize::from(is_mirrored);
        }
        assert_eq!(places.len(), 25);
        assert!(places.values().all(|it| *it > 3));
        assert!((150..250).contains(&mirrored), "{mirrored}");
    }
}

#[test]
fn every_picture_is_seen_both_ways_in_two_epochs_where_mirrors_alternate() {
    let shape = Shape::new(2, 3, 3);
    let augmentation = Augmentation {
        flip: Flip::Alternating,
        ..Augmentation::default()
    };
    let mut first = 0;
    for row in 0..200 {
        let mut plain = vec![0.0; shape.bytes()];
        write_plain(
            &noise(shape, row as u64),
            shape,
            shape,
            &MEAN,
            &STD,
            &mut plain,
        );
        let ways = [0, 1, 2, 3].map(|epoch| seen(&augmentation, shape, shape, epoch, row) == plain);
        assert!(ways[0] != ways[1] && ways[0] == ways[2] && ways[1] == ways[3]);
        first += usize::from(ways[0]);
    }
    assert!((70..130).contains(&first), "{first}");
}

#[test]
fn a_square_is_blotted_out_after_the_numbers_were_made() {
    let shape = Shape::square(8, 3);
    let augmentation = Augmentation {
        cutout: 4,
        ..Augmentation::default()
    };
    let mut sizes = BTreeMap::new();
    for row in 0..200 {
        let pixels = noise(shape, row as u64);
        let found = seen(&augmentation, shape, shape, 0, row);
        let blotted = |at: usize| (0..3).all(|channel| found[at * 3 + channel] == 0.0);
        let count = (0..64).filter(|at| blotted(*at)).count();
        *sizes.entry(count).or_insert(0) += 1;
        for at in (0..64).filter(|at| !blotted(*at)) {
            for channel in 0..3 {
                assert_eq!(
                    found[at * 3 + channel],
                    number(pixels[at * 3 + channel], channel)
                );
            }
        }
    }
    // A whole square, and those that the edges cut: two or three of four rows and columns are the least.
    assert!(
        sizes.keys().all(|it| [4, 6, 8, 9, 12, 16].contains(it)),
        "{sizes:?}"
    );
    assert!(sizes[&16] > 40);
}

#[test]
fn a_picture_is_measured_with_as_it_is() {
    let shape = Shape::new(4, 6, 1);
    let pixels: Vec<u8> = (0..24).collect();
    let mut out = vec![9.0; 2 * 3 * 3];
    write_plain(
        &pixels,
        shape,
        Shape::new(2, 3, 3),
        &[0.0],
        &[1.0 / 255.0],
        &mut out,
    );
    // Rows 1 and 2; (6 - 3) / 2 is 1.5, which goes to 2. Grey is in all channels.
    let expected = [8, 9, 10, 14, 15, 16].map(|it| (it as f32 / 255.0) / (1.0 / 255.0));
    assert!(
        out.chunks(3)
            .zip(expected)
            .all(|(pixel, it)| pixel == [it; 3])
    );
    let mut shifted = vec![9.0; 24];
    let mut mirrored = vec![9.0; 24];
    write_shifted(
        &pixels,
        shape,
        shape,
        (-1, 0),
        false,
        &[0.0],
        &[1.0],
        &mut shifted,
    );
    write_shifted(
        &pixels,
        shape,
        shape,
        (-1, 0),
        true,
        &[0.0],
        &[1.0],
        &mut mirrored,
    );
    let rows = [1, 0, 1, 2];
    for (at, row) in rows.into_iter().enumerate() {
        for column in 0..6 {
            let expected = (row * 6 + column) as f32 / 255.0;
            assert_eq!(
                (shifted[at * 6 + column], mirrored[at * 6 + 5 - column]),
                (expected, expected)
            );
        }
    }
    // One that is too small is scaled.
    let mut larger = vec![9.0; 64];
    write_plain(
        &[7; 24],
        shape,
        Shape::square(8, 1),
        &[0.0],
        &[1.0],
        &mut larger,
    );
    assert!(larger.iter().all(|it| *it == 7.0 / 255.0));
}

/// Records of CIFAR-10, each with its number as label.
pub(crate) fn cifar_records(count: u8) -> Vec<u8> {
    let planes = |at: u8| noise(Shape::square(32, 3), at.into());
    (0..count)
        .flat_map(|at| [vec![at], planes(at)].concat())
        .collect()
}

/// A text, as Python 2 writes it.
fn short_text(text: &str) -> Vec<u8> {
    [&[b'U', text.len() as u8], text.as_bytes()].concat()
}

/// A batch of CIFAR-10, as Python 2 writes it with protocol 2: each record with its number as label.
pub(crate) fn cifar_pickle(count: u8) -> Vec<u8> {
    let data: Vec<u8> = (0..count)
        .flat_map(|at| noise(Shape::square(32, 3), at.into()))
        .collect();
    let mut file = [b"\x80\x02}q\x01(".to_vec(), short_text("data")].concat();
    file.extend(b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nK\0\x85");
    file.extend([short_text("b"), b"\x87R(K\x01".to_vec()].concat());
    file.extend(
        [
            &[b'K', count, b'M'][..],
            &3072_u16.to_le_bytes(),
            b"\x86cnumpy\ndtype\n",
        ]
        .concat(),
    );
    file.extend(
        [
            short_text("u1"),
            b"K\0K\x01\x87R(K\x03".to_vec(),
            short_text("|"),
        ]
        .concat(),
    );
    file.extend(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T");
    file.extend([&(data.len() as u32).to_le_bytes()[..], &data, b"tb"].concat());
    file.extend([short_text("labels"), b"](".to_vec()].concat());
    file.extend((0..count).flat_map(|at| [b'K', at]));
    file.extend(
        [
            b"e".to_vec(),
            short_text("batch_label"),
            short_text("training batch 1 of 5"),
            b"u.".to_vec(),
        ]
        .concat(),
    );
    file
}

/// The names of four classes, the same way.
pub(crate) fn cifar_names() -> Vec<u8> {
    let mut file = [
        b"\x80\x02}q\x01".to_vec(),
        short_text("label_names"),
        b"](".to_vec(),
    ]
    .concat();
    file.extend(
        ["airplane", "automobile", "bird", "cat"]
            .into_iter()
            .flat_map(short_text),
    );
    file.extend(b"es.");
    file
}

/// An archive of these files.
fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in files {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[156] = b'0';
        archive.extend(header);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    packed(&archive)
}

#[test]
fn cifar_is_read_in_both_forms_from_a_folder_and_from_an_archive() {
    let names = b"airplane\nautomobile\nbird\ncat\n\n".to_vec();
    let binary = [
        ("data_batch_1.bin", cifar_records(4)),
        ("test_batch.bin", cifar_records(2)),
        ("batches.meta.txt", names),
    ];
    let python = [
        ("data_batch_1", cifar_pickle(4)),
        ("test_batch", cifar_pickle(2)),
        ("batches.meta", cifar_names()),
    ];
    for (folder_name, files) in [
        ("cifar-10-batches-bin", &binary),
        ("cifar-10-batches-py", &python),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join(folder_name), files);
        let inner = files
            .iter()
            .map(|(name, bytes)| (format!("{folder_name}/{name}"), bytes.clone()));
        let inner: Vec<(String, Vec<u8>)> = inner.collect();
        let inner: Vec<(&str, Vec<u8>)> = inner
            .iter()
            .map(|(name, it)| (name.as_str(), it.clone()))
            .collect();
        let packed = folder.path().join("cifar-10.tar.gz");
        fs::write(&packed, archive(&inner)).unwrap();
        for path in [
            folder.path().to_owned(),
            folder.path().join(folder_name),
            packed,
        ] {
            let set = read(&path).unwrap();
            assert_eq!(set.classes, ["airplane", "automobile", "bird", "cat"]);
            assert_eq!(
                (set.shape, set.labels.as_slice()),
                (Shape::square(32, 3), &[0, 1, 2, 3, 0, 1][..])
            );
            assert_eq!(set.names[3..5], ["train row 4", "test row 1"]);
            assert_eq!(
                (set.train.len() + set.held_out.len(), set.test.len()),
                (4, 2)
            );
            let planes = noise(set.shape, 2);
            let expected: Vec<u8> = (0..1024)
                .flat_map(|at| [0, 1, 2].map(|channel| planes[channel * 1024 + at]))
                .collect();
            assert_eq!(set.pixels(2), expected);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let fine = |count: u8| -> Vec<u8> {
        cifar_records(count)
            .chunks(3073)
            .flat_map(|it| [&[9], it].concat())
            .collect()
    };
    write(
        folder.path(),
        &[
            ("train.bin", fine(3)),
            ("test.bin", fine(2)),
            ("fine_label_names.txt", b"x\ny\nz".to_vec()),
        ],
    );
    let set = read(folder.path()).unwrap();
    assert_eq!(
        (set.classes.join(""), &set.labels[..]),
        ("xyz".to_owned(), &[0, 1, 2, 0, 1][..])
    );
    let refused = |name: &str, bytes: Vec<u8>, words: &str| {
        write(folder.path(), &[(name, bytes)]);
        check_refused(read(folder.path()), &[words]);
    };
    refused(
        "test.bin",
        fine(4),
        "`test.bin` has the label 3 in record 4, and there are 3 classes",
    );
    refused(
        "train.bin",
        vec![1; 3000],
        "`train.bin` has 3,000 bytes, and records of 3074",
    );
}

#[test]
fn pictures_in_parquet_are_read_with_the_names_of_their_labels() {
    let set = read(&repository("tests/parquet/pictures.parquet")).unwrap();
    assert_eq!(set.classes, ["cat", "dog", "bird"]);
    assert_eq!(
        (set.shape, &set.labels[..]),
        (Shape::new(2, 3, 3), &[0, 1, 1, 1][..])
    );
    assert_eq!(
        set.names,
        ["train row 1", "train row 2", "train row 4", "train row 6"]
    );
    let expected: Vec<u8> = (0..6).flat_map(|at| [3, at / 3 * 10, at % 3]).collect();
    assert_eq!(set.pixels(2), expected);
    let problems: Vec<String> = set
        .problems
        .iter()
        .map(|it| format!("{} {}", it.name, it.problem))
        .collect();
    assert_eq!(problems.len(), 2);
    assert!(
        problems[0].starts_with("train row 3 has no label"),
        "{problems:?}"
    );
    assert!(
        problems[1]
            .starts_with("train row 5 is not in the Parquet file, which only names it: `4.bmp`"),
        "{problems:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = fs::read(repository("tests/parquet/pictures.parquet")).unwrap();
    let parts = [
        "data/train-00000-of-00001.parquet",
        "data/test-00000-of-00001.parquet",
        "data/validation/0000.parquet",
    ];
    write(folder.path(), &parts.map(|name| (name, file.clone())));
    let set = read(folder.path()).unwrap();
    assert_eq!(
        (set.train.len(), set.held_out.len(), set.test.len()),
        (4, 4, 4)
    );
    assert_eq!(
        (set.overlap.held_out_in_train, set.overlap.test_in_train),
        (4, 4)
    );
    check_refused(
        read(&repository("tests/parquet/text.parquet")),
        &["no column of files"],
    );
    check_refused(
        read(&repository("tests/parquet/bytes-only.parquet")),
        &["no column of labels"],
    );
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape::square(48, 3);
    let smooth = |number: u64| -> Vec<u8> {
        let coarse = Picture {
            shape: Shape::square(8, 3),
            pixels: noise(Shape::square(8, 3), number),
        };
        resize(&coarse, 48, 48, Filter::Bicubic).pixels
    };
    let png = |pixels: &[u8]| encoded(pixels, shape, ImageFormat::Png);
    let mut brighter = smooth(0);
    brighter
        .iter_mut()
        .for_each(|it| *it = it.saturating_add(2));
    for at in 0..7 {
        write(
            folder.path(),
            &[(&format!("train/a/{at}.png"), png(&smooth(at)))],
        );
    }
    write(
        folder.path(),
        &[
            ("train/b/same.png", png(&smooth(1))),
            ("test/a/near.png", png(&brighter)),
            (
                "test/b/tiny.png",
                encoded(
                    &noise(Shape::new(7, 40, 1), 1),
                    Shape::new(7, 40, 1),
                    ImageFormat::Png,
                ),
            ),
            ("test/b/broken.png", vec![1, 2, 3]),
        ],
    );
    let choice = Choice {
        held_out: 0.0,
        side: Some(48),
        ..CHOICE
    };
    let set = PictureSet::read(&[folder.path().to_owned()], &choice, None).unwrap();
    let found = doctor::examine(&set);
    assert_eq!(
        (
            found.pictures,
            found.classes[0].train,
            found.classes[1].train
        ),
        (10, 7, 1)
    );
    assert_eq!(found.imbalance.unwrap().smallest.class, "b");
    assert_eq!(
        (found.unread.count, found.unread.shown[0].name.as_str()),
        (1, "test/b/broken.png")
    );
    assert_eq!(
        (found.tiny.shown[0].name.as_str(), found.strips.count),
        ("test/b/tiny.png", 1)
    );
    let names = |pair: &doctor::Pair| (pair.first.name.clone(), pair.second.name.clone());
    let same = ("train/a/1.png".to_owned(), "train/b/same.png".to_owned());
    assert_eq!(
        found.identical.shown.iter().map(names).collect::<Vec<_>>(),
        [same]
    );
    assert_eq!(found.two_classes, found.identical);
    let near = found.near.unwrap();
    assert_eq!((near.count, near.shown[0].bits_apart.is_some()), (1, true));
    assert_eq!(found.across_parts, near);
    let pair = ("test/a/near.png".to_owned(), "train/a/0.png".to_owned());
    assert_eq!(names(&near.shown[0]), pair);
}

/// A folder of the shared real data, or of a Debian package, or a note that the test is skipped.
fn real(name: &str, package: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("ANNEAL_SHARED_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
    };
    let places = [
        folder.join(name),
        Path::new("/usr/share/datasets").join(package),
    ];
    let found = places.into_iter().find(|it| it.is_dir());
    if found.is_none() {
        println!("skipped: there is no {name} in {}", folder.display());
    }
    found
}

#[test]
fn fashion_mnist_is_read_as_it_is() {
    let Some(path) = real("fashion-mnist", "fashion-mnist") else {
        return;
    };
    let choice = Choice {
        held_out: 0.1,
        ..CHOICE
    };
    let set = PictureSet::read(&[path], &choice, None).unwrap();
    assert_eq!(
        (set.shape, set.len(), set.classes.len()),
        (Shape::square(28, 1), 70_000, 10)
    );
    assert_eq!(
        (set.train.len() + set.held_out.len(), set.test.len()),
        (60_000, 10_000)
    );
    assert!((5_500..6_500).contains(&set.held_out.len()));
    let mut counts = [[0; 10]; 2];
    for at in 0..set.len() {
        counts[usize::from(set.test.contains(&at))][set.labels[at] as usize] += 1;
    }
    assert_eq!(counts, [[6_000; 10], [1_000; 10]]);
    let learned: Vec<usize> = set.train.iter().chain(&set.held_out).copied().collect();
    let all = || {
        learned
            .iter()
            .flat_map(|at| set.pixels(*at))
            .map(|it| f64::from(*it) / 255.0)
    };
    let mean = all().sum::<f64>() / (60_000.0 * 784.0);
    let variance = all().map(|it| (it - mean).powi(2)).sum::<f64>() / (60_000.0 * 784.0);
    // The figures that everybody normalises with.
    assert!(
        (mean - 0.28604).abs() < 5e-6 && (variance.sqrt() - 0.35302).abs() < 5e-6,
        "{mean} {}",
        variance.sqrt()
    );
    assert_eq!((set.overlap.held_out_in_train, set.problems.len()), (0, 0));
}

#[test]
fn photos_of_hands_are_read_with_the_large_ones_scaled() {
    let Some(path) = real("hands", "sign-language-digits") else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let read =
        || PictureSet::read(std::slice::from_ref(&path), &CHOICE, Some(cache.path())).unwrap();
    let mut set = read();
    assert_eq!(
        (set.shape, set.len(), set.decoded),
        (Shape::square(100, 3), 2_062, 2_062)
    );
    assert_eq!(
        set.classes,
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    );
    assert_eq!(set.sizes.iter().filter(|it| it.height == 3_024).count(), 3);
    assert_eq!(read().decoded, 0);
    // Ten photos in a row are one person's: the number of a file without its digit.
    let group = |at: usize| -> u64 {
        let digits: String = set.names[at].chars().filter(char::is_ascii_digit).collect();
        digits[1..].parse::<u64>().unwrap() - u64::from(set.labels[at])
    };
    let groups: Vec<u64> = (0..set.len()).map(group).collect();
    set.split_by_groups(&groups, 1).unwrap();
    let side: HashMap<u64, bool> = groups
        .iter()
        .enumerate()
        .map(|(at, it)| (*it, set.held_out.contains(&at)))
        .collect();
    assert!((0..set.len()).all(|at| side[&groups[at]] == set.held_out.contains(&at)));
    assert!(
        (300..750).contains(&set.held_out.len()),
        "{}",
        set.held_out.len()
    );
    let found = doctor::examine(&set);
    assert!(found.imbalance.is_none() && found.unread.count == 0 && found.tiny.count == 0);
}
