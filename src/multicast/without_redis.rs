//! What stands for the client of Redis in a build without the feature `redis`: there is none.

use super::Address;
use super::registration::{Registered, Stay};
use crate::error::{Error, Result};

/// A client that cannot be.
pub(super) enum Client {}

impl Client {
    pub(super) fn open(_: &Address, _: Vec<String>) -> Result<Self> {
        Err(Error::invalid("this server has no feature redis"))
    }

    pub(super) fn get(&self, _: &str, _: &str) -> Result<Option<(Vec<u8>, i64)>> {
        match *self {}
    }

    pub(super) fn set(&self, _: &str, _: &str, _: &[u8], _: Stay) -> Result<Registered> {
        match *self {}
    }

    pub(super) fn set_absent(&self, _: &str, _: &str, _: &[u8], _: Stay) -> Result<bool> {
        match *self {}
    }

    pub(super) fn delete(&self, _: &str, _: &str) -> Result<bool> {
        match *self {}
    }

    pub(super) fn all(&self, _: &str, _: i64) -> Result<Vec<Vec<u8>>> {
        match *self {}
    }
}
