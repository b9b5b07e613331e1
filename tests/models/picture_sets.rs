//! What a set of pictures is: one size, what is kept aside, what is wrong with it, and real ones.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use image::ImageFormat;
use models::tasks::picture::{
    doctor,
    pixels::{Picture, Shape},
    resize::{CropMode, Filter, resize},
    source::{Choice, Overlap, PictureSet},
    store::DEFAULT_SIDE,
};

use crate::picture_data::{CHOICE, check_refused, encoded, noise, png, read, write};

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
        crop_mode: CropMode::Center,
        channels: Some(1),
        ..CHOICE
    };
    check(&[20, 30, 18], choice, Shape::square(16, 1));
}

#[test]
fn a_few_of_another_size_are_scaled_and_a_choice_that_means_nothing_is_refused() {
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

/// Seven pictures of one class to learn from and one of another, of which some are not as they should be.
fn doubtful(folder: &Path) {
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
        write(folder, &[(&format!("train/a/{at}.png"), png(&smooth(at)))]);
    }
    write(
        folder,
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
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    doubtful(folder.path());
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
pub(crate) fn real(name: &str, package: &str) -> Option<PathBuf> {
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
        println!(
            "SKIPPED: there is no {name} in {}, nor Debian’s package of it",
            folder.display()
        );
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
