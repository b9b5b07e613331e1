//! Hidden states to and from HDF5 and NumPy, compared with files that h5py wrote (`tests/goldens/hdf5.py`).

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use models::{
    arch::sites::Site,
    tasks::probe::{
        hdf5::{LayerFile, PARTS, file_name},
        hdf5_folder::{ImportRequest, export, import},
        npz,
        states::States,
    },
};

use crate::{
    fuzz::Reader,
    hostile::{reading, repository},
};

const LAYERS: [usize; 2] = [2, 5];
const ROWS: [usize; 3] = [7, 3, 2];
const WIDTH: usize = 6;

fn golden(name: &str) -> PathBuf {
    repository("tests/goldens/hdf5").join(name)
}

/// The numbers that `hdf5.py` writes for a layer.
fn expected(layer: usize) -> Vec<f32> {
    let of_part = |(part, rows): (usize, usize)| {
        let number = move |row, column| (layer * 1000 + part * 100 + row * 10 + column) as f32;
        (0..rows)
            .flat_map(move |row| (0..WIDTH).map(move |column| number(row, column) / 8.0 - 50.0))
    };
    ROWS.into_iter().enumerate().flat_map(of_part).collect()
}

fn imported(storage: &str, to: &Path) -> States {
    let request = ImportRequest {
        folder: golden(storage),
        pattern: Some("{text} is".to_owned()),
        label_names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        written_by: "a test".to_owned(),
    };
    import(&request, to).unwrap()
}

fn check(states: &States) {
    let sites = LAYERS.map(Site::Block);
    assert_eq!(states.sites(), sites);
    for layer in LAYERS {
        let found = states.matrix(Site::Block(layer)).unwrap().read_all();
        assert_eq!(found, expected(layer), "layer {layer}");
    }
    let places = PARTS.iter().zip(ROWS);
    let places: Vec<_> = places
        .flat_map(|(part, rows)| (0..rows).map(move |row| (*part, ["a", "b", "c"][row % 3])))
        .collect();
    let found: Vec<_> = states
        .rows()
        .iter()
        .map(|row| (row.part.as_deref().unwrap(), row.labels[0].as_str()))
        .collect();
    assert_eq!(found, places);
}

#[test]
fn files_of_h5py_are_read_whole_in_chunks_compressed_or_of_doubles() {
    let work = tempfile::tempdir().unwrap();
    for (storage, failed) in [
        ("contiguous", 0),
        ("doubles", 0),
        ("chunked", 2),
        ("gzip", 2),
    ] {
        let states = imported(storage, &work.path().join(storage));
        check(&states);
        assert_eq!(states.about().model.name, "example/model");
        // Texts that failed lie in the file as zeros with the first label.
        let left_out = &states.about().left_out;
        assert_eq!(left_out.len(), failed, "{storage}");
        assert!(left_out.iter().all(|it| it.starts_with("train:")));
    }
}

#[test]
fn what_is_exported_is_imported_again_the_same() {
    let work = tempfile::tempdir().unwrap();
    let to = env::var_os("ANNEAL_WRITE_EXPORTS").map_or(work.path().join("out"), PathBuf::from);
    let states = imported("gzip", &work.path().join("first"));
    let files = export(&states, &to).unwrap();
    assert_eq!(files, LAYERS.map(|layer| to.join(file_name(layer))));
    npz::export(&states, &to.join("states.npz")).unwrap();
    let request = ImportRequest {
        folder: to,
        written_by: "a test".to_owned(),
        ..ImportRequest::default()
    };
    // What the files say themselves need not be said again.
    let again = import(&request, &work.path().join("second")).unwrap();
    check(&again);
    assert_eq!(again.about().prompt.pattern, "{text} is");
}

#[test]
fn files_of_states_that_lead_elsewhere_or_declare_too_much_are_refused() {
    for (name, words) in [
        ("external.h5", "in other files, which are not opened"),
        ("virtual.h5", "in other files, which are not opened"),
        ("link.h5", "links are not followed"),
        ("huge.h5", "can’t hold"),
        ("whole.h5", "f16, f32 or f64 is needed"),
        (
            "uneven.h5",
            "has 2 vectors of 3 numbers in `train`, and 3 labels",
        ),
    ] {
        let Err(error) = LayerFile::open(&golden("hostile").join(name)) else {
            panic!("{name} was opened");
        };
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

#[test]
fn files_of_layers_with_other_rows_are_not_joined() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("files");
    fs::create_dir(&folder).unwrap();
    for (storage, layer) in [("contiguous", 2), ("chunked", 5)] {
        let name = file_name(layer);
        fs::copy(golden(storage).join(&name), folder.join(&name)).unwrap();
    }
    let request = ImportRequest {
        folder,
        ..ImportRequest::default()
    };
    let error = import(&request, &work.path().join("out"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the files of layer 2 and layer 5 don’t have the same rows and labels"
    );
}

/// What reads the files of strangers, for `hostile.rs`.
pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let folder = work.join("hdf5");
    fs::create_dir_all(&folder).unwrap();
    let of = |storage: &str| fs::read(golden(storage).join(file_name(2))).unwrap();
    vec![Reader {
        name: "hdf5",
        share: 8,
        most: None,
        megabytes: 256,
        seconds: 5.0,
        file: folder.join(file_name(2)),
        samples: vec![of("contiguous"), of("gzip")],
        read: reading(|file| {
            let file = LayerFile::open(file)?;
            file.labels()?;
            file.each(&mut |_| Ok(()))
        }),
    }]
}
