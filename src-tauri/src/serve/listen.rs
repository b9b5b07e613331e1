//! The sockets, and what a connection may do.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Sleep, sleep, timeout},
};

use super::limits;
use crate::wire::error::{AppError, Result};

/// The port that is tried first where none is asked for.
pub(crate) const PORT: u16 = 1414;
/// How many ports after it are tried.
const MORE_PORTS: u16 = 20;
/// How long is waited after the system gave no connection: it is out of something.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Said to a client for whom there is no room.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Listens on this machine only: at the port that was asked for, or at the first that is free.
pub(super) fn bind(port: Option<u16>) -> Result<(u16, Vec<StdListener>)> {
    let ports = match port {
        Some(port) => port..=port,
        None => PORT..=PORT + MORE_PORTS,
    };
    let mut refused = None;
    for port in ports {
        match StdListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(listener) => return beside(listener).map_err(|error| not_bound(port, &error)),
            Err(error) => refused = Some(not_bound(port, &error)),
        }
    }
    Err(refused.unwrap_or_else(|| AppError::failed("there is no port to listen at")))
}

/// A listener, with one at the same port of the other loopback address where the system has it: `localhost` may mean either.
fn beside(listener: StdListener) -> io::Result<(u16, Vec<StdListener>)> {
    let port = listener.local_addr()?.port();
    let other = SocketAddr::from((IpAddr::V6(Ipv6Addr::LOCALHOST), port));
    let mut listeners = vec![listener];
    listeners.extend(StdListener::bind(other));
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    Ok((port, listeners))
}

fn not_bound(port: u16, error: &io::Error) -> AppError {
    let error = AppError::failed(format!("could not listen at 127.0.0.1:{port}: {error}"));
    error.with_hint("another program may listen there; choose another port with `--port`")
}

/// Takes connections until the runtime ends.
pub(super) async fn accept(listener: StdListener, router: Router, free: Arc<Semaphore>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // Small events are sent at once.
        let _ = stream.set_nodelay(true);
        match free.clone().try_acquire_owned() {
            Ok(place) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            Err(_) => {
                tokio::spawn(turn_away(stream));
            }
        }
    }
}

async fn turn_away(mut stream: TcpStream) {
    let _ = timeout(limits::HEAD_TIME, stream.write_all(FULL.as_bytes())).await;
}

async fn serve(stream: TcpStream, router: Router) {
    let patient = Patient {
        stream,
        stalled: None,
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIME)
        .max_header_size(limits::HEAD.most as usize)
        .serve_connection(TokioIo::new(patient), TowerToHyperService::new(router));
    // What ends a connection is the client's affair.
    let _ = connection.await;
}

/// A connection that ends when its client takes nothing for too long.
struct Patient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// What came of an attempt to write, or an error once it has been in vain for too long.
    fn wrote<T>(
        &mut self,
        context: &mut Context,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.stalled = None;
            return attempt;
        }
        let stalled = || Box::pin(sleep(limits::STALLED_TIME));
        let stalled = self.stalled.get_or_insert_with(stalled);
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
