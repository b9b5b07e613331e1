//! The store of a launch whose launcher brings none: values by their keys, for as long as the ranks meet.
//!
//! Deliberately absent: words that list or delete keys.

use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    AGAIN, CHECK, GET, Launch, MAGIC, MAX_KEY_BYTES, MAX_VALUE_BYTES, PING, SET, VALIDATE, WAIT,
    listen, sized, take, take_sized,
};
use crate::{
    lock::locked,
    wire::error::{AppError, Result},
};

/// Keys that a rank may need.
pub(super) const KEYS_PER_RANK: usize = 16;
/// Connections at a time. A rank has two: its program and its engine.
pub(super) const CONNECTIONS_PER_RANK: usize = 4;
/// How long a connection may take to say the number by which it is known.
const HELLO: Duration = Duration::from_secs(30);

/// A store that is served until this is dropped.
pub(crate) struct Server {
    port: u16,
    ends: Arc<AtomicBool>,
}

impl Server {
    /// Serves the store of a launch where its ranks look for it.
    pub(crate) fn start(launch: &Launch) -> Result<Self> {
        Self::listen(&launch.address, launch.is_local, launch.port, launch.world)
    }

    /// Serves a store to so many ranks on this machine, on a port that is free.
    pub(crate) fn start_here(world: usize) -> Result<Self> {
        Self::listen("127.0.0.1", true, 0, world)
    }

    fn listen(address: &str, is_local: bool, port: u16, world: usize) -> Result<Self> {
        let failed = |error: io::Error| {
            let message = format!("rank 0 can’t listen on {address}:{port}: {error}");
            AppError::failed(message).with_hint("set MASTER_PORT to a port that is free")
        };
        let listener = listen(address, is_local, port).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        listener.set_nonblocking(true).map_err(failed)?;
        let ends = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared::new(world, ends.clone()));
        thread::spawn(move || shared.accept(&listener));
        Ok(Self { port, ends })
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
    }
}

/// What the connections of a store share.
pub(super) struct Shared {
    values: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    changed: Condvar,
    connections: AtomicUsize,
    world: usize,
    ends: Arc<AtomicBool>,
}

impl Shared {
    /// A store of so many ranks that is empty, until it `ends`.
    pub(super) fn new(world: usize, ends: Arc<AtomicBool>) -> Self {
        Self {
            values: Mutex::default(),
            changed: Condvar::new(),
            connections: AtomicUsize::new(0),
            world,
            ends,
        }
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while !self.ends.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(AGAIN);
                continue;
            };
            // One too many is closed.
            let most = self.world * CONNECTIONS_PER_RANK;
            if self.connections.fetch_add(1, Ordering::SeqCst) >= most {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let shared = self.clone();
            thread::spawn(move || {
                // Whoever says what is no word of the store is not answered.
                let _ = shared.answer(stream);
                shared.connections.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HELLO))?;
        stream.set_write_timeout(Some(HELLO))?;
        greeted(&mut stream)?;
        // What a rank does between two words may take long, such as reading a model.
        stream.set_read_timeout(None)?;
        loop {
            self.answer_word(&mut stream)?;
        }
    }

    pub(super) fn answer_word(&self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        match take(stream)? {
            [PING] => {
                let number: [u8; 4] = take(stream)?;
                stream.write_all(&number)
            }
            [SET] => {
                let key = take_sized(stream, MAX_KEY_BYTES)?;
                let value = take_sized(stream, MAX_VALUE_BYTES)?;
                self.set(key, value)
            }
            [GET] => {
                let key = take_sized(stream, MAX_KEY_BYTES)?;
                let value = locked(&self.values).get(&key).cloned();
                stream.write_all(&sized(&value.unwrap_or_default()))
            }
            [word @ (CHECK | WAIT)] => {
                // Ours ask for one key at a time.
                if take(stream)? != 1u64.to_le_bytes() {
                    return Err(ErrorKind::InvalidData.into());
                }
                let key = take_sized(stream, MAX_KEY_BYTES)?;
                let is_there = locked(&self.values).contains_key(&key);
                if word == WAIT {
                    self.wait(&key)?;
                }
                stream.write_all(&[u8::from(word == CHECK && !is_there)])
            }
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn set(&self, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        let mut values = locked(&self.values);
        if values.len() >= self.world * KEYS_PER_RANK && !values.contains_key(&key) {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        values.insert(key, value);
        drop(values);
        self.changed.notify_all();
        Ok(())
    }

    fn wait(&self, key: &[u8]) -> io::Result<()> {
        let mut values = locked(&self.values);
        while !values.contains_key(key) {
            if self.ends.load(Ordering::SeqCst) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            let waited = self.changed.wait_timeout(values, HELLO);
            values = waited.map_or_else(|poisoned| poisoned.into_inner().0, |it| it.0);
        }
        Ok(())
    }
}

/// Whether a connection begins as one of this protocol.
pub(super) fn greeted(stream: &mut impl Read) -> io::Result<()> {
    match take(stream)? == [VALIDATE] && take(stream)? == MAGIC.to_le_bytes() {
        true => Ok(()),
        false => Err(ErrorKind::InvalidData.into()),
    }
}
