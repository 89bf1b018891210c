//! The other end of a connection: who asks, and where the responses go.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::client::Client;
use super::limits::{Held, Holder, Holdings, Limited, Limits};

/// The other end of a connection. Clones share everything.
#[derive(Clone)]
pub struct Peer(Arc<End>);

struct End {
    /// The address of the connection, which may be that of a proxy.
    address: IpAddr,
    /// What the client holds.
    holdings: Arc<Holdings>,
    connection: Option<Arc<dyn Holder>>,
}

impl Peer {
    /// Creates the peer at an address; `connection` is given up if its client holds too many bytes of responses that it does not take.
    pub fn new(limits: &Arc<Limits>, address: IpAddr, connection: Option<Arc<dyn Holder>>) -> Self {
        Self(Arc::new(End { address, holdings: limits.of(Client::at(address)), connection }))
    }

    /// Creates the peer that passes on the requests of a client.
    pub(super) fn of_client(limits: &Arc<Limits>, client: Client, address: IpAddr) -> Self {
        Self(Arc::new(End { address, holdings: limits.of(client), connection: None }))
    }

    /// Returns the peer for what the server does for itself and for its operator.
    pub(super) fn server(limits: &Arc<Limits>) -> Self {
        Self::new(limits, Ipv4Addr::UNSPECIFIED.into(), None)
    }

    pub(super) fn address(&self) -> IpAddr {
        self.0.address
    }

    pub(super) fn holdings(&self) -> &Arc<Holdings> {
        &self.0.holdings
    }

    /// Takes a part of a limit for it.
    pub fn take(&self, limited: Limited, amount: usize, holder: &Arc<dyn Holder>) -> Option<Held> {
        self.0.holdings.take(limited, amount, Some(holder))
    }

    /// Counts bytes of a response until they are dropped; `None` if there is no room for them.
    pub(super) fn count(&self, bytes: Bytes) -> Option<Bytes> {
        let held = self.0.holdings.take(Limited::ResponseBytes, bytes.len(), self.0.connection.as_ref());
        held.map(|held| held.with(bytes))
    }

    /// Takes room for bytes of a response, if there is any. Who is refused tries it again.
    pub(super) fn room(&self, bytes: usize) -> Option<Held> {
        self.0.holdings.try_take(Limited::ResponseBytes, bytes, self.0.connection.as_ref())
    }

    /// Counts bytes of a response once there is room; `None` after the deadline, or if nobody waits for them any more.
    pub(super) fn count_when_room(
        &self,
        bytes: Bytes,
        deadline: Instant,
        is_abandoned: impl Fn() -> bool,
    ) -> Option<Bytes> {
        let End { holdings, connection, .. } = &*self.0;
        let (limited, connection) = (Limited::ResponseBytes, connection.as_ref());
        let held = holdings.take_when_room(limited, bytes.len(), connection, deadline, is_abandoned);
        held.map(|held| held.with(bytes))
    }
}
