//! A proxy before PostgreSQL that loses commits: their requests, or their answers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The message that ends a transaction: a simple query (protocol 3.0, "Query").
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// Every so many commits one is lost, in turns before and after PostgreSQL has done it.
const LOST_EVERY: usize = 7;

/// Listens until the process ends.
pub struct Proxy {
    pub address: SocketAddr,
    lost: Arc<AtomicUsize>,
}

impl Proxy {
    pub fn before(database: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let (address, lost) = (listener.local_addr().expect("it listens"), Arc::<AtomicUsize>::default());
        let (counted, commits) = (Arc::clone(&lost), Arc::<AtomicUsize>::default());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(database) else { continue };
                pass(client, server, Arc::clone(&commits), Arc::clone(&counted));
            }
        });
        Self { address, lost }
    }

    /// How many commits were lost.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Passes bytes in both directions until a commit is lost.
fn pass(client: TcpStream, server: TcpStream, commits: Arc<AtomicUsize>, lost: Arc<AtomicUsize>) {
    let loses_answer = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) =
        (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let loses = Arc::clone(&loses_answer);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut buffer) {
            let bytes = &buffer[..count];
            if bytes.windows(COMMIT.len()).any(|window| window == COMMIT) {
                let number = commits.fetch_add(1, Ordering::Relaxed);
                if number % LOST_EVERY == LOST_EVERY - 1 {
                    lost.fetch_add(1, Ordering::Relaxed);
                    if (number / LOST_EVERY).is_multiple_of(2) {
                        break;
                    }
                    loses.store(true, Ordering::Relaxed);
                }
            }
            if to_server.write_all(bytes).is_err() {
                break;
            }
        }
        close(&from_client, &to_server);
    });
    let (mut from_server, mut to_client) = (server, client);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut buffer) {
            if loses_answer.load(Ordering::Relaxed) || to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        close(&to_client, &from_server);
    });
}

fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
