//! CIFAR-10 and CIFAR-100, made here in both forms.

use std::fs;

use models::{limits, tasks::picture::pixels::Shape};

use crate::picture_data::{check_refused, noise, packed, read, write};

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
pub(crate) fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    packed(&unpacked_archive(files))
}

/// The same before it is packed.
pub(crate) fn unpacked_archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
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
    archive
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
}

#[test]
fn an_archive_that_unfolds_without_an_end_is_refused_at_the_limit() {
    let most = limits::PICTURE_ARCHIVE.most;
    let mut header = [0; 512];
    header[..5].copy_from_slice(b"other");
    header[124..135].copy_from_slice(format!("{:011o}", 4 * most - 1).as_bytes());
    header[156] = b'0';
    // A file of gzip can be several after one another, here the same zeros again and again.
    let zeros = packed(&vec![0; 64 << 20]);
    let mut archive = packed(&header);
    for _ in 0..=most >> 26 {
        archive.extend(&zeros);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cifar-10-binary.tar.gz");
    fs::write(&path, archive).unwrap();
    check_refused(read(&path), &["unfolds to more than 2,147,483,648 bytes"]);
}

#[test]
fn the_fine_labels_of_cifar_100_are_read() {
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
