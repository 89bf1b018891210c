//! The other end of a connection, and who asks over it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::client::Client;
use super::limits::{Held, Holder, Holdings, Limited, Limits};

/// The other end of a connection.
#[derive(Clone)]
pub struct Peer {
    pub(super) address: IpAddr,
    pub(super) asker: Asker,
}

impl Peer {
    /// Creates the peer at an address; `connection` is given up if its client holds too many bytes of answers that it does not take.
    pub fn new(limits: &Arc<Limits>, address: IpAddr, connection: Option<Arc<dyn Holder>>) -> Self {
        Self { address, asker: Asker { holdings: limits.of(Client::at(address)), connection } }
    }

    /// Creates the peer that passes on the requests of a client.
    pub(super) fn of_client(limits: &Arc<Limits>, client: Client, address: IpAddr) -> Self {
        Self { address, asker: Asker { holdings: limits.of(client), connection: None } }
    }

    /// Takes a part of a limit for it.
    pub fn take(&self, limited: Limited, amount: usize, holder: &Arc<dyn Holder>) -> Option<Held> {
        self.asker.holdings.take(limited, amount, Some(holder))
    }
}

/// Who asks: the client with what it holds, and the connection on which it is answered.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) holdings: Arc<Holdings>,
    connection: Option<Arc<dyn Holder>>,
}

impl Asker {
    /// Returns the asker of what the server does for itself and for its operator.
    pub(super) fn server(limits: &Arc<Limits>) -> Self {
        Self { holdings: limits.of(Client::at(Ipv4Addr::UNSPECIFIED.into())), connection: None }
    }

    /// Counts bytes of an answer until they are dropped; `None` if there is no room for them.
    pub(super) fn count(&self, bytes: Bytes) -> Option<Bytes> {
        let held = self.holdings.take(Limited::AnswerBytes, bytes.len(), self.connection.as_ref());
        held.map(|held| held.with(bytes))
    }

    /// Takes room for bytes of an answer, if there is any. Who is refused tries it again.
    pub(super) fn room(&self, bytes: usize) -> Option<Held> {
        self.holdings.try_take(Limited::AnswerBytes, bytes, self.connection.as_ref())
    }

    /// Counts bytes of an answer once there is room; `None` after the deadline, or if nobody waits for them any more.
    pub(super) fn count_when_room(
        &self,
        bytes: Bytes,
        deadline: Instant,
        is_abandoned: impl Fn() -> bool,
    ) -> Option<Bytes> {
        let connection = self.connection.as_ref();
        let held = self.holdings.take_when_room(Limited::AnswerBytes, bytes.len(), connection, deadline, is_abandoned);
        held.map(|held| held.with(bytes))
    }
}
