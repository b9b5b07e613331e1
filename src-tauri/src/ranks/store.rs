//! Where ranks exchange messages before they are connected: a client of torchrun's store, and a server of the same protocol for
//! launchers that bring none (`server`).
//!
//! The protocol is that of PyTorch's TCPStore (<https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/TCPStoreBackend.cpp>).
//! Numbers are little-endian; a text or value is a u64 length and its bytes; a connection begins with a magic number. There is no
//! password: whoever knows a key can read and write its value, so keys contain a secret where one was set. Deliberately absent:
//! words that list or delete keys.

mod server;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

pub(crate) use self::server::Server;
use super::launch::Launch;
use crate::wire::error::{AppError, Result};

const MAGIC: u32 = 0x3C85_F7CE;
const VALIDATE: u8 = 0;
const SET: u8 = 1;
const GET: u8 = 3;
const CHECK: u8 = 5;
const WAIT: u8 = 6;
const PING: u8 = 13;

const MAX_KEY_BYTES: u64 = 8 << 10;
/// A plan or the sums of its files are a few KB.
const MAX_VALUE_BYTES: u64 = 1 << 20;
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often an attempt is made, and the server looks for a new connection.
const AGAIN: Duration = Duration::from_millis(50);

/// A connection to the store of a launch.
pub(crate) struct Store {
    stream: TcpStream,
    prefix: String,
    lasting: String,
    rank: usize,
    timeout: Duration,
}

impl Store {
    /// Connects, and tries again until the launch’s time is up: who serves may not listen yet.
    pub(crate) fn connect(launch: &Launch) -> Result<Self> {
        let started = Instant::now();
        let stream = loop {
            let error = match greet(launch) {
                Ok(stream) => break stream,
                Err(error) => error,
            };
            // What answers, and is no store, will not become one.
            if started.elapsed() > launch.timeout || error.kind() == ErrorKind::InvalidData {
                let (place, time) = (launch.place(), words(launch.timeout));
                let message = match error.kind() {
                    ErrorKind::InvalidData => format!("what answers on {place} is not rank 0"),
                    _ => format!("rank 0 did not answer on {place} within {time}: {error}"),
                };
                let hint = "look whether it runs, and whether this machine can reach it there";
                return Err(AppError::failed(message).with_hint(hint));
            }
            thread::sleep(AGAIN);
        };
        Ok(Self {
            stream,
            prefix: launch.prefix.clone(),
            lasting: launch.lasting.clone(),
            rank: launch.rank,
            timeout: launch.timeout,
        })
    }

    /// What rank 0 makes, on every rank.
    ///
    /// Errors: it did not come in time, or rank 0 could not make it.
    pub(crate) fn share(
        &mut self,
        key: &str,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let name = format!("{}{key}", self.prefix);
        let shared = match self.rank {
            0 => {
                let value = make()?;
                self.set(&name, &value).map(|()| value)
            }
            _ => self.wait(&name),
        };
        shared.map_err(|error| {
            let time = words(self.timeout);
            let hint = "look at the log of rank 0 on its machine";
            let late = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
            match late {
                true => AppError::failed(format!("rank 0 did not say its `{key}` within {time}")),
                false => AppError::failed(format!("the ranks could not share `{key}`: {error}")),
            }
            .with_hint(hint)
        })
    }

    /// What each of so many ranks says, on every rank, in their order. `lost` says which rank is gone, once one is.
    pub(crate) fn exchange(
        &mut self,
        (key, own): (&str, &[u8]),
        world: usize,
        lost: &dyn Fn() -> Option<String>,
    ) -> Result<Vec<Vec<u8>>> {
        let name = |rank: usize| format!("{key}/{rank}");
        let prefix = self.prefix.clone();
        let own_name = format!("{prefix}{}", name(self.rank));
        self.set(&own_name, own).map_err(does_not_answer)?;
        let started = Instant::now();
        let mut all = Vec::with_capacity(world);
        while all.len() < world {
            let rank = all.len();
            match self.find(&format!("{prefix}{}", name(rank)))? {
                Some(said) => all.push(said),
                None if started.elapsed() > self.timeout => {
                    let time = words(self.timeout);
                    return Err(AppError::failed(format!(
                        "rank {rank} did not say its `{key}` within {time}"
                    )));
                }
                None => thread::sleep(AGAIN),
            }
            if let Some(lost) = lost() {
                return Err(AppError::failed(lost));
            }
        }
        Ok(all)
    }

    /// Leaves a value for the ranks that are started when these have failed. Only a launcher’s own store lasts so long.
    pub(crate) fn leave(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let key = format!("{}{key}", self.lasting);
        self.set(&key, value).map_err(does_not_answer)
    }

    /// What ranks that have failed left, if they did.
    pub(crate) fn left(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        self.find(&format!("{}{key}", self.lasting))
    }

    /// A value, if it is there.
    fn find(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = sized(key.as_bytes());
        let mut find = || {
            self.say(CHECK, &[&1u64.to_le_bytes()[..], &key].concat())?;
            if take(&mut self.stream)? != [0] {
                return Ok(None);
            }
            self.say(GET, &key)?;
            take_sized(&mut self.stream, MAX_VALUE_BYTES).map(Some)
        };
        find().map_err(does_not_answer)
    }

    fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        self.say(SET, &[sized(key.as_bytes()), sized(value)].concat())
    }

    fn wait(&mut self, key: &str) -> io::Result<Vec<u8>> {
        let key = sized(key.as_bytes());
        self.say(WAIT, &[&1u64.to_le_bytes()[..], &key].concat())?;
        if take(&mut self.stream)? != [0] {
            return Err(io::Error::new(ErrorKind::TimedOut, "the store gave up"));
        }
        self.say(GET, &key)?;
        take_sized(&mut self.stream, MAX_VALUE_BYTES)
    }

    fn say(&mut self, word: u8, rest: &[u8]) -> io::Result<()> {
        self.stream.write_all(&[&[word], rest].concat())
    }
}

fn does_not_answer(error: io::Error) -> AppError {
    AppError::failed(format!("the store of the ranks does not answer: {error}"))
}

/// A connection to a store that has proved to be one.
fn greet(launch: &Launch) -> io::Result<TcpStream> {
    let mut stream = connect(&launch.address, launch.port)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    let number = std::process::id().to_le_bytes();
    stream.write_all(&[&[VALIDATE], &MAGIC.to_le_bytes()[..], &[PING], &number].concat())?;
    if take(&mut stream)? != number {
        return Err(ErrorKind::InvalidData.into());
    }
    stream.set_read_timeout(Some(launch.timeout))?;
    Ok(stream)
}

/// A connection to the first address of a host that takes one.
pub(super) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ATTEMPT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(ATTEMPT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Listens where the ranks of a launch look for rank 0: on this machine alone where all of them are on it. Port 0 is any.
pub(super) fn listen(address: &str, is_local: bool, port: u16) -> io::Result<TcpListener> {
    if is_local {
        return TcpListener::bind(("127.0.0.1", port));
    }
    let mut addresses = (address, port).to_socket_addrs()?;
    // Some systems give a host’s own name an address that only it can reach.
    let first = addresses.next().filter(|it| !it.ip().is_loopback());
    let all = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port);
    TcpListener::bind(first.unwrap_or(all))
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

/// So many bytes of a stream.
pub(super) fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Bytes after their length. What is longer than allowed is not waited for, and no memory is taken before it came.
fn take_sized(stream: &mut impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let length = u64::from_le_bytes(take(stream)?);
    if length > max_bytes {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is longer than allowed",
        ));
    }
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// A time limit in words.
pub(super) fn words(time: Duration) -> String {
    match time.as_secs() {
        minutes if minutes >= 120 => format!("{} min", minutes / 60),
        seconds => format!("{seconds} s"),
    }
}

/// All that a rank says on one connection, as [`said`] writes it, in its answers to itself.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Arc, atomic::AtomicBool};

    use super::{
        server::{Shared, greeted},
        *,
    };

    /// What the other end says. What it would hear is thrown away.
    struct Heard<'a>(&'a [u8]);

    impl Read for Heard<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Heard<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A rank that sets a value, and asks for it in each way.
    pub(crate) fn said() -> Vec<u8> {
        let one = 1u64.to_le_bytes();
        let (key, value) = (sized(b"a key"), sized(b"a value"));
        let parts: [&[u8]; 14] = [
            &[VALIDATE],
            &MAGIC.to_le_bytes(),
            &[PING],
            b"1234",
            &[SET],
            &key,
            &value,
            &[GET],
            &key,
            &[CHECK],
            &one,
            &key,
            &[WAIT],
            &[&one[..], &key].concat(),
        ];
        parts.concat()
    }

    /// Answers everything that somebody says. Waits for nothing. The end of the connection is no error.
    pub(crate) fn answer_all(said: &[u8]) -> io::Result<()> {
        let shared = Shared::new(2, Arc::new(AtomicBool::new(true)));
        let mut heard = Heard(said);
        greeted(&mut heard)?;
        while !heard.0.is_empty() {
            shared.answer_word(&mut heard)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        server::{CONNECTIONS_PER_RANK, KEYS_PER_RANK},
        *,
    };
    use crate::ranks::tests::launch;

    #[test]
    fn what_each_rank_says_every_rank_gets_in_their_order() {
        let server = Server::start_here(3).unwrap();
        let say = |rank: usize, lost: Option<&'static str>| {
            let launch = launch(rank, 3, server.port());
            thread::spawn(move || {
                let mut store = Store::connect(&launch)?;
                let own = [rank as u8; 2];
                store.exchange(("card", &own), 3, &|| lost.map(str::to_owned))
            })
        };
        let all = [0, 1, 2].map(|rank| say(rank, None));
        for said in all {
            assert_eq!(said.join().unwrap().unwrap(), [[0, 0], [1, 1], [2, 2]]);
        }
        let server = Server::start_here(3).unwrap();
        let alone = launch(0, 3, server.port());
        let mut store = Store::connect(&alone).unwrap();
        let gone = || Some("rank 2 is gone".to_owned());
        let error = store.exchange(("card", b"x"), 3, &gone).unwrap_err();
        assert_eq!(error.message, "rank 2 is gone");
        let error = store.exchange(("card", b"x"), 3, &|| None).unwrap_err();
        assert_eq!(error.message, "rank 1 did not say its `card` within 1 s");
    }

    #[test]
    fn what_rank_0_shares_every_rank_gets() {
        let server = Server::start_here(2).unwrap();
        let waits = thread::spawn({
            let launch = launch(1, 2, server.port());
            move || Store::connect(&launch)?.share("plan", || unreachable!())
        });
        let mut first = Store::connect(&launch(0, 2, server.port())).unwrap();
        let made = first.share("plan", || Ok(vec![7; 300_000])).unwrap();
        assert_eq!(made, vec![7; 300_000]);
        assert_eq!(waits.join().unwrap().unwrap(), made);
    }

    #[test]
    fn what_ranks_leave_those_that_are_started_again_find() {
        let server = Server::start_here(2).unwrap();
        let mut store = Store::connect(&launch(0, 2, server.port())).unwrap();
        assert_eq!(store.left("folder").unwrap(), None);
        store.leave("folder", b"a").unwrap();
        let mut again = launch(0, 2, server.port());
        again.prefix = "/anneal/run/1/secret/".to_owned();
        let mut store = Store::connect(&again).unwrap();
        assert_eq!(store.left("folder").unwrap(), Some(b"a".to_vec()));
    }

    #[test]
    fn a_rank_that_gets_nothing_says_so_in_time() {
        let server = Server::start_here(2).unwrap();
        let launch = launch(1, 2, server.port());
        let shared = Store::connect(&launch)
            .unwrap()
            .share("plan", || unreachable!());
        let message = "rank 0 did not say its `plan` within 1 s";
        assert_eq!(shared.unwrap_err().message, message);
    }

    #[test]
    fn a_rank_without_rank_0_says_so_in_time() {
        let port = TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let error = Store::connect(&launch(1, 2, port)).err().unwrap();
        let begin = format!("rank 0 did not answer on 127.0.0.1:{port} within 1 s: ");
        assert!(error.message.starts_with(&begin), "{}", error.message);
    }

    #[test]
    fn what_is_no_store_is_not_waited_for() {
        let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let web = thread::spawn(move || {
            let (mut stream, _) = other.accept().unwrap();
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
        });
        let error = Store::connect(&launch(1, 2, port)).err().unwrap();
        web.join().unwrap();
        let message = format!("what answers on 127.0.0.1:{port} is not rank 0");
        assert_eq!(error.message, message);
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Server::start(&launch(0, 2, port)).err().unwrap();
        let begin = format!("rank 0 can’t listen on 127.0.0.1:{port}: ");
        assert!(error.message.starts_with(&begin), "{}", error.message);
    }

    #[test]
    fn strangers_are_not_answered_and_take_no_memory() {
        let server = Server::start_here(2).unwrap();
        let hello = [&[VALIDATE], &MAGIC.to_le_bytes()[..]].concat();
        let huge = (1u64 << 63).to_le_bytes();
        let noises: [Vec<u8>; 7] = [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 4096],
            [&hello[..], &[SET], &huge].concat(),
            [&hello[..], &[GET], &huge].concat(),
            [&hello[..], &[WAIT], &huge].concat(),
            // A listing of the keys, which PyTorch’s store gives to anybody.
            [&hello[..], &[17]].concat(),
            [
                &hello[..],
                &[SET],
                &sized(b"key"),
                &(MAX_VALUE_BYTES + 1).to_le_bytes(),
            ]
            .concat(),
        ];
        for noise in noises {
            let mut stream = connect("127.0.0.1", server.port()).unwrap();
            // The other end may be closed before all of it is written.
            let _ = stream.write_all(&noise);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, Vec::<u8>::new(), "{noise:?}");
        }
        let mut first = Store::connect(&launch(0, 2, server.port())).unwrap();
        assert_eq!(first.share("still", || Ok(vec![1])).unwrap(), [1]);
    }

    #[test]
    fn more_connections_than_ranks_need_are_closed() {
        let server = Server::start_here(1).unwrap();
        let idle = |_| connect("127.0.0.1", server.port()).unwrap();
        let idle: Vec<TcpStream> = (0..CONNECTIONS_PER_RANK).map(idle).collect();
        let mut one_more = connect("127.0.0.1", server.port()).unwrap();
        assert_eq!(one_more.read(&mut [0]).unwrap_or(0), 0);
        drop(idle);
        assert!(Store::connect(&launch(0, 1, server.port())).is_ok());
    }

    #[test]
    fn a_store_takes_so_many_keys() {
        let server = Server::start_here(1).unwrap();
        let mut store = Store::connect(&launch(0, 1, server.port())).unwrap();
        for key in 0..KEYS_PER_RANK {
            store.set(&key.to_string(), b"").unwrap();
        }
        store.set("one more", b"").unwrap();
        // Nobody answers a word that sets, so the end is seen after it.
        assert!(store.wait("one more").is_err());
    }
}
