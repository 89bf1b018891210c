//! Regular expressions: parsed with the query, compiled when it is executed.
//!
//! Parsing takes time linear in the text; compiling may take milliseconds and a mebibyte. A query is parsed on a worker thread, where
//! others wait, and again in the pool, and may then have no record to evaluate. So an expression is compiled once, just before the first
//! evaluation, and only then is it known to be too large.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use regex_syntax::ast;

use crate::error::{Error, Place, Result};

/// The maximum memory of a compiled regular expression, in bytes.
const COMPILED_BYTES: usize = 1 << 20;

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Expression<'q> {
    pub(super) text: Cow<'q, str>,
    /// The byte offset of its start in the raw query.
    position: usize,
    compiled: OnceLock<Regex>,
}

impl<'q> Expression<'q> {
    /// Parses an expression that begins at a byte offset of the query.
    ///
    /// # Errors
    /// `Invalid` at that position if it is not a regular expression.
    pub fn read(text: Cow<'q, str>, position: usize) -> Result<Self> {
        match ast::parse::Parser::new().parse(&text) {
            Ok(_) => Ok(Self { text, position, compiled: OnceLock::new() }),
            Err(error) => Err(refused(position, &error.kind().to_string())),
        }
    }

    /// Compiles it; does nothing if it is already compiled.
    ///
    /// # Errors
    /// `Invalid` at its position if it is too large or refers to something undefined.
    pub fn compile(&self) -> Result<()> {
        if self.compiled.get().is_some() {
            return Ok(());
        }
        let compiled = regex::RegexBuilder::new(&self.text).size_limit(COMPILED_BYTES).build().map_err(|error| {
            // The crate quotes the position over several lines and states the cause in the last.
            let error = error.to_string();
            refused(self.position, error.lines().last().unwrap_or_default().trim_start_matches("error: "))
        })?;
        self.compiled.get_or_init(|| compiled);
        Ok(())
    }

    /// Returns whether it has a match in a text.
    ///
    /// # Panics
    /// If it was not compiled.
    pub fn is_found_in(&self, text: &str) -> bool {
        self.compiled.get().expect("a CompiledFilter has compiled it").is_match(text)
    }
}

fn refused(position: usize, why: &str) -> Error {
    Error::Invalid { detail: format!("regular expression: {why}"), place: Place::Position(position) }
}
