//! Benchmarks: doing one, and those that are kept.

use std::{fs, path::Path, sync::atomic::Ordering, time::Instant};

use models::{
    bench::{
        BenchRow, Size, WORKLOADS,
        published::{PUBLISHED, Published},
    },
    device::{FoundDevice, RequestedDevice},
};
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::bench::{BenchNews, BenchRequest, words_of_case},
    store::{
        benchmarks::{
            self, Comparison, MeasuredDevice,
            view::{BenchProgressView, BenchView},
        },
        runs::Run,
    },
    wire::error::{AppError, Result},
};

/// All benchmarks that are kept, the newest first.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn benchmarks(app: State<'_, App>) -> Result<Vec<BenchView>> {
    let kept = benchmarks::list(&app.host.paths);
    let view = |report| BenchView::new(report, benchmarks::since_last(report, &kept));
    Ok(kept.iter().map(view).collect())
}

/// Measures devices, and tells how far it is. Without devices, all are. It waits in the queue behind the runs that are there.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_benchmark(
    app: State<'_, App>,
    devices: Vec<String>,
    size: Option<String>,
    progress: Channel<BenchProgressView>,
) -> Result<BenchView> {
    let devices: Vec<RequestedDevice> = devices
        .iter()
        .map(|it| Ok(it.parse()?))
        .collect::<Result<_>>()?;
    let size: Option<Size> = size.map(|it| it.parse()).transpose()?;
    let request = BenchRequest {
        devices,
        size,
        ..BenchRequest::default()
    };
    if app.queue.has_turn() {
        let problem = "another benchmark is running; it has to end first";
        return Err(AppError::invalid(problem));
    }
    app.stop_bench.store(false, Ordering::SeqCst);
    let stop = || app.stop_bench.load(Ordering::SeqCst);
    let mut teller = Teller::new(progress);
    let mut waits = |run: &Run| teller.send(waits_for(run), true);
    let Some(_turn) = app.queue.turn(&mut waits, &stop) else {
        return Err(AppError::failed(
            "the benchmark was stopped; nothing was measured",
        ));
    };
    let report = app
        .host
        .bench(&request, &mut |news| teller.hear(news), &stop)?;
    Ok(BenchView::new(&report, app.host.since_last(&report)))
}

/// Ends the benchmark that is running. What it measured is kept.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_benchmark(app: State<'_, App>) -> Result<()> {
    app.stop_bench.store(true, Ordering::SeqCst);
    Ok(())
}

/// How two benchmarks differ, device by device.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn compare_benchmarks(
    app: State<'_, App>,
    earlier: String,
    later: String,
) -> Result<Vec<Comparison>> {
    let find = |id: &str| benchmarks::find(&app.host.paths, id);
    Ok(find(&later)?.since(&find(&earlier)?))
}

/// Keeps a benchmark that was exported elsewhere. Returns its name.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn import_benchmark(app: State<'_, App>, path: String) -> Result<String> {
    Ok(benchmarks::import(&app.host.paths, Path::new(&path))?.id())
}

/// Writes a benchmark as JSON, CSV or Markdown, as the name of the file says, where the user chose.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn export_benchmark(app: State<'_, App>, id: String, path: String) -> Result<()> {
    let report = benchmarks::find(&app.host.paths, &id)?;
    benchmarks::export(&report, &app.picked(&path)?)
}

/// Writes a picture that the page drew, where the user chose.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn save_picture(app: State<'_, App>, path: String, bytes: Vec<u8>) -> Result<()> {
    let path = app.picked(&path)?;
    fs::write(&path, bytes).map_err(AppError::file("write the picture", &path))
}

/// Forgets a benchmark.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn delete_benchmark(app: State<'_, App>, id: String) -> Result<()> {
    benchmarks::delete(&app.host.paths, &id)
}

/// What others have published of the speed of their tools, by the title of our workload that it is nearest to.
pub(super) fn published_figures() -> Vec<(&'static str, &'static Published)> {
    let titled = PUBLISHED.iter().map(|figure| {
        let workload = WORKLOADS.iter().find(|it| it.name == figure.workload);
        (workload.map_or(&*figure.workload, |it| it.title), figure)
    });
    titled.collect()
}

fn waits_for(run: &Run) -> String {
    let name = run
        .plan()
        .map_or_else(|_| run.id.clone(), |plan| plan.run.name);
    format!("Waiting for “{name}”")
}

/// Tells the page what was measured so far.
struct Teller {
    progress: Channel<BenchProgressView>,
    done: usize,
    cases: usize,
    /// When the first case began.
    began: Option<Instant>,
    devices: Vec<MeasuredDevice>,
}

impl Teller {
    fn new(progress: Channel<BenchProgressView>) -> Self {
        Self {
            progress,
            done: 0,
            cases: 0,
            began: None,
            devices: Vec::new(),
        }
    }

    fn hear(&mut self, news: BenchNews<'_>) {
        match news {
            BenchNews::Waits { run } => self.send(waits_for(&run), true),
            BenchNews::WaitsFor { work, device } => {
                let now = format!("Waiting for {} on {}", work.describe(), device.name);
                self.send(now, true);
            }
            BenchNews::Checks { device } => {
                self.send(format!("Checking {} first", device.name), false);
            }
            BenchNews::Begun { cases } => self.cases = cases,
            BenchNews::Measures { device, case } => {
                self.began.get_or_insert_with(Instant::now);
                self.send(format!("{} on {}", words_of_case(case), device.name), false);
            }
            BenchNews::Measured { device, row } => {
                self.done += 1;
                self.add(device, row);
            }
        }
    }

    fn add(&mut self, device: &FoundDevice, row: &BenchRow) {
        if self.devices.last().is_none_or(|it| it.device != *device) {
            self.devices.push(MeasuredDevice {
                device: device.clone(),
                sustained: None,
                rows: Vec::new(),
            });
        }
        if let Some(on) = self.devices.last_mut()
            // The first case comes once more at the end, and is shown once.
            && !on.rows.iter().any(|it| it.case == row.case)
        {
            on.rows.push(row.clone());
        }
    }

    fn send(&self, now: String, is_waiting: bool) {
        let each = self
            .began
            .map(|began| began.elapsed().as_secs_f64() / self.done.max(1) as f64);
        let left = self.cases.saturating_sub(self.done) as f64;
        let _ = self.progress.send(BenchProgressView {
            done: self.done,
            cases: self.cases,
            now,
            is_waiting,
            seconds_left: each.filter(|_| self.done > 0).map(|each| each * left),
            devices: self.devices.iter().map(Into::into).collect(),
        });
    }
}
