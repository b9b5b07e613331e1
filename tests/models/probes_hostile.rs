//! Files of probes and of hidden states that somebody changed (see `hostile.rs`).

use std::{fs, path::Path};

use models::{
    limits::{self, Limit},
    tasks::probe::{
        folder::{PROBES, Probes, WEIGHTS},
        labelled::{self, LabelledRequest},
        states::{ABOUT, Position, ROWS, States, WHOLE},
    },
};

use crate::{capture, fuzz::Reader, hostile::reading, probe_apply};

pub(crate) fn readers(work: &Path) -> Vec<Reader> {
    let folder = capture::model(serde_json::json!({}));
    let model = capture::open(folder.path());
    let made = work.join("probes_made");
    fs::create_dir_all(&made).unwrap();
    let data = capture::data(&made, 40);
    let request = capture::request(&data, Position::Last);
    let states = made.join("states");
    let captured = capture::captured(&model, folder.path(), &request, &states);
    let probes = made.join("probes");
    probe_apply::learned(&captured, &probes);
    let of_states = [
        ("states_about", 4, Some(limits::MODEL_JSON), ABOUT),
        ("states_rows", 3, Some(limits::STATES_TEXT), ROWS),
        ("states_whole", 1, Some(limits::MODEL_JSON), WHOLE),
    ];
    let of_probes = [
        ("probes_about", 5, Some(limits::PROBES_JSON), PROBES),
        ("probes_weights", 4, Some(limits::PROBES), WEIGHTS),
    ];
    let mut readers: Vec<Reader> = of_states
        .map(|it| in_copy(work, &states, it, read_states))
        .into();
    readers.extend(of_probes.map(|it| in_copy(work, &probes, it, read_probes)));
    readers.extend(of_labelled(work, &fs::read(&data).unwrap()));
    readers
}

/// A reader of one file in a copy of a folder.
fn in_copy(
    work: &Path,
    from: &Path,
    (name, share, most, file): (&'static str, usize, Option<Limit>, &str),
    read: fn(&Path) -> models::Result<()>,
) -> Reader {
    let folder = work.join(name);
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let file = folder.join(file);
    let sample = fs::read(&file).unwrap();
    Reader::small(name, share, most, file, vec![sample], reading(read))
}

fn read_states(file: &Path) -> models::Result<()> {
    let states = States::open(file.parent().unwrap_or(file))?;
    drop(states.vectors_of_rows());
    for site in states.sites() {
        states.matrix(*site)?.read_all();
    }
    Ok(())
}

fn read_probes(file: &Path) -> models::Result<()> {
    let probes = Probes::open(file.parent().unwrap_or(file))?;
    let width = probes.about.states.width;
    drop(probes.check(&probes.about.states));
    for probe in probes.chosen() {
        let state = vec![0.5; width];
        probes.score(probe, &state);
        probes.is_far(probes.about.probes[probe].site, &state);
    }
    Ok(())
}

/// Texts with their labels, in the forms that are read.
fn of_labelled(work: &Path, lines: &[u8]) -> Vec<Reader> {
    let named = "joy It is sunny.\nfear It is dark.\n\njoy Again.\n";
    let table = "id,text,label,group\n1,a b,x,g\n2,\"c, d\",y,\n";
    let list = r#"[{"text": "a", "labels": ["x", "y"], "spans": [[0, 1]], "split": "test"}, {"text": "b", "labels": []}]"#;
    let files = [
        ("labelled_lines", "a.txt", named.as_bytes()),
        ("labelled_table", "a.csv", table.as_bytes()),
        ("labelled_list", "a.json", list.as_bytes()),
        ("labelled_jsonl", "a.jsonl", lines),
    ];
    let most = Some(limits::TEXT_FILE);
    let readers = files.map(|(name, file, sample)| {
        let file = work.join(name).join(file);
        let read = reading(|file| {
            let request = LabelledRequest {
                paths: vec![file.to_owned()],
                ..LabelledRequest::default()
            };
            labelled::read(&request).map(drop)
        });
        Reader::small(name, 2, most, file, vec![sample.to_vec()], read)
    });
    readers.into()
}
