//! Sums over ranks without a card, through rank 0: for tests of several processes, in test builds only.
//!
//! Every rank sends its numbers to rank 0, which adds them in the order of the ranks and sends the sums back. It is slow, and says
//! the same bits to all.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use models::{
    Error,
    train::{
        group::{Group, OnHost, Reduction},
        nccl::Lost,
        share::Share,
    },
};

use super::{
    launch::Launch,
    store::{Store, connect, listen, take},
};
use crate::wire::error::{AppError, Result};

/// The variable that has ranks without cards be allowed.
const ALLOWED: &str = "ANNEAL_RANKS_ON_CPU";
/// How often whoever waits looks whether a rank is gone.
const LOOK: Duration = Duration::from_millis(50);
/// How long the others may take to connect.
const JOIN: Duration = Duration::from_secs(20);

/// Whether several processes may train a run on the processor.
pub(crate) fn is_allowed() -> bool {
    std::env::var_os(ALLOWED).is_some()
}

struct Plain {
    share: Share,
    /// The other ranks in rank 0, by their numbers; rank 0 in the others.
    others: Vec<TcpStream>,
    lost: Lost,
}

/// The group of all ranks of a launch.
pub(super) fn join(launch: &Launch, store: &mut Store, lost: Lost) -> Result<Box<dyn Group>> {
    let failed = |error: io::Error| AppError::failed(format!("the ranks can’t sum: {error}"));
    let share = Share {
        rank: launch.rank,
        world: launch.world,
    };
    let mut others = Vec::new();
    if launch.rank == 0 {
        let listener = listen(&launch.address, launch.is_local, 0).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        store.share("plain", || Ok(port.to_le_bytes().to_vec()))?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (begun, mut come) = (Instant::now(), Vec::new());
        while come.len() + 1 < launch.world {
            match listener.accept() {
                Ok((mut stream, _)) => {
                    stream.set_nonblocking(false).map_err(failed)?;
                    let rank = u32::from_le_bytes(take(&mut stream).map_err(failed)?);
                    come.push((rank, stream));
                }
                Err(_) if begun.elapsed() > JOIN => {
                    return Err(AppError::failed("not all ranks came to sum"));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
        come.sort_by_key(|it| it.0);
        others.extend(come.into_iter().map(|it| it.1));
    } else {
        let told = store.share("plain", || Ok(Vec::new()))?;
        let port: [u8; 2] = told
            .try_into()
            .map_err(|_| AppError::failed("rank 0 did not say where it sums"))?;
        let mut stream = connect(&launch.address, u16::from_le_bytes(port)).map_err(failed)?;
        stream
            .write_all(&(launch.rank as u32).to_le_bytes())
            .map_err(failed)?;
        others.push(stream);
    }
    for other in &others {
        other.set_read_timeout(Some(LOOK)).map_err(failed)?;
    }
    let mut plain = Plain {
        share,
        others,
        lost,
    };
    Ok(Box::new(OnHost {
        share,
        reduce: Box::new(move |what, own| plain.reduce(what, own)),
    }))
}

impl Plain {
    fn reduce(&mut self, what: Reduction, own: Vec<f64>) -> models::Result<Vec<f64>> {
        let (lost, rank) = (&self.lost, self.share.rank);
        let mut all = own;
        if rank > 0 {
            write(&mut self.others[0], &all, lost)?;
            return read(&mut self.others[0], all.len(), lost);
        }
        for other in &mut self.others {
            let more = read(other, all.len(), lost)?;
            for (sum, number) in all.iter_mut().zip(more) {
                *sum = match what {
                    Reduction::Sum => *sum + number,
                    Reduction::Max => sum.max(number),
                };
            }
        }
        for other in &mut self.others {
            write(other, &all, lost)?;
        }
        Ok(all)
    }
}

/// So many numbers of a rank, unless one is lost meanwhile.
fn read(stream: &mut TcpStream, count: usize, lost: &Lost) -> models::Result<Vec<f64>> {
    let mut bytes = vec![0; count * 8];
    let mut done = 0;
    while done < bytes.len() {
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Err(gone(lost, &ErrorKind::UnexpectedEof.into())),
            Ok(more) => done += more,
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                if let Some(lost) = lost() {
                    return Err(Error::Peer(lost));
                }
            }
            Err(error) => return Err(gone(lost, &error)),
        }
    }
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok(numbers.iter().map(|it| f64::from_le_bytes(*it)).collect())
}

fn write(stream: &mut TcpStream, numbers: &[f64], lost: &Lost) -> models::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    stream.write_all(&bytes).map_err(|error| gone(lost, &error))
}

/// Who is gone, which the watch knows a moment later than whoever is connected.
fn gone(lost: &Lost, error: &io::Error) -> Error {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        if let Some(lost) = lost() {
            return Error::Peer(lost);
        }
        std::thread::sleep(LOOK);
    }
    Error::Peer(format!("a rank is gone: {error}"))
}
