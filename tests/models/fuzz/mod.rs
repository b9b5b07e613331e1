//! Files that somebody changed, thousands of them, for every reader of what a person or the network brings.
//!
//! A reader may refuse a file. It may not panic, end the process, hang, or take more memory than its entry in the list says. The
//! cases run in a process of their own, which writes down the number of each before it begins: one that ends the process is known
//! by it, and so is one that does not end. A case follows from the seed and its number alone:
//!
//! ```sh
//! ANNEAL_FUZZ_CASES=10000000 ANNEAL_FUZZ_SEED=7 cargo nextest run --workspace -E 'test(brings_the_program_down)'
//! ANNEAL_FUZZ_SEED=7 ANNEAL_FUZZ_CASE=4321 cargo nextest run --workspace -E 'test(brings_the_program_down)' --no-capture
//! ```
//!
//! `ANNEAL_FUZZ_READERS=picture,cifar` is for the readers whose names begin so; which case is for which then changes with it.
//!
//! What was found once is kept as a file in `tests/models/fuzz/found`, in a folder named by its reader, and read with every run.

pub(crate) mod memory;
mod mutate;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    env, fs,
    io::{self, Seek, SeekFrom, Write},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use models::{limits::Limit, random::Random};

/// What a reader does with its file: what it read, in a few words, or why it refuses it.
pub(crate) type Read = Box<dyn Fn(&Path) -> Result<(), String>>;

/// One way into the program, with what it may take.
pub(crate) struct Reader {
    /// Its name, and that of its folder of found files.
    pub(crate) name: &'static str,
    /// How many of 100 cases are for it, roughly.
    pub(crate) share: usize,
    /// The largest file that it reads. None where what brings the bytes has limited them.
    pub(crate) most: Option<Limit>,
    /// The most megabytes that it may have allocated at once for a file of at most 128 KiB.
    pub(crate) megabytes: usize,
    /// The most seconds for such a file.
    pub(crate) seconds: f64,
    /// The file that it reads.
    pub(crate) file: PathBuf,
    /// Real files.
    pub(crate) samples: Vec<Vec<u8>>,
    /// Reads the file.
    pub(crate) read: Read,
}

impl Reader {
    /// A reader of small files, which takes little memory. The folder of its file is made.
    pub(crate) fn small(
        name: &'static str,
        share: usize,
        most: Option<Limit>,
        file: PathBuf,
        samples: Vec<Vec<u8>>,
        read: Read,
    ) -> Self {
        fs::create_dir_all(file.parent().unwrap_or(&file)).unwrap();
        Self {
            name,
            share,
            most,
            megabytes: 64,
            seconds: 5.0,
            file,
            samples,
            read,
        }
    }
}

/// The cases of an ordinary run, of both programs together 50,000.
const CASES: u64 = 25_000;
/// A case without an end is given up after so long.
const HANG: Duration = Duration::from_secs(60);
/// A single request for more memory than this fails. Nothing that is read here needs a hundredth of it.
const LARGEST: usize = 4 << 30;
/// So many findings are enough for one run.
const ENOUGH: usize = 25;
/// A case that was too slow is timed again so often: the machine may have been busy.
const TIMES: usize = 3;
/// The stack of a thread that reads, as the threads of the window's commands have it.
const STACK: usize = 2 << 20;

const WORK: &str = "ANNEAL_FUZZ_WORK";
const FROM: &str = "ANNEAL_FUZZ_FROM";

/// What the cases of a reader took.
#[derive(Default)]
struct Figure {
    cases: usize,
    refused: usize,
    findings: usize,
    seconds: f64,
    slowest: f64,
    most: usize,
}

thread_local! {
    /// What the last panic said.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the cases of these readers. `test` is the full name of the test that calls this.
#[allow(
    clippy::print_stdout,
    reason = "what the cases took is told to who asks for it"
)]
#[track_caller]
pub(crate) fn run(test: &str, readers: fn(&Path) -> Vec<Reader>) {
    let number = |name| env::var_os(name).and_then(|it| it.to_str()?.parse().ok());
    let seed = number("ANNEAL_FUZZ_SEED").unwrap_or(0);
    let cases = number("ANNEAL_FUZZ_CASES").map_or(CASES, |all| all / 2);
    if let (Some(work), Some(from)) = (env::var_os(WORK), number(FROM)) {
        let child = thread::Builder::new().stack_size(STACK);
        let child = child.spawn(move || work_through(Path::new(&work), readers, seed, from, cases));
        child.unwrap().join().unwrap();
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let one = number("ANNEAL_FUZZ_CASE");
    let (from, cases) = one.map_or((0, cases), |one| (one, one + 1));
    let started = Instant::now();
    let findings = watch(work.path(), test, from, cases);
    if let Some(one) = one {
        let readers = chosen(readers(work.path()));
        let (reader, bytes) = case(&readers, seed, one);
        let kept = env::temp_dir().join(format!("anneal-fuzz-{}-{seed}-{one}", reader.name));
        fs::write(&kept, bytes).unwrap();
        println!(
            "case {one} of seed {seed} is for {}: {}",
            reader.name,
            kept.display()
        );
    }
    print!(
        "{}",
        fs::read_to_string(work.path().join("figures")).unwrap_or_default()
    );
    println!(
        "{} cases with seed {seed} in {:.0} s: {} findings",
        cases - from,
        started.elapsed().as_secs_f64(),
        findings.len()
    );
    assert!(
        findings.is_empty(),
        "seed {seed}; run one again with ANNEAL_FUZZ_SEED={seed} ANNEAL_FUZZ_CASE=…:\n{}",
        findings.join("\n")
    );
}

/// Files that are a byte too long for their readers have to be refused by their size, with the limit.
pub(crate) fn check_largest(readers: fn(&Path) -> Vec<Reader>) {
    let work = tempfile::tempdir().unwrap();
    for reader in readers(work.path()) {
        let Some(limit) = reader.most else { continue };
        let sample = &reader.samples[0];
        fs::write(&reader.file, sample).unwrap();
        let file = fs::File::options().write(true).open(&reader.file).unwrap();
        // Where a disk has no holes, the size alone is too much for it.
        if file.set_len(limit.most + 1).is_err() {
            continue;
        }
        let refused = (reader.read)(&reader.file).unwrap_err();
        let most = models::figures::count(limit.most);
        assert!(refused.contains(&most), "{}: {refused}", reader.name);
        drop(file);
        fs::remove_file(&reader.file).unwrap();
    }
}

/// Every limit of a file has to be that of a reader, or nobody tries what lies above it. `parts` are those of what is in a file.
pub(crate) fn check_limits(readers: fn(&Path) -> Vec<Reader>, limits: &[Limit], parts: &[Limit]) {
    let work = tempfile::tempdir().unwrap();
    let tried: Vec<Limit> = readers(work.path())
        .iter()
        .filter_map(|it| it.most)
        .collect();
    for limit in limits.iter().filter(|it| it.unit == "bytes") {
        let what = limit.what;
        match parts.contains(limit) {
            true => assert!(!tried.contains(limit), "{what} is that of a reader"),
            false => assert!(tried.contains(limit), "{what} is tried by no reader"),
        }
    }
}

/// Real files have to be read, or the cases would only ever meet the first check.
pub(crate) fn check_samples(readers: fn(&Path) -> Vec<Reader>) {
    let work = tempfile::tempdir().unwrap();
    for reader in readers(work.path()) {
        for sample in &reader.samples {
            fs::write(&reader.file, sample).unwrap();
            if let Err(why) = (reader.read)(&reader.file) {
                panic!("{} refuses a sample: {why}", reader.name);
            }
        }
    }
}

/// The readers that were asked for by the beginnings of their names, or all.
fn chosen(mut readers: Vec<Reader>) -> Vec<Reader> {
    let asked = env::var_os("ANNEAL_FUZZ_READERS");
    if let Some(asked) = asked.as_ref().and_then(|it| it.to_str()) {
        readers.retain(|it| asked.split(',').any(|begin| it.name.starts_with(begin)));
    }
    assert!(!readers.is_empty(), "no reader has such a name");
    readers
}

/// Which reader a case is for, and its bytes.
fn case(readers: &[Reader], seed: u64, number: u64) -> (&Reader, Vec<u8>) {
    let mut random = Random::for_purpose(seed, &format!("fuzz {number}"));
    let all: usize = readers.iter().map(|it| it.share).sum();
    let mut at = random.below(all);
    let reader = readers.iter().find(|it| {
        let is_it = at < it.share;
        at = at.saturating_sub(it.share);
        is_it
    });
    let reader = reader.unwrap();
    (reader, mutate::changed(&mut random, &reader.samples))
}

/// Starts the process that works, as often as a case ends it. Returns what was found.
fn watch(work: &Path, test: &str, mut from: u64, cases: u64) -> Vec<String> {
    let (progress, findings) = (work.join("progress"), work.join("findings"));
    let mut ended = Vec::new();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    while from < cases && ended.len() < ENOUGH {
        fs::write(&progress, "").unwrap();
        let log = fs::File::create(work.join("log")).unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(WORK, work)
            .env(FROM, from.to_string())
            .env("ANNEAL_FUZZ_CASES", (cases * 2).to_string())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let why = wait(child, &progress);
        let number = read(&progress).trim().parse::<u64>();
        match (why, number) {
            (None, _) => break,
            (Some(why), Ok(number)) => {
                let log = read(&work.join("log"));
                let last = log.lines().rev().find(|it| !it.trim().is_empty());
                ended.push(format!(
                    "case {number}: {why}: {}",
                    last.unwrap_or_default()
                ));
                from = number + 1;
            }
            (Some(why), Err(_)) => panic!("{why}, before any case: {}", read(&work.join("log"))),
        }
    }
    ended.extend(read(&findings).lines().map(str::to_owned));
    ended
}

/// Waits until a process has ended, and ends it when nothing happens any more. Returns why it did not end well.
fn wait(mut child: Child, progress: &Path) -> Option<String> {
    let mut output = child.stdout.take().unwrap();
    let (send, ended) = mpsc::channel::<()>();
    // What it writes ends when it does.
    thread::spawn(move || {
        let _ = io::copy(&mut output, &mut io::sink());
        drop(send);
    });
    let (mut last, mut since) = (String::new(), Instant::now());
    while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
        let now = fs::read_to_string(progress).unwrap_or_default();
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > HANG {
            child.kill().unwrap();
            child.wait().unwrap();
            return Some(format!("does not end in {} s", HANG.as_secs()));
        }
    }
    let status = child.wait().unwrap();
    (!status.success()).then(|| format!("ends the process with {status}"))
}

/// The process that works: all cases from one on, each by its number.
fn work_through(work: &Path, readers: fn(&Path) -> Vec<Reader>, seed: u64, from: u64, cases: u64) {
    let home = tempfile::tempdir_in(work).unwrap();
    let readers = chosen(readers(home.path()));
    let mut progress = fs::File::options()
        .write(true)
        .open(work.join("progress"))
        .unwrap();
    let append = fs::File::options()
        .create(true)
        .append(true)
        .open(work.join("findings"));
    let mut findings = append.unwrap();
    panic::set_hook(Box::new(|panic| {
        SAID.set(panic.to_string().replace('\n', " "))
    }));
    memory::refuse_above(LARGEST);
    if from == 0 {
        for reader in &readers {
            for (name, bytes) in found(reader) {
                if let Err(what) = try_case(reader, &bytes, &mut Figure::default()) {
                    writeln!(findings, "{} of {}: {what}", name, reader.name).unwrap();
                }
            }
        }
    }
    let mut figures = BTreeMap::new();
    for number in from..cases {
        progress.seek(SeekFrom::Start(0)).unwrap();
        progress
            .write_all(format!("{number:>20}\n").as_bytes())
            .unwrap();
        let (reader, bytes) = case(&readers, seed, number);
        let figure: &mut Figure = figures.entry(reader.name).or_default();
        if let Err(what) = try_case(reader, &bytes, figure) {
            writeln!(findings, "case {number}: {}: {what}", reader.name).unwrap();
            figure.findings += 1;
        }
        if figure.findings == ENOUGH {
            break;
        }
    }
    for (name, it) in figures {
        let Figure {
            cases,
            refused,
            seconds,
            slowest,
            most,
            ..
        } = it;
        let line = format!(
            "{name}: {cases} cases, {refused} refused, {seconds:.1} s, slowest {slowest:.3} s, most {most} MB"
        );
        writeln!(
            fs::File::options()
                .create(true)
                .append(true)
                .open(work.join("figures"))
                .unwrap(),
            "{line}"
        )
        .unwrap();
    }
    let _ = panic::take_hook();
}

/// The files that were found for a reader.
fn found(reader: &Reader) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/models/fuzz/found")
        .join(reader.name);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Reads bytes once, within the limits of their reader.
fn try_case(reader: &Reader, bytes: &[u8], figure: &mut Figure) -> Result<(), String> {
    fs::write(&reader.file, bytes).unwrap();
    let mut fastest = f64::INFINITY;
    for _ in 0..TIMES {
        let before = memory::begin();
        let started = Instant::now();
        let read = panic::catch_unwind(AssertUnwindSafe(|| (reader.read)(&reader.file).is_err()));
        let seconds = started.elapsed().as_secs_f64();
        fastest = fastest.min(seconds);
        let megabytes = memory::peak().saturating_sub(before) >> 20;
        figure.seconds += seconds;
        figure.most = figure.most.max(megabytes);
        if let Ok(is_refused) = read {
            figure.refused += usize::from(is_refused);
        } else {
            return Err(format!("panics: {}", SAID.take()));
        }
        if megabytes > reader.megabytes {
            return Err(format!(
                "takes {megabytes} MB for a file of {} bytes, and may take {}",
                bytes.len(),
                reader.megabytes
            ));
        }
        if fastest <= reader.seconds {
            figure.cases += 1;
            figure.slowest = figure.slowest.max(fastest);
            return Ok(());
        }
    }
    Err(format!(
        "takes {fastest:.1} s, and may take {}",
        reader.seconds
    ))
}
