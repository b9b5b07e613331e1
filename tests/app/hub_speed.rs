//! How a download compares with curl, and what it takes. Asked for by name, on a quiet machine:
//! `TMPDIR=/dev/shm cargo nextest run --workspace --run-ignored only -E 'test(hub_speed)' --no-capture`.

#![allow(clippy::print_stdout, reason = "what it measures is what it is for")]

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    app::App,
    hub::{model, spawn},
    hub_server::{ALWAYS, Fault, Server},
};

const BYTES: usize = 1_000_000_000;
const ROUNDS: usize = 5;
/// A line of two and a half gigabits a second.
const LINE: usize = 300_000_000;

/// Seconds and the most kilobytes of memory that a download takes, of a model that is not here.
fn download(server: &Server) -> (f64, u64) {
    let app = App::new();
    let start = Instant::now();
    let mut child = spawn(&app, server, "hub get Maker/Tiny --quiet");
    let mut most = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let about = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = about.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        });
        most = most.max(peak.unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    (start.elapsed().as_secs_f64(), most)
}

/// Seconds that curl takes, and with `sha256sum`, which compares what arrived as a download here does.
fn curl(server: &Server, is_checked: bool) -> f64 {
    let app = App::new();
    let url = format!(
        "{}/Maker/Tiny/resolve/main/model.safetensors",
        server.endpoint()
    );
    let check = if is_checked {
        " | tee weights | sha256sum"
    } else {
        " -o weights"
    };
    let start = Instant::now();
    let ended = Command::new("sh")
        .args(["-c", &format!("curl -sSL {url}{check}")])
        .current_dir(app.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    assert!(ended.unwrap().success());
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "takes a minute and a quiet machine"]
fn a_checked_download_is_as_fast_as_one_with_curl_and_takes_no_more_memory_for_a_larger_file() {
    let small = model("Maker/Tiny", BYTES / 10);
    let small_server = Server::start();
    small_server.add(small);
    let (_, small_memory) = download(&small_server);
    let server = Server::start();
    server.add(model("Maker/Tiny", BYTES));
    let (mut ours, mut bare, mut checked, mut memory) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let (seconds, most) = download(&server);
        ours.push(seconds);
        bare.push(curl(&server, false));
        checked.push(curl(&server, true));
        memory = memory.max(most);
    }
    println!("ours {ours:.2?} s, curl {bare:.2?} s, curl with sha256sum {checked:.2?} s");
    server.fail("/xet-bridge-us/", ALWAYS, Fault::BytesPerSecond(LINE));
    let (line_ours, line_curl) = (download(&server).0, curl(&server, false));
    println!("over a line of {LINE} bytes a second: ours {line_ours:.2} s, curl {line_curl:.2} s");
    println!("{small_memory} kB for a tenth of the file, {memory} kB for the whole");
    assert!(median(ours) < 1.1 * median(checked));
    assert!(line_ours < 1.1 * line_curl);
    assert!(memory - small_memory < 40_000);
}
