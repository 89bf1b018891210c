//! The transport over NATS of a build without the feature `nats`: there is none. `Options::check` has refused the options that ask for it.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Failures, Options, Travelling};
use crate::error::Result;
use crate::feed::{Receipt, Standing};
use crate::schema::Table;
use crate::transaction::Database;

/// The servers of NATS.
pub(super) enum Nats {}

/// What a message that is about to be stored takes in the outbox.
pub(super) enum Room {}

/// A message on its way.
pub(super) struct Travel(Infallible);

impl Nats {
    pub(super) fn start(_: &Options, _: &Database) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(super) fn room(&self, _: &Travelling<'_>) -> Result<Option<Room>> {
        match *self {}
    }

    pub(super) fn send(&self, _: &Table, _: Travelling<'_>, _: Option<Room>, _: &Arc<Receipt>) -> Travel {
        match *self {}
    }
}

impl Travel {
    pub(super) fn end(&self, _: bool) {
        match self.0 {}
    }

    pub(super) fn failures(&self, _: &[Standing]) -> Failures {
        match self.0 {}
    }
}
