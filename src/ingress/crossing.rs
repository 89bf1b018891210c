//! The crossing from async to blocking: inline where memory suffices, else in a small pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use tokio::runtime::Handle;

use super::file::FileBody;
use crate::error::Error;
use crate::handlers::{Answer, Failure, Result};
use crate::routing::{Route, Routes};
use crate::static_files::Extent;
use crate::transaction::Database;

/// Runs handlers.
pub(super) struct Crossing {
    blocking: Database,
    in_memory: Database,
    routes: Routes,
    pool: Handle,
    in_flight: AtomicUsize,
    most_in_flight: usize,
}

/// The right to wait; given back when it is dropped, by the pool if the client has gone meanwhile.
pub(super) struct Permit(Arc<Crossing>);

/// What came out of the pool.
pub(super) struct Pooled {
    /// When the handler began.
    pub(super) began: Instant,
    pub(super) outcome: Result<Answer>,
    /// Of the request.
    pub(super) headers: HeaderMap,
}

impl Permit {
    /// `None` if as many are out as there may be.
    pub(super) fn take(crossing: &Arc<Crossing>) -> Option<Self> {
        let permit = Self(Arc::clone(crossing));
        let others = crossing.in_flight.fetch_add(1, Ordering::Relaxed);
        (others < crossing.most_in_flight).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Crossing {
    pub(super) fn new(blocking: Database, routes: Routes, most_in_flight: usize, pool: Handle) -> Self {
        let in_memory = blocking.in_memory();
        Self { blocking, in_memory, routes, pool, in_flight: AtomicUsize::new(0), most_in_flight }
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn database(&self) -> &Database {
        &self.blocking
    }

    /// Runs a route's handler here and now, without waiting for anything.
    ///
    /// # Errors
    /// What the handler returns; `WouldBlock` where that is not enough.
    pub(super) fn inline(&self, route: &Route<'_>, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
        caught(|| route.answer(&self.in_memory, headers, body))
    }

    /// Runs the handler of a request in the pool, where it may wait.
    pub(super) async fn pooled(&self, parts: Parts, body: Bytes, permit: Permit) -> Pooled {
        let job = move || {
            let began = Instant::now();
            let crossing = &permit.0;
            let outcome = caught(|| {
                let route = crossing.routes.resolve(&parts.method, &parts.uri, &parts.headers);
                let route = route.ok_or_else(|| Error::NotFound { detail: "no table has this path".to_owned() })??;
                route.answer(&crossing.blocking, &parts.headers, &body)
            });
            Pooled { began, outcome, headers: parts.headers }
        };
        // It is cancelled only when the server stops before it has begun.
        self.pool.spawn_blocking(job).await.unwrap_or_else(|_| Pooled {
            began: Instant::now(),
            outcome: Err(Failure::Overloaded),
            headers: HeaderMap::new(),
        })
    }

    /// Does what may wait in the pool, for an operator: it counts against no limit.
    ///
    /// # Errors
    /// What the job returns; `Overloaded` if the server stops before it has begun.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
    ) -> Result<T> {
        match self.pool.spawn_blocking(job).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(Failure::Overloaded),
        }
    }

    /// The body that a part of a file is, once it was opened in the pool.
    ///
    /// # Errors
    /// `Storage` if it cannot be opened.
    pub(super) async fn opened(&self, extent: Extent, permit: Permit) -> Result<FileBody> {
        let range = extent.range();
        let job = move || {
            let opened = extent.open();
            drop(permit);
            opened
        };
        match self.pool.spawn_blocking(job).await {
            Ok(opened) => Ok(FileBody::new(opened?, range, self.pool.clone())),
            Err(_) => Err(Failure::Overloaded),
        }
    }

    /// Requests that wait for their bodies or for the pool.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// What a handler returns, a panic being a failure like others: the connection, and its other requests, go on.
pub(super) fn caught(handler: impl FnOnce() -> Result<Answer>) -> Result<Answer> {
    // Nothing half changed is seen afterwards: locks and batches are put back by their guards.
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(Failure::Panicked(text.unwrap_or_else(|| "without a word".to_owned())))
    })
}
