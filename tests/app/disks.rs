//! Runs on disks that fill up, are unplugged, or lose power: real file systems, where this user may mount some.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command},
};

use serde_json::Value;

use crate::{
    app::App,
    breaking::only_run,
    train::{signal, tiny, wait_for},
};

/// A disk of 4 MB, most of it taken by somebody else, who makes room after a while.
#[test]
fn a_run_on_a_full_disk_waits_and_goes_on_when_there_is_room() {
    let app = tiny("steps: 12\nsample: {every: 0}\nsave: {every: 1, keep_last: 3}\n");
    let options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs"];
    let Some(disk) = Mounted::new(app.folder().join("disk"), &options) else {
        return;
    };
    fs::write(disk.0.join("somebody-elses"), vec![1; 3_300_000]).unwrap();
    let (mut child, mut lines) = start_on(on(&app, &disk, &TRAIN));
    let waiting = wait_for(&mut lines, "waiting");
    assert!(waiting["missing_bytes"].as_u64().is_some(), "{waiting}");
    assert!(
        waiting["why"].as_str().unwrap().contains("save the run"),
        "{waiting}"
    );
    fs::remove_file(disk.0.join("somebody-elses")).unwrap();
    wait_for(&mut lines, "continued");
    wait_for(&mut lines, "finished");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_run_whose_disk_is_lost_says_so_and_goes_on_when_it_is_back() {
    // So many steps that a fast machine is not done with them before the disk is lost.
    let app = tiny("steps: 3000\nsample: {every: 0}\nsave: {every: 10}\n");
    let Some((image, disk)) = ext4(&app) else {
        return;
    };
    let (mut child, mut lines) = start_on(on(&app, &disk, &TRAIN));
    saved(&mut lines, 10);
    cut_power(&disk.0);
    // The reason can't be written, so it has no number.
    let waiting = wait_for(&mut lines, "waiting");
    assert_eq!(waiting["number"], 0, "{waiting}");
    let why = waiting["why"].as_str().unwrap();
    assert!(why.contains("could not"), "{why}");
    // The engine holds what it had open on it; the disk that comes back is another to the system.
    drop(disk);
    let disk = image.mount().unwrap();
    wait_for(&mut lines, "stepped");
    app.run_command(on(&app, &disk, &["runs"]), "")
        .shows("running");
    wait_for(&mut lines, "finished");
    assert!(child.wait().unwrap().success());
    assert_whole(&app, &disk, 3000);
    let events = fs::read_to_string(only_run(&home(&disk)).join("events.jsonl")).unwrap();
    let numbers = events.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["number"].as_u64().unwrap()
    });
    assert!(numbers.eq(1..=events.lines().count() as u64), "{events}");
}

#[test]
fn a_run_outlives_a_power_cut_and_arrives_at_the_weights_it_would_have_had() {
    let app = tiny("steps: 400\nsample: {every: 0}\nsave: {every: 2}\n");
    let Some((image, disk)) = ext4(&app) else {
        return;
    };
    app.anneal("train run.yaml --quiet").ended(0);

    // It stands still in the middle of step 8, however fast this machine is.
    let mut command = on(&app, &disk, &TRAIN);
    command.env("ANNEAL_FAULT", "hang@8");
    let (mut child, mut lines) = start_on(command);
    let engine = wait_for(&mut lines, "opened")["engine"].as_u64().unwrap();
    let step = saved(&mut lines, 6);
    cut_power(&disk.0);
    signal(engine as u32, "-KILL");
    child.kill().unwrap();
    child.wait().unwrap();
    drop((lines, disk));

    let disk = image.mount().unwrap();
    let command = on(&app, &disk, &["train", "--resume", "animals", "--json"]);
    let output = app.run_command(command, "");
    output.ended(0);
    assert!(!output.stdout.contains("damaged"), "{output:?}");
    let steps = output.stdout.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["kind"] == "stepped").then(|| event["step"].as_u64())?
    });
    assert!(steps.min().unwrap() > step, "{output:?}");
    assert_whole(&app, &disk, 400);
    assert!(weights(&app.home()) == weights(&home(&disk)));
}

const TRAIN: [&str; 3] = ["train", "run.yaml", "--json"];

/// A command with the home on a disk.
fn on(app: &App, disk: &Mounted, arguments: &[&str]) -> Command {
    let mut command = app.command(arguments);
    command.env("ANNEAL_HOME", home(disk));
    command
}

fn start_on(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// Waits until a step or a later one is saved. Returns it.
fn saved(lines: &mut BufReader<ChildStdout>, step: u64) -> u64 {
    loop {
        let saved = wait_for(lines, "saved")["step"].as_u64().unwrap();
        if saved >= step {
            return saved;
        }
    }
}

/// Nothing of the only run is damaged, and it is finished.
fn assert_whole(app: &App, disk: &Mounted, steps: usize) {
    let shown = app.run_command(on(app, disk, &["runs", "show", "animals"]), "");
    let words = format!("finished, step {steps}");
    shown.shows(&words);
    let words = shown.stdout + &shown.stderr;
    assert!(!words.contains("damaged"), "{words}");
}

/// The weights that the only run of a home ended with.
fn weights(home: &Path) -> Vec<u8> {
    let last = only_run(home).join("checkpoints/step-000400");
    let mut weights = Vec::new();
    let mut file = File::open(last.join("model.safetensors")).unwrap();
    file.read_to_end(&mut weights).unwrap();
    weights
}

fn home(disk: &Mounted) -> PathBuf {
    disk.0.join("home")
}

/// A file system in a file.
struct Image {
    file: PathBuf,
    folder: PathBuf,
}

impl Image {
    fn mount(&self) -> Option<Mounted> {
        let attach = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&self.file)
            .output()
            .ok()?;
        let device = String::from_utf8(attach.stdout).ok()?;
        let device = device.trim();
        let mounted = (!device.is_empty()).then(|| Mounted::new(self.folder.clone(), &[device]));
        // It goes away with the last who uses it.
        let _ = Command::new("losetup").args(["--detach", device]).output();
        mounted?
    }
}

/// A fresh file system of a kind that can be stopped like a disk without power.
fn ext4(app: &App) -> Option<(Image, Mounted)> {
    let image = Image {
        file: app.folder().join("image"),
        folder: app.folder().join("disk"),
    };
    File::create(&image.file)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let made = Command::new("mkfs.ext4")
        .arg("-q")
        .arg(&image.file)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("not tried: there is no `mkfs.ext4`");
        return None;
    }
    let mounted = image.mount()?;
    Some((image, mounted))
}

/// Has a file system take and give nothing any more. What was not written to the disk yet is lost.
fn cut_power(folder: &Path) {
    // What the kernel calls `EXT4_IOC_SHUTDOWN`, and not to write the journal first.
    let (shutdown, no_log_flush) = (0x8004_587d, 2_u32);
    let folder = File::open(folder).unwrap();
    // SAFETY: the call reads one number.
    let stopped = unsafe { libc::ioctl(folder.as_raw_fd(), shutdown, &raw const no_log_flush) };
    assert_eq!(stopped, 0, "{}", std::io::Error::last_os_error());
}

/// A file system that is unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Nothing where this user may not mount any.
    fn new(folder: PathBuf, what: &[&str]) -> Option<Self> {
        fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(what).arg(&folder).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            eprintln!("not tried: this user may not mount a file system");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
