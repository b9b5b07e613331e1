//! What the app and an engine say to each other: one JSON object per line, each with its `kind`.
//!
//! The app asks on the engine's standard input and gets replies on its standard output, in order: any number of them
//! for one ask, then [`Reply::Done`] or [`Reply::Refused`]. Only then it asks again, save for [`Ask::Pause`],
//! [`Ask::Continue`] and [`Ask::Stop`], which are heard at any time. When the app goes away, the engine's input ends; then it saves what is running and leaves.

use std::path::PathBuf;

use models::{
    bench,
    check::{CheckRow, Fallback, Fault},
    data::starter::Exchange,
    device::{Checked, FoundDevice, RequestedDevice},
    ops::kept::CacheType,
    profile::Ceilings,
    tasks::{
        AnyPlan,
        language::profile::AnswerProfile,
        picture::classifier::About,
        probe::{
            apply::{Applied, ApplyPlan, ApplyRequest},
            capture::{CapturePlan, CaptureProgress, CaptureRequest},
            live::LiveProbe,
        },
        puzzle::{
            board::Board,
            question::{Held, Question},
            solve::{Effort, Solved, SolvedAfter, Thinking},
        },
        starter::Examination,
    },
    train::{TrainEvent, forecast::Forecast, profile::Profile},
};
use serde::{Deserialize, Serialize};

use super::{
    chat::{ChatSettings, Led, Prompt, Said, ScoredToken, SteerBy},
    completion::{RequestEvent, Requested},
    error::AppError,
    predict::{AskedPicture, PictureAnswer},
};

/// What an engine is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Ask {
    /// Train the run in this folder, from its newest checkpoint, until it is done or stopped; with `force` also when data,
    /// model or settings are not what they were.
    Train { folder: PathBuf, force: bool },
    /// Take a few steps of a run that is only tried, and keep nothing.
    Try {
        plan: Box<AnyPlan>,
        /// Where it may write what it saves for a moment.
        folder: PathBuf,
    },
    /// Take a few steps of a run, say where they spend their time and memory, and keep nothing.
    Profile {
        plan: Box<AnyPlan>,
        /// Where it may write what it saves for a moment.
        folder: PathBuf,
    },
    /// Take a few steps of a case of the benchmark and say where they spend their time and memory.
    ProfileCase {
        case: bench::BenchCase,
        device: RequestedDevice,
        avoid_kernels: Vec<String>,
    },
    /// Open the model in a folder to chat with.
    OpenChat {
        folder: PathBuf,
        device: RequestedDevice,
        /// What is known of the device.
        checked: Checked,
    },
    /// Answer, or continue.
    Answer {
        prompt: Prompt,
        settings: ChatSettings,
        /// As the model is, also while it is led.
        #[serde(default)]
        plain: bool,
    },
    /// Have the open model do what the server asks of it from now on.
    Serve {
        /// How many texts it completes at once.
        slots: usize,
        /// How keys and values of what was read are kept.
        cache: CacheType,
    },
    /// Begin what the server was asked. It is over with its last event: no reply says that this ask is done.
    Begin { request: u64, wanted: Requested },
    /// End a request, if it is not over. It has one event more, which says so.
    Leave { request: u64 },
    /// Say where an answer of the open model spends its time and memory.
    ProfileAnswer,
    /// Open the puzzle model in a folder to solve puzzles.
    OpenSolver {
        folder: PathBuf,
        device: RequestedDevice,
        /// What is known of the device.
        checked: Checked,
    },
    /// Read a puzzle, or one of its questions, from 0.
    ReadPuzzle { puzzle: String, part: usize },
    /// Solve a puzzle, given as a text, or one of its questions.
    Solve {
        puzzle: String,
        part: usize,
        effort: Effort,
    },
    /// Count how many of these puzzles are solved after so many steps of thinking.
    CountSolved {
        puzzles: Vec<Held>,
        steps: Vec<usize>,
    },
    /// Open the classifier in a folder to say what pictures show.
    OpenClassifier {
        folder: PathBuf,
        device: RequestedDevice,
        /// What is known of the device.
        checked: Checked,
    },
    /// Say what a picture shows. What is returned of it has sides of at most `side`, or of what the model sees.
    Predict { picture: AskedPicture, side: usize },
    /// Capture hidden states of a model over labelled text into a folder, or only plan it.
    Capture {
        /// Where the model lies.
        folder: PathBuf,
        device: RequestedDevice,
        /// What is known of the device.
        checked: Checked,
        request: Box<CaptureRequest>,
        /// Where the states go. Without it, the capture is only planned.
        states: Option<PathBuf>,
    },
    /// Apply probes to texts.
    ApplyProbes {
        /// Where the model lies.
        folder: PathBuf,
        device: RequestedDevice,
        /// What is known of the device.
        checked: Checked,
        /// The folder of the probes.
        probes: PathBuf,
        request: Box<ApplyRequest>,
        /// Also when they were learned from another model.
        force: bool,
    },
    /// Score each token with probes of these folders while the open model reads and writes. Without folders, not any more.
    Watch {
        probes: Vec<PathBuf>,
        /// Also when they were learned from another model.
        force: bool,
    },
    /// Lead the open model along directions of probes while it writes. Without any, not any more.
    Steer {
        by: Vec<SteerBy>,
        /// Also along those of another model.
        force: bool,
    },
    /// Try what a group of the device check tries, from this case on.
    Check {
        group: String,
        from: usize,
        device: RequestedDevice,
        faults: Vec<Fault>,
    },
    /// Try one of these cases without its kernel: the process that tried it with it has ended.
    CheckFallback {
        group: String,
        at: usize,
        device: RequestedDevice,
        faults: Vec<Fault>,
    },
    /// Take steps of the smallest run of a kind of learning.
    TryKind {
        task: String,
        device: RequestedDevice,
        checked: Checked,
        /// Empty, for its data.
        folder: PathBuf,
        faults: Vec<Fault>,
    },
    /// Measure a case of the benchmark for so many seconds.
    Bench {
        case: bench::BenchCase,
        device: RequestedDevice,
        avoid_kernels: Vec<String>,
        seconds: f64,
    },
    /// Ask the model in a folder every question of the starter's examination.
    Examine {
        folder: PathBuf,
        device: RequestedDevice,
        questions: Vec<Exchange>,
    },
    /// Save the run that is running, and wait with it in memory; for this reason, if no person asked for it.
    Pause { why: Option<String> },
    /// Continue after a pause.
    Continue,
    /// End what is running: a run is saved, an answer stays as it is.
    Stop,
}

/// Something that happened in a run, as it stands on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedEvent {
    /// Counts from 1 over all sessions of a run. Without gaps, unless lines were lost or can't be read. 0 is not in the file:
    /// it says why the disk takes no events.
    pub(crate) number: u64,
    /// When it was written, in UTC: `2026-11-21T09:30:00.123Z`.
    pub(crate) time: String,
    /// What happened.
    #[serde(flatten)]
    pub(crate) event: TrainEvent,
}

/// What an engine says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Reply {
    /// The first line: who is there, and what it can compute on.
    Hello {
        version: String,
        devices: Vec<FoundDevice>,
    },
    /// The engine lives. Said every second, whatever it does.
    Beat,
    /// Something happened in the run. It is on disk already, unless it says that the disk takes nothing.
    Happened { event: RecordedEvent },
    /// What follows from a few steps.
    Tried { forecast: Forecast },
    /// Where a few steps spent their time and memory, and what the device could do at best.
    Profiled {
        profile: Box<Profile>,
        ceilings: Option<Ceilings>,
    },
    /// A case of the device check was tried.
    Checked { row: CheckRow },
    /// What works instead of a case.
    FellBack { fallback: Fallback },
    /// The smallest run of a kind took so long. Nothing where there is none.
    TriedKind { millis: Option<f64> },
    /// A case of the benchmark was measured.
    Measured { row: Box<bench::BenchRow> },
    /// A model is open. `answers` says whether it answers or continues text, `context` how many tokens it can read.
    Opened {
        answers: bool,
        context: usize,
        warnings: Vec<String>,
    },
    /// A piece of an answer.
    Wrote { piece: String },
    /// A whole answer.
    Answered { said: Said },
    /// Something of a request to the server.
    OfRequest { request: u64, event: RequestEvent },
    /// Where an answer spends its time and memory, and what the device could do at best.
    ProfiledAnswer {
        profile: Box<AnswerProfile>,
        ceilings: Option<Ceilings>,
    },
    /// A puzzle model is open: its grids, the steps of thinking it was trained with, its weights.
    SolverOpened {
        board: Board,
        steps: usize,
        weights: usize,
        warnings: Vec<String>,
    },
    /// A puzzle was read.
    PuzzleRead { question: Box<Question> },
    /// A step of thinking is done.
    Thought { thinking: Thinking },
    /// All of them are.
    Solved { solved: Solved },
    /// So many puzzles were thought about.
    SolvedSome { count: usize },
    /// How many are solved after which step.
    CountedSolved { marks: Vec<SolvedAfter> },
    /// A classifier is open: what it is, its weights.
    ClassifierOpened {
        about: Box<About>,
        weights: usize,
        warnings: Vec<String>,
    },
    /// What a picture shows, or why it can’t be read.
    Predicted { answer: PictureAnswer },
    /// What a capture will do, said before it starts.
    CapturePlanned {
        plan: Box<CapturePlan>,
        warnings: Vec<String>,
    },
    /// Some more hidden states are captured.
    Captured { progress: CaptureProgress },
    /// The capture has ended, with all states or with those up to where it was stopped.
    CaptureEnded { complete: bool },
    /// What is applied to what, said before it starts.
    ApplyPlanned {
        plan: Box<ApplyPlan>,
        warnings: Vec<String>,
    },
    /// Probes were applied to some more texts.
    Applied { texts: Vec<Applied> },
    /// Which probes score tokens from now on, in the order of their scores.
    Watching {
        probes: Vec<LiveProbe>,
        warnings: Vec<String>,
    },
    /// How the model is led from now on.
    Leading { led: Led },
    /// Tokens were read. Those of an answer come one by one, each after its piece.
    Scored { scored: Vec<ScoredToken> },
    /// So many questions are answered.
    Examined { count: usize },
    /// All of them are.
    Passed { examination: Examination },
    /// What was asked is done.
    Done,
    /// What was asked can't be done.
    Refused { error: AppError },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_and_a_reply_are_lines_that_name_their_kind() {
        let ask = Ask::Train {
            folder: "a\nb".into(),
            force: false,
        };
        let line = serde_json::to_string(&ask).unwrap();
        assert_eq!(line, r#"{"kind":"train","folder":"a\nb","force":false}"#);
        assert_eq!(serde_json::from_str::<Ask>(&line).unwrap(), ask);

        let reply = Reply::Refused {
            error: AppError::invalid("no").with_hint("yes"),
        };
        let line = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
    }
}
