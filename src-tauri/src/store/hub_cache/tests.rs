//! Caches as they come to be, and what is left of them after something was deleted.

use super::*;

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

fn digest(letter: char) -> Digest {
    Digest::git(&letter.to_string().repeat(40)).unwrap()
}

/// Two revisions: one file is the same in both, one is only in the old one, one only in the new one.
fn cache() -> (tempfile::TempDir, HubCache, RepositoryFolder) {
    let folder = tempfile::tempdir().unwrap();
    let cache = HubCache::at(folder.path().to_owned());
    let id = "maker/tiny".parse().unwrap();
    let tiny = cache.repository(RepositoryKind::Model, &id);
    let files = [
        (OLD, "config.json", 'a', 10),
        (OLD, "weights/model.safetensors", 'b', 200),
        (NEW, "config.json", 'a', 10),
        (NEW, "weights/model.safetensors", 'c', 3000),
    ];
    for (commit, name, letter, bytes) in files {
        let blob = tiny.blob(&digest(letter));
        crate::store::write_file(&blob, &vec![0; bytes]).unwrap();
        tiny.link(commit, name, &digest(letter)).unwrap();
    }
    tiny.name_commit("main", NEW).unwrap();
    tiny.name_commit("refs/pr/1", OLD).unwrap();
    (folder, cache, tiny)
}

#[test]
fn a_repository_is_listed_with_its_revisions_and_what_each_would_free() {
    let (_folder, cache, tiny) = cache();
    let listed = cache.list();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].id.as_str(), listed[0].bytes),
        ("maker/tiny", 3210 + 80)
    );
    let said = listed[0].revisions.iter().map(|it| {
        let (commit, name) = (&it.commit[..1], it.names.join(" "));
        format!(
            "{commit} {name}: {} files, {} bytes, {} freed",
            it.files, it.bytes, it.freed_bytes
        )
    });
    let mut said: Vec<String> = said.collect();
    said.sort();
    let expected = [
        "1 refs/pr/1: 2 files, 210 bytes, 200 freed",
        "2 main: 2 files, 3010 bytes, 3000 freed",
    ];
    assert_eq!(said, expected);
    assert!(tiny.has(NEW, "weights/model.safetensors", 3000));
    assert!(!tiny.has(NEW, "weights/model.safetensors", 3001));
    assert!(!tiny.has(NEW, "../../refs/main", 40));
    assert_eq!(tiny.commit_of("main").as_deref(), Some(NEW));
}

#[test]
fn deleting_a_revision_frees_what_nobody_else_uses() {
    let (_folder, cache, tiny) = cache();
    assert_eq!(tiny.delete(OLD).unwrap(), 200);
    assert!(tiny.has(NEW, "config.json", 10));
    assert!(!tiny.blob(&digest('b')).exists());
    assert_eq!(tiny.commit_of("refs/pr/1"), None);
    assert_eq!(tiny.commit_of("main").as_deref(), Some(NEW));

    // What is begun of another revision stays, and is deleted by itself.
    let begun = tiny.incomplete(&digest('e'));
    fs::write(&begun, [0; 70]).unwrap();
    let listed = cache.list();
    assert_eq!(listed[0].revisions[0].freed_bytes, 3010);
    let freed = tiny.delete(NEW).unwrap();
    assert_eq!((freed, begun.exists()), (3010, true));
    assert!(cache.list()[0].revisions.is_empty());
    assert_eq!(tiny.delete("").unwrap(), 70);
    assert!(cache.list().is_empty() && !tiny.is_here());
    assert!(tiny.delete("../../..").is_err());
}

#[test]
fn what_is_being_fetched_is_not_deleted() {
    let (_folder, _, tiny) = cache();
    tiny.delete(OLD).unwrap();
    let lock = tiny.lock(&digest('d'));
    crate::store::make_folder_of(&lock).unwrap();
    let file = File::create(&lock).unwrap();
    file.lock().unwrap();
    let error = tiny.delete(NEW).unwrap_err();
    assert_eq!(error.message, "`maker/tiny` is being fetched right now");
    let begun = tiny.incomplete(&digest('d'));
    fs::write(&begun, [0; 7]).unwrap();
    let delete = || tiny.delete_incomplete(&digest('d'));
    assert_eq!((delete().unwrap(), begun.exists()), (false, true));
    drop(file);
    assert_eq!((delete().unwrap(), begun.exists()), (true, false));
    assert_eq!(tiny.delete(NEW).unwrap(), 3010 + 40);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_cache_is_neither_counted_nor_deleted() {
    let (_folder, _, tiny) = cache();
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, [0; 500]).unwrap();
    let snapshot = tiny.snapshot(OLD);
    std::os::unix::fs::symlink(&precious, snapshot.join("stolen")).unwrap();
    std::os::unix::fs::symlink(outside.path(), snapshot.join("folder")).unwrap();
    assert_eq!(tiny.delete(OLD).unwrap(), 200);
    assert!(precious.exists());
}
