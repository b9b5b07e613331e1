//! Pictures that runs learn from: every layout of files.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use image::{ExtendedColorType, ImageFormat};
use models::{
    random::Random,
    tasks::picture::{
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
        source::{Choice, Overlap, PictureSet},
    },
};

use crate::hostile::repository;

pub(crate) fn read(path: &Path) -> models::Result<PictureSet> {
    PictureSet::read(&[path.to_owned()], &CHOICE, None)
}

pub(crate) const CHOICE: Choice = Choice {
    held_out: 0.25,
    side: None,
    usual_side: None,
    short_side: None,
    crop_mode: CropMode::Center,
    channels: None,
    filter: Filter::Bilinear,
    alpha: Alpha::OnWhite,
    seed: 1,
};

#[track_caller]
pub(crate) fn check_refused<T: std::fmt::Debug>(read: models::Result<T>, words: &[&str]) {
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

pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
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
pub(crate) fn write(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub(crate) fn png(number: u64) -> Vec<u8> {
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
fn a_list_beside_folders_of_classes_says_what_belongs_together() {
    let folder = tempfile::tempdir().unwrap();
    for class in ["cat", "dog"] {
        for number in 0..30 {
            let picture = png(if class == "cat" { number } else { 100 + number });
            write(
                folder.path(),
                &[(&format!("{class}/{number}.png"), picture)],
            );
        }
    }
    let groups: Vec<String> = (0..27)
        .flat_map(|at| ["cat", "dog"].map(|class| format!("{class}/{at}.png,{}\n", at / 3)))
        .collect();
    let list = |more: &str| {
        let text = format!("file_name,group\n{}{more}", groups.concat());
        write(folder.path(), &[("groups.csv", text.into_bytes())]);
        read(folder.path())
    };
    let set = list("cat/gone.png,1\n").unwrap();
    // Three pictures of each class are a group, and the last three of each are alone.
    assert_eq!((set.len(), set.count_groups()), (60, Some(9 + 6)));
    let side = |class: &str, at: usize| {
        let name = format!("{class}/{at}.png");
        let place = set.names.iter().position(|it| *it == name).unwrap();
        set.held_out.contains(&place)
    };
    for at in 0..27 {
        assert_eq!(side("cat", at), side("dog", at / 3 * 3), "{at}");
    }
    assert!(!set.held_out.is_empty());
    let problems: Vec<&str> = set.problems.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(problems, ["cat/gone.png"]);
    for (row, word) in [
        ("cat/29.png,\n", "line 56: has no `group`"),
        (
            "cat/1.png,9\n",
            "line 56: `cat/1.png` is named a second time",
        ),
    ] {
        let problem = list(row).unwrap_err().to_string();
        assert!(problem.contains(word), "{problem}");
    }
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
