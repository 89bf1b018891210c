//! Multicasts: found and committed in the pool for lists, then awaited without a thread until nobody is left who could take the message.
//!
//! For another client, the oldest one of whoever has most is given up: while its body arrives it is refused, and once it is stored it is
//! answered without waiting any longer.

use std::future;
use std::sync::Arc;

use http::request::Parts;
use tokio::sync::oneshot;

use super::limits::Limited;
use super::peer::Peer;
use super::pieces::Waiting;
use super::scheduler::Permit;
use super::waiting::WaitingClient;
use super::{Ingress, Source};
use crate::handlers::multicast::{Preferences, idempotency_key, repeated, stored, told};
use crate::handlers::{Failure, Response, Result};
use crate::multicast::{Asked, Outcome, Sending};
use crate::observability::Context;
use crate::routing::{Pool, Route};
use crate::schema::Durability;
use crate::transaction::Interrupt;

impl Ingress {
    /// Sends a message and answers its sender.
    pub(super) async fn multicast<B: Source>(
        &self,
        route: &Route<'_>,
        parts: &Parts,
        body: B,
        context: &mut Context,
        peer: &Peer,
    ) -> Result<Response> {
        if let Err(failure) = idempotency_key(&parts.headers) {
            return self.refuse(failure, parts, body);
        }
        let Some(place) = WaitingClient::within(peer, Limited::Multicasts) else {
            return self.refuse(Failure::Overloaded, parts, body);
        };
        let preferences = Preferences::of(&parts.headers);
        let (body, held) = tokio::select! {
            biased;
            read = self.read(route, parts, body, context, peer) => read?,
            () = place.given_up() => return Err(Failure::Overloaded),
        };
        let permit = Permit::take(&self.scheduler, peer, Pool::Scanning).ok_or(Failure::Overloaded)?;
        let (multicast, asking) = (self.multicast.clone(), parts.clone());
        // Whoever is not there any more when the targets are found sends nothing.
        let waiting = Waiting(Interrupt::default());
        let abandoned = waiting.0.clone();
        let sent = permit.in_pool(move |scheduler| {
            let (route, headers) = (scheduler.route(&asking)?, &asking.headers);
            let json = route.json_of(&body)?.into_owned();
            let (table, conditions) = route.multicast().expect("it is one");
            // The response waits for the sync.
            let database = scheduler.database().interrupted_by(&abandoned).deferring_syncs();
            let asked = Asked { table, conditions, body: &json, key: idempotency_key(headers)? };
            let outcome = multicast.send(&database, asked, scheduler.routes().max_rows())?;
            drop(held);
            Ok::<_, Failure>((outcome, table.durability))
        });
        let waited_ms = self.options.request_timeout_ms;
        let sent = tokio::time::timeout(self.scheduler.longest_wait, sent).await;
        let (outcome, durability) = sent.unwrap_or(Err(Failure::TimedOut { waited_ms }))??;
        drop(waiting);
        if durability == Durability::Strong {
            self.scheduler.synced().await?;
        }
        let response = match outcome {
            Outcome::Repeated { id, targets } => repeated(&id, targets),
            Outcome::Sent(sending) if preferences.respond_async => {
                let response = stored(&sending, preferences);
                // Its targets are counted as if the sender had waited; those of too many at a time, as far as they are.
                if let Ok(counted) = Arc::clone(&self.answered_multicasts).try_acquire_owned() {
                    tokio::spawn(async move {
                        awaited(sending, preferences, future::pending()).await;
                        drop(counted);
                    });
                }
                response
            }
            Outcome::Sent(sending) => told(&mut awaited(sending, preferences, place.given_up()).await, preferences),
        };
        route.converted(response)
    }
}

/// Waits until nobody is left who could take a message, or for as long as its sender prefers and its place is not given up.
async fn awaited(mut sending: Sending, preferences: Preferences, given_up: impl Future<Output = ()>) -> Sending {
    let (call, called) = oneshot::channel::<()>();
    sending.when_done(move || drop(call));
    let has_waited = tokio::select! {
        biased;
        _ = called => true,
        () = given_up => false,
        () = tokio::time::sleep(preferences.wait()) => !preferences.wait().is_zero(),
    };
    sending.decide(has_waited);
    sending
}
