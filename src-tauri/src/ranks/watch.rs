//! Whether the other ranks are still alive: each has a connection to rank 0, on which both ends report every second.
//!
//! NCCL does not notice: on GPUs of one host, a sum with a missing rank waits forever without an error. A closed connection
//! means that the rank is gone. One that stays silent for eight checks means that it hangs; checks are counted rather than
//! timed, since a machine that was suspended did not hang. Rank 0 tells the others when a rank is lost, as they only see rank
//! 0.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    launch::Launch,
    store::{Store, connect, listen, take, words},
};
use crate::{
    lock::locked,
    wire::error::{AppError, Result},
};

/// How often each end says that it lives, and looks whether the other did.
const BEAT: Duration = Duration::from_secs(1);
/// So many looks without a word, and a rank hangs.
const QUIET_LOOKS: usize = 8;
/// How long a connection may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How often rank 0 looks for a connection.
const AGAIN: Duration = Duration::from_millis(10);
/// Connections that may come, for each rank.
const CONNECTIONS_PER_RANK: usize = 4;

const ALIVE: u8 = b'.';
/// The end of this connection is meant.
const LEAVES: u8 = b'D';
/// Another rank is lost; a byte of length and a sentence follow.
const LOST: u8 = b'L';

/// Watches the other ranks until it is dropped, which tells them that this one leaves on purpose.
pub(crate) struct Watch {
    seen: Arc<SharedWatch>,
}

/// What all threads of a watch share.
struct SharedWatch {
    /// The first loss.
    lost: Mutex<Option<Loss>>,
    /// The ends of the connections that this rank writes to.
    outs: Mutex<Vec<TcpStream>>,
    leaves: AtomicBool,
}

/// Why the ranks can’t go on.
#[derive(Debug, Clone)]
struct Loss {
    sentence: String,
    /// Whether a rank is gone, as this one noticed by itself. Or another said what failed.
    is_gone: bool,
}

/// A rank that has said who it is.
struct Arrived {
    rank: usize,
    host: String,
    stream: TcpStream,
}

impl Watch {
    /// Connects all ranks of a launch to rank 0, which waits for them as long as the launch says.
    pub(crate) fn begin(launch: &Launch, store: &mut Store) -> Result<Self> {
        let failed = |error: io::Error| {
            AppError::failed(format!("the ranks can’t watch each other: {error}"))
        };
        let watch = Self {
            seen: Arc::new(SharedWatch {
                lost: Mutex::default(),
                outs: Mutex::default(),
                leaves: AtomicBool::new(false),
            }),
        };
        if launch.rank == 0 {
            let listener = listen(&launch.address, launch.is_local, 0).map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            let secret = super::secret()?;
            store.share("watch", || Ok([&port.to_le_bytes()[..], &secret].concat()))?;
            for arrived in arrivals(launch, listener, secret)? {
                watch.follow(arrived).map_err(failed)?;
            }
            return Ok(watch);
        }
        let told = store.share("watch", || Ok(Vec::new()))?;
        let [low, high, secret @ ..] = &told[..] else {
            return Err(AppError::failed("rank 0 did not say where it watches"));
        };
        let port = u16::from_le_bytes([*low, *high]);
        let mut stream = connect(&launch.address, port).map_err(failed)?;
        let host = sysinfo::System::host_name().unwrap_or_default();
        let host = &host.as_bytes()[..host.len().min(usize::from(u8::MAX))];
        let rank = (launch.rank as u32).to_le_bytes();
        let hello = [secret, &rank[..], &[host.len() as u8], host].concat();
        stream.write_all(&hello).map_err(failed)?;
        let arrived = Arrived {
            rank: 0,
            host: launch.address.clone(),
            stream,
        };
        watch.follow(arrived).map_err(failed)?;
        Ok(watch)
    }

    /// Which rank is lost, in words, if one is: `rank 1 on gpu08 is gone`.
    pub(crate) fn lost(&self) -> Option<String> {
        locked(&self.seen.lost).clone().map(|it| it.sentence)
    }

    /// Whether another rank is gone, which did not say that it failed. A sum without it may fail a moment before its connection ends.
    pub(crate) fn is_one_gone(&self) -> bool {
        let started = Instant::now();
        loop {
            match locked(&self.seen.lost).as_ref() {
                Some(loss) => return loss.is_gone,
                None if started.elapsed() > BEAT => return false,
                None => {}
            }
            thread::sleep(AGAIN);
        }
    }

    /// Tells all others that this rank ends by a failure: they need not find out that it is gone.
    pub(crate) fn fail(&self, sentence: String) {
        self.seen.report(Loss {
            sentence,
            is_gone: false,
        });
    }

    /// Says on a connection that this rank lives, and hears whether the other does.
    fn follow(&self, arrived: Arrived) -> io::Result<()> {
        let Arrived { rank, host, stream } = arrived;
        let mut hears = stream.try_clone()?;
        hears.set_read_timeout(Some(BEAT))?;
        stream.set_write_timeout(Some(HELLO))?;
        let mut says = stream.try_clone()?;
        locked(&self.seen.outs).push(stream);
        let seen = self.seen.clone();
        thread::spawn(move || {
            while !seen.leaves.load(Ordering::SeqCst) && says.write_all(&[ALIVE]).is_ok() {
                thread::sleep(BEAT);
            }
        });
        let seen = self.seen.clone();
        thread::spawn(move || {
            if let Some(loss) = hear(&mut hears, &format!("rank {rank} on {host}")) {
                seen.report(loss);
            }
        });
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.leaves.store(true, Ordering::SeqCst);
        for out in locked(&self.seen.outs).iter_mut() {
            // Who is gone need not be told.
            let _ = out.write_all(&[LEAVES]);
        }
    }
}

impl SharedWatch {
    /// Remembers a loss, unless another was first, and passes it on.
    fn report(&self, loss: Loss) {
        let mut lost = locked(&self.lost);
        if lost.is_some() || self.leaves.load(Ordering::SeqCst) {
            return;
        }
        let all = &loss.sentence;
        let sentence = &all.as_bytes()[..all.floor_char_boundary(usize::from(u8::MAX))];
        let told = [&[LOST, sentence.len() as u8], sentence].concat();
        for out in locked(&self.outs).iter_mut() {
            let _ = out.write_all(&told);
        }
        *lost = Some(loss);
    }
}

/// Hears until the other end is lost, which is said, or left on purpose long enough ago that nobody can need it any more.
fn hear(stream: &mut TcpStream, who: &str) -> Option<Loss> {
    let gone = |sentence| {
        Some(Loss {
            sentence,
            is_gone: true,
        })
    };
    let mut quiet_looks = 0;
    loop {
        match take(stream) {
            Ok([LEAVES]) => {
                // All ranks leave together. One that is still there then waits for what can’t come.
                thread::sleep(BEAT * QUIET_LOOKS as u32);
                return gone(format!("{who} has left before this one"));
            }
            Ok([LOST]) => {
                return Some(Loss {
                    sentence: sentence(stream).unwrap_or(format!("{who} is gone")),
                    is_gone: false,
                });
            }
            Ok(_) => quiet_looks = 0,
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                quiet_looks += 1;
                if quiet_looks >= QUIET_LOOKS {
                    let seconds = (BEAT * QUIET_LOOKS as u32).as_secs();
                    return gone(format!("{who} has said nothing for {seconds} s"));
                }
            }
            Err(_) => return gone(format!("{who} is gone")),
        }
    }
}

/// What rank 0 says of a loss, as letters that can’t move a cursor.
fn sentence(stream: &mut TcpStream) -> Option<String> {
    short_text(stream).ok()
}

/// A text after a byte of its length.
fn short_text(stream: &mut impl Read) -> io::Result<String> {
    let [length] = take(stream)?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes)?;
    Ok(readable(&bytes))
}

fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|it| !it.is_control()).collect()
}

/// All other ranks, as they come. Whoever does not know the secret is none of them.
fn arrivals(launch: &Launch, listener: TcpListener, secret: [u8; 16]) -> Result<Vec<Arrived>> {
    let (sender, arriving) = mpsc::channel();
    let closed = Arc::new(AtomicBool::new(false));
    {
        let (closed, most) = (closed.clone(), launch.world * CONNECTIONS_PER_RANK);
        thread::spawn(move || accept(&listener, secret, most, &sender, &closed));
    }
    let started = Instant::now();
    let mut here: Vec<Option<Arrived>> = (0..launch.world).map(|_| None).collect();
    let count = |here: &[Option<Arrived>]| 1 + here.iter().flatten().count();
    while count(&here) < launch.world {
        let left = launch.timeout.saturating_sub(started.elapsed());
        match arriving.recv_timeout(left) {
            // The first of a number is it.
            Ok(arrived) => {
                if let Some(place @ None) = here.get_mut(arrived.rank).filter(|_| arrived.rank > 0)
                {
                    *place = Some(arrived);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                closed.store(true, Ordering::SeqCst);
                let missing = (1..launch.world).filter(|rank| here[*rank].is_none());
                return Err(nobody_came(
                    launch,
                    count(&here),
                    &missing.collect::<Vec<_>>(),
                ));
            }
        }
    }
    closed.store(true, Ordering::SeqCst);
    Ok(here.into_iter().flatten().collect())
}

fn nobody_came(launch: &Launch, here: usize, missing: &[usize]) -> AppError {
    let numbers: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let (who, whose) = match missing {
        [_] => ("rank", "is missing"),
        _ => ("ranks", "are missing"),
    };
    let (world, time) = (launch.world, words(launch.timeout));
    let numbers = numbers.join(", ");
    AppError::failed(format!(
        "{here} of {world} ranks came within {time}; {who} {numbers} {whose}"
    ))
    .with_hint("look at its log on its machine")
}

fn accept(
    listener: &TcpListener,
    secret: [u8; 16],
    most: usize,
    arrived: &Sender<Arrived>,
    closed: &AtomicBool,
) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let mut count = 0;
    while count < most && !closed.load(Ordering::SeqCst) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(AGAIN);
            continue;
        };
        count += 1;
        let arrived = arrived.clone();
        thread::spawn(move || {
            if let Ok(rank) = introduced(stream, secret) {
                // Nobody waits any more when all are there.
                let _ = arrived.send(rank);
            }
        });
    }
}

/// Who is at the other end.
fn introduced(mut stream: TcpStream, secret: [u8; 16]) -> io::Result<Arrived> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO))?;
    let (rank, host) = introduction(&mut stream, secret)?;
    Ok(Arrived { rank, host, stream })
}

/// The rank and the host of whoever knows the secret.
pub(crate) fn introduction(
    stream: &mut impl Read,
    secret: [u8; 16],
) -> io::Result<(usize, String)> {
    if take(stream)? != secret {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let rank = u32::from_le_bytes(take(stream)?) as usize;
    Ok((rank, short_text(stream)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::{store::Server, tests::launch};

    /// The watches of so many ranks, by their numbers.
    fn all(world: usize) -> Vec<Watch> {
        let server = Server::start_here(world).unwrap();
        let begin = |rank| {
            let launch = launch(rank, world, server.port());
            thread::spawn(move || {
                let mut store = Store::connect(&launch).unwrap();
                Watch::begin(&launch, &mut store).unwrap()
            })
        };
        let begun: Vec<_> = (0..world).map(begin).collect();
        begun.into_iter().map(|it| it.join().unwrap()).collect()
    }

    /// What a watch says is lost, once it does. It has as long as a rank that hangs takes, and more.
    fn loss(watch: &Watch) -> String {
        let started = Instant::now();
        loop {
            match watch.lost() {
                Some(loss) => return loss,
                None if started.elapsed() > BEAT * 15 => panic!("nobody is missed"),
                None => thread::yield_now(),
            }
        }
    }

    /// Ends a rank as the system does, which says no word.
    fn kill(watch: Watch) {
        for out in locked(&watch.seen.outs).drain(..) {
            out.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }

    #[test]
    fn a_rank_that_dies_is_missed_by_all_others() {
        let mut watches = all(3);
        kill(watches.remove(1));
        let host = sysinfo::System::host_name().unwrap_or_default();
        let message = format!("rank 1 on {host} is gone");
        for watch in &watches {
            assert_eq!(loss(watch), message);
        }
    }

    #[test]
    fn a_rank_that_says_why_it_ends_is_not_gone() {
        let watches = all(2);
        watches[1].fail("rank 1 failed: no room".to_owned());
        assert_eq!(loss(&watches[0]), "rank 1 failed: no room");
        assert!(!watches[0].is_one_gone());
        let mut watches = all(2);
        kill(watches.remove(1));
        assert!(watches[0].is_one_gone());
    }

    #[test]
    fn rank_0_is_missed_too() {
        let mut watches = all(2);
        kill(watches.remove(0));
        assert_eq!(loss(&watches[0]), "rank 0 on 127.0.0.1 is gone");
    }

    #[test]
    fn a_rank_that_hangs_is_missed_after_eight_looks() {
        let mut watches = all(2);
        // Its connection stays, and nothing is said on it any more.
        let hangs = watches.remove(1);
        hangs.seen.leaves.store(true, Ordering::SeqCst);
        let started = Instant::now();
        let loss = loss(&watches[0]);
        assert!(loss.ends_with("has said nothing for 8 s"), "{loss}");
        assert!(started.elapsed() >= BEAT * 7);
        std::mem::forget(hangs);
    }

    #[test]
    fn ranks_that_leave_on_purpose_are_not_missed() {
        let mut watches = all(3);
        drop(watches.pop());
        drop(watches.pop());
        // A beat comes after the word by which they left.
        let started = Instant::now();
        while started.elapsed() < BEAT * 2 {
            assert_eq!(watches[0].lost(), None);
            thread::yield_now();
        }
    }

    #[test]
    fn a_rank_that_never_comes_is_named() {
        let server = Server::start_here(4).unwrap();
        let launches: Vec<_> = [0, 1, 3].map(|rank| launch(rank, 4, server.port())).into();
        let begin = |launch: Launch| {
            thread::spawn(move || {
                let mut store = Store::connect(&launch)?;
                Watch::begin(&launch, &mut store)
            })
        };
        let mut begun: Vec<_> = launches.into_iter().map(begin).collect();
        let error = begun.remove(0).join().unwrap().err().unwrap();
        assert_eq!(
            error.message,
            "3 of 4 ranks came within 1 s; rank 2 is missing"
        );
    }

    #[test]
    fn a_stranger_at_the_door_is_no_rank() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let come = move |hello: Vec<u8>| {
            let mut stream = connect("127.0.0.1", port).unwrap();
            stream.write_all(&hello).unwrap();
            stream
        };
        let of =
            |secret: [u8; 16], rank: u32| [&secret[..], &rank.to_le_bytes(), &[1, b'h']].concat();
        let secret = [7; 16];
        let strangers: Vec<_> = [
            of([8; 16], 1),
            of(secret, 0),
            of(secret, 9),
            b"GET /".to_vec(),
        ]
        .into_iter()
        .map(come)
        .collect();
        let rank = come(of(secret, 1));
        let arrived = arrivals(&launch(0, 2, port), listener, secret).unwrap();
        let found: Vec<_> = arrived.iter().map(|it| (it.rank, &it.host[..])).collect();
        assert_eq!(found, [(1, "h")]);
        drop((strangers, rank));
    }
}
