//! As much of HTTP/1.1 as a client of the Hub needs: requests are read, and answers are written or go wrong on purpose.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Fault, Host, Request, State, answers};

/// The longest line of a request that is read.
const LONGEST_LINE: u64 = 64 * 1024;

/// How much of a body is written at once: large enough to be as fast as the connection, small enough to count.
const WRITE_BYTES: usize = 1024 * 1024;

/// What is answered, before anything goes wrong with it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Arc<[u8]>,
    /// Whether it is a file, of which parts can be asked for.
    pub(super) is_file: bool,
    /// The part of the body that is sent.
    part: Range<usize>,
}

/// What happens to the body while it is written.
struct Manner {
    cut_after: Option<u64>,
    bytes_per_second: Option<u64>,
    length_error: i64,
}

/// What part of a file is asked for.
enum Asked {
    Whole,
    Part(Range<usize>),
    /// One that the file does not have.
    Beyond,
}

/// Takes connections until the server ends.
pub(super) fn listen(state: &Arc<State>, host: Host, listener: &TcpListener) {
    let mut number = 0;
    for stream in listener.incoming() {
        if state.is_stopping() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else {
            continue;
        };
        number += 1;
        let key = (host, number);
        state.connections.lock().unwrap().insert(key, copy);
        let state = Arc::clone(state);
        thread::spawn(move || {
            // A client may go away at any time; that is no failure of the server.
            let _ = serve(&state, host, &stream);
            let _ = stream.shutdown(Shutdown::Both);
            state.connections.lock().unwrap().remove(&key);
        });
    }
}

/// Answers the requests of a connection, one after the other.
fn serve(state: &State, host: Host, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader, host)? {
        state.requests.lock().unwrap().push(request.clone());
        let mut answer = answers::answer(state, &request);
        let faults = state.faults(&request, &answer);
        let mut goes_on = !request
            .header("connection")
            .is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if !prepare(state, &request, &mut answer, &faults) {
            return Ok(());
        }
        let manner = Manner::of(&faults);
        goes_on &= manner.length_error == 0;
        write_answer(state, stream, &request, &answer, &manner, goes_on)?;
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

/// Has the faults happen that come before an answer is written. False if there is to be none.
fn prepare(state: &State, request: &Request, answer: &mut Answer, faults: &[Fault]) -> bool {
    let mut reads_range = true;
    let mut range_told = None;
    for fault in faults {
        match fault {
            Fault::Answer {
                status,
                headers,
                body,
            } => {
                *answer = Answer::new(*status, body.clone());
                answer.headers.clone_from(headers);
            }
            Fault::RedirectForever => *answer = next_in_circle(request),
            Fault::Pause(time) => state.sleep_until(Instant::now() + *time),
            Fault::Silence => {
                const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
                state.sleep_until(Instant::now() + A_DAY);
                return false;
            }
            Fault::HangUp => return false,
            Fault::WrongByte(place) => {
                let mut bytes = answer.body.to_vec();
                if let Some(byte) = bytes.get_mut(*place as usize) {
                    *byte = !*byte;
                }
                answer.body = bytes.into();
            }
            Fault::IgnoreRange => reads_range = false,
            Fault::WrongRange(text) => range_told = Some(text.clone()),
            Fault::CutAfter(_) | Fault::BytesPerSecond(_) | Fault::WrongLength(_) => {}
        }
    }
    if answer.is_file && answer.status == 200 && reads_range {
        take_part(request, answer, range_told);
    }
    true
}

/// The part of the file that is asked for, in place of the whole.
fn take_part(request: &Request, answer: &mut Answer, range_told: Option<String>) {
    let size = answer.body.len();
    match asked(request, answer) {
        Asked::Whole => {}
        Asked::Beyond => {
            answer.status = 416;
            answer.part = 0..0;
            answer.add("Content-Range", format!("bytes */{size}"));
        }
        Asked::Part(part) => {
            let told = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            answer.status = 206;
            answer.add("Content-Range", range_told.unwrap_or(told));
            answer.part = part;
        }
    }
}

fn asked(request: &Request, answer: &Answer) -> Asked {
    let size = answer.body.len();
    let has_other_content = request
        .header("if-range")
        .is_some_and(|it| answer.header("ETag") != Some(it));
    let text = request.header("range").unwrap_or_default();
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .and_then(|it| it.split_once('-'))
    else {
        return Asked::Whole;
    };
    match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
        _ if has_other_content => Asked::Whole,
        (Ok(first), Ok(last)) if last < first => Asked::Whole,
        (Ok(first), _) if first >= size => Asked::Beyond,
        (Ok(first), Ok(last)) => Asked::Part(first..size.min(last.saturating_add(1))),
        (Ok(first), Err(_)) if last.trim().is_empty() => Asked::Part(first..size),
        (Err(_), Ok(0)) if first.trim().is_empty() => Asked::Beyond,
        (Err(_), Ok(_)) if first.trim().is_empty() && size == 0 => Asked::Beyond,
        (Err(_), Ok(count)) if first.trim().is_empty() => {
            Asked::Part(size.saturating_sub(count)..size)
        }
        _ => Asked::Whole,
    }
}

/// A redirect to the same path with a higher number, so that no two requests are alike.
fn next_in_circle(request: &Request) -> Answer {
    let turn = request.query_value("turn").and_then(|it| it.parse().ok());
    let turn = turn.map_or(1, |turn: u64| turn + 1);
    let query: Vec<(String, String)> = request
        .query
        .iter()
        .filter(|(name, _)| name != "turn")
        .cloned()
        .chain([("turn".to_owned(), turn.to_string())])
        .collect();
    let target = format!("{}?{}", request.path, encode_query(&query));
    Answer::new(307, Vec::new()).with("Location", target)
}

fn write_answer(
    state: &State,
    mut stream: &TcpStream,
    request: &Request,
    answer: &Answer,
    manner: &Manner,
    goes_on: bool,
) -> io::Result<()> {
    let has_length = !matches!(answer.status, 204 | 304);
    let body = &answer.body[answer.part.clone()];
    let length = (body.len() as i64 + manner.length_error).max(0);
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.headers {
        let value = value.replace(char::is_control, " ");
        head += &format!("{name}: {value}\r\n");
    }
    if has_length {
        head += &format!("Content-Length: {length}\r\n");
    }
    let after = if goes_on { "keep-alive" } else { "close" };
    head += &format!("Connection: {after}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    if request.method == "HEAD" || !has_length {
        return Ok(());
    }
    write_body(state, stream, request, body, manner)
}

fn write_body(
    state: &State,
    mut stream: &TcpStream,
    request: &Request,
    body: &[u8],
    manner: &Manner,
) -> io::Result<()> {
    let cut_after = manner.cut_after.map_or(usize::MAX, |it| it as usize);
    let piece_bytes = match manner.bytes_per_second {
        // Twenty pieces in a second look like a slow connection and not like a stuttering one.
        Some(rate) => (rate as usize / 20).max(1),
        None => WRITE_BYTES,
    };
    let start = Instant::now();
    let mut written = 0;
    while written < body.len().min(cut_after) {
        let end = (written + piece_bytes).min(body.len()).min(cut_after);
        stream.write_all(&body[written..end])?;
        request
            .bytes_sent
            .fetch_add((end - written) as u64, Ordering::SeqCst);
        written = end;
        if let Some(rate) = manner.bytes_per_second {
            let due = Duration::from_secs_f64(written as f64 / rate.max(1) as f64);
            state.sleep_until(start + due);
        }
    }
    match manner.cut_after {
        Some(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        None => Ok(()),
    }
}

/// Reads the next request. None if there is no more.
fn read_request(reader: &mut BufReader<&TcpStream>, host: Host) -> io::Result<Option<Request>> {
    let first = read_line(reader)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    if words.next() == Some("HTTP/1.0") {
        headers.push(("connection".to_owned(), "close".to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        host,
        method: method.to_owned(),
        path: path.to_owned(),
        query: decode_query(query),
        headers,
        target: target.to_owned(),
        bytes_sent: Arc::new(AtomicU64::new(0)),
    };
    // What is sent along is of no interest, and in the way of the next request.
    let length = request.header("content-length").map(str::parse);
    if let Some(Ok(bytes)) = length {
        io::copy(&mut reader.take(bytes), &mut io::sink())?;
    }
    Ok(Some(request))
}

fn read_line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

impl Manner {
    fn of(faults: &[Fault]) -> Self {
        let mut manner = Self {
            cut_after: None,
            bytes_per_second: None,
            length_error: 0,
        };
        for fault in faults {
            match fault {
                Fault::CutAfter(bytes) => manner.cut_after = Some(*bytes),
                Fault::BytesPerSecond(bytes) => manner.bytes_per_second = Some(*bytes),
                Fault::WrongLength(bytes) => manner.length_error = *bytes,
                _ => {}
            }
        }
        manner
    }
}

impl Answer {
    pub(super) fn new(status: u16, body: impl Into<Arc<[u8]>>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: Vec::new(),
            is_file: false,
            part: 0..body.len(),
            body,
        }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.add(name, value);
        self
    }

    fn add(&mut self, name: &str, value: impl Into<String>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(it, _)| it == name)?;
        Some(value)
    }
}

/// The words beside a status.
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Something Else",
    }
}

/// A piece of an address with everything in it that could mean something else written as `%2F`.
pub(super) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

pub(super) fn encode_query(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.join("&")
}

pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|it| str::from_utf8(it).ok());
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        (rest, _) = match byte.filter(|_| first == b'%') {
            Some(byte) => (&after[2..], bytes.push(byte)),
            None => (after, bytes.push(first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(&value.replace('+', " "))))
        .collect()
}
