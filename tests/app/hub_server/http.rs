//! As much of HTTP/1.1 as Anneal speaks: requests are read, and answers are written or go wrong on purpose.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    ops::Range,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use reqwest::Url;

use super::{Fault, Host, Request, State, answers, reason};

/// How much of a body is written at once: large enough to be as fast as the connection, small enough to count.
const WRITE_BYTES: usize = 1024 * 1024;

/// What is answered, before anything goes wrong with it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Arc<[u8]>,
    /// Whether it is a file, of which parts can be asked for.
    pub(super) is_file: bool,
}

/// What goes wrong while an answer is written.
#[derive(Default)]
struct Manner {
    ignores_range: bool,
    range_told: Option<String>,
    cut_after: Option<usize>,
    bytes_per_second: Option<usize>,
    length_error: i64,
}

/// Takes connections until the process ends.
pub(super) fn listen(state: &Arc<State>, host: Host, listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        let state = Arc::clone(state);
        thread::spawn(move || {
            // A client may go away at any time; that is no failure of the server.
            let _ = serve(&state, host, &stream);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

/// Answers the requests of a connection, one after the other, until it is broken off.
fn serve(state: &State, host: Host, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let request = read_request(&mut reader, state, host)?;
        state.requests.lock().unwrap().push(request.clone());
        let mut answer = answers::answer(state, &request);
        let mut manner = Manner::default();
        for fault in state.faults(&request, &answer) {
            manner.take(fault, &request, &mut answer)?;
        }
        write_answer(stream, &request, answer, &manner)?;
        if manner.length_error != 0 {
            return Ok(());
        }
    }
}

impl Manner {
    /// Has a fault happen, or notes it for later. An error breaks the connection off.
    fn take(&mut self, fault: Fault, request: &Request, answer: &mut Answer) -> io::Result<()> {
        match fault {
            Fault::Answer {
                status,
                headers,
                body,
            } => {
                *answer = Answer::new(status, body);
                answer.headers = headers;
            }
            // With a higher number each time, so that no two requests are alike.
            Fault::RedirectForever => {
                let turn = request.query("turn").and_then(|it| it.parse().ok());
                let next = turn.map_or(1, |turn: u64| turn + 1).to_string();
                let next = request.with_query("turn", &next);
                *answer = Answer::new(307, Vec::new()).with("Location", next);
            }
            Fault::Pause(time) => thread::sleep(time),
            Fault::Silence => loop {
                thread::park();
            },
            Fault::HangUp => return Err(io::ErrorKind::ConnectionAborted.into()),
            Fault::WrongByte(place) => {
                let mut bytes = answer.body.to_vec();
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = !*byte;
                }
                answer.body = bytes.into();
            }
            Fault::IgnoreRange => self.ignores_range = true,
            Fault::WrongRange(text) => self.range_told = Some(text),
            Fault::CutAfter(bytes) => self.cut_after = Some(bytes),
            Fault::BytesPerSecond(bytes) => self.bytes_per_second = Some(bytes),
            Fault::WrongLength(bytes) => self.length_error = bytes,
        }
        Ok(())
    }
}

/// The part of a file that is asked for, from one byte on, to another or the end.
fn part_asked(request: &Request, size: usize) -> Option<Range<usize>> {
    let (first, last) = request
        .header("range")?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    let end = last.parse().map_or(size, |last: usize| size.min(last + 1));
    Some(first.parse().ok()?..end)
}

fn write_answer(
    mut stream: &TcpStream,
    request: &Request,
    mut answer: Answer,
    manner: &Manner,
) -> io::Result<()> {
    let size = answer.body.len();
    let parts = answer.is_file && answer.status == 200 && !manner.ignores_range;
    let part = match part_asked(request, size).filter(|_| parts) {
        None => 0..size,
        Some(part) if part.start >= size => {
            answer.status = 416;
            0..0
        }
        Some(part) => {
            let told = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            answer.status = 206;
            answer = answer.with("Content-Range", manner.range_told.as_ref().unwrap_or(&told));
            part
        }
    };
    let length = (part.len() as i64 + manner.length_error).max(0);
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    write_body(stream, request, &answer.body[part], manner)
}

fn write_body(
    mut stream: &TcpStream,
    request: &Request,
    body: &[u8],
    manner: &Manner,
) -> io::Result<()> {
    let body = &body[..manner.cut_after.unwrap_or(usize::MAX).min(body.len())];
    // Twenty pieces in a second look like a slow connection and not like a stuttering one.
    let rate = manner.bytes_per_second;
    let piece_bytes = rate.map_or(WRITE_BYTES, |rate| (rate / 20).max(1));
    let (start, mut written) = (Instant::now(), 0);
    for piece in body.chunks(piece_bytes) {
        stream.write_all(piece)?;
        written += piece.len();
        let sent = &request.bytes_sent;
        sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(written as f64 / rate as f64);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    match manner.cut_after {
        Some(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        None => Ok(()),
    }
}

/// Reads the next request, which has no body. An error if there is no more.
fn read_request(
    reader: &mut BufReader<&TcpStream>,
    state: &State,
    host: Host,
) -> io::Result<Request> {
    let mut lines = reader.lines();
    let mut line = || lines.next().ok_or(io::ErrorKind::UnexpectedEof)?;
    let first = line()?;
    let mut headers = Vec::new();
    while let Some((name, value)) = line()?.split_once(':') {
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let target = first.split(' ').nth(1).unwrap_or_default();
    let address = match host {
        Host::Api => &state.endpoint,
        Host::Cdn => &state.cdn,
    };
    let url = Url::parse(&format!("{address}{target}")).map_err(io::Error::other)?;
    Ok(Request {
        host,
        url,
        headers,
        bytes_sent: Arc::default(),
    })
}

impl Answer {
    pub(super) fn new(status: u16, body: impl Into<Arc<[u8]>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            is_file: false,
        }
    }

    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}
