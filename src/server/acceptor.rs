//! The accept loop: assigns each connection to the worker with the fewest, and rejects those over the limit. It also drives the workers'
//! checks of their connections' deadlines.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{Open, Watch};
use super::descriptors::Division;
use super::worker::{Accepted, Handle};
use crate::ingress::{Client, Holder, Limited, Limits};

/// The response to a client over the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The same over TLS, before the handshake: a fatal alert, `internal_error` (RFC 8446, section 6).
const FULL_TLS: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// How long a rejected client may take to read the response.
const LINGER: Duration = Duration::from_secs(1);

/// The maximum number of unsent bytes in a socket. It accepts more once it has sent half of them, so a client is seen to receive each 64 KiB.
const UNSENT_BYTES: u32 = 128 << 10;

/// The pause after running out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It accepts and serves them.
    Serve,
    /// It still does, and has their clients go elsewhere.
    Drain,
    /// It accepts none.
    Stop,
}

/// Accepts on a thread of its own until the phase is [`Phase::Stop`].
pub(super) fn start(
    listener: TcpListener,
    workers: Vec<Handle>,
    limits: Arc<Limits>,
    division: &Division,
    is_tls: bool,
    tick: Duration,
    mut phase: watch::Receiver<Phase>,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    limits.set(Limited::Connections, division.connections);
    let most_turned_away = division.turned_away;
    let full = if is_tls { FULL_TLS } else { FULL };
    let guard = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    drop(guard);
    std::thread::Builder::new().name("strata-acceptor".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = accept(listener, &workers, full, &limits, most_turned_away) => {}
                () = tick_workers(tick, &workers) => {}
                () = drain_and_stop(&mut phase, &workers) => {}
            }
        });
    })
}

/// Periodically makes the workers check their connections.
async fn tick_workers(tick: Duration, workers: &[Handle]) {
    loop {
        tokio::time::sleep(tick).await;
        workers.iter().filter(|worker| worker.connections() > 0).for_each(Handle::look_after);
    }
}

/// Has the workers drain their connections when it is time to; returns when it is time to stop.
async fn drain_and_stop(phase: &mut watch::Receiver<Phase>, workers: &[Handle]) {
    // Fails only if the server is gone, which is time to stop.
    let _ = phase.wait_for(|phase| *phase >= Phase::Drain).await;
    workers.iter().for_each(Handle::drain);
    let _ = phase.wait_for(|phase| *phase >= Phase::Stop).await;
}

async fn accept(
    listener: tokio::net::TcpListener,
    workers: &[Handle],
    full: &[u8],
    limits: &Arc<Limits>,
    most_turned_away: usize,
) {
    let mut turned_away = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let watch = Arc::new(Watch::default());
                let holder: Arc<dyn Holder> = Arc::new(Open::new(&watch));
                let holdings = limits.of(Client::at(peer.ip()));
                let Some(held) = holdings.take(Limited::Connections, 1, Some(&holder)) else {
                    // The send buffer is empty: either it fits, or the client has disconnected.
                    let _ = stream.try_write(full);
                    while turned_away.try_join_next().is_some() {}
                    if turned_away.len() < most_turned_away {
                        turned_away.spawn(tokio::time::timeout(LINGER, discard(stream)));
                    }
                    continue;
                };
                // Small responses must not wait for the acknowledgement of earlier ones (Nagle's algorithm).
                let _ = stream.set_nodelay(true);
                // Otherwise a send buffer grows to megabytes, and a slow client seems to receive nothing until a third of it is free.
                let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
                if let Ok(stream) = stream.into_std() {
                    hand_over(workers, Accepted { stream, peer: peer.ip(), watch, held });
                }
            }
            Err(error) if is_client_disconnect(&error) => {}
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Reads and discards what a rejected client has sent. Closing a socket with unread bytes resets the connection, and the client might never
/// see the response (RFC 9112, section 9.6).
async fn discard(stream: TcpStream) {
    let _ = socket2::SockRef::from(&stream).shutdown(Shutdown::Write);
    let mut bytes = [0; 4096];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

fn hand_over(workers: &[Handle], accepted: Accepted) {
    if let Some(worker) = workers.iter().min_by_key(|worker| worker.connections()) {
        worker.send(accepted);
    }
}

/// Returns whether the error concerns only a client that disconnected before it was accepted.
fn is_client_disconnect(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
