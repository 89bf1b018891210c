//! Regular expressions: read with the query, compiled where it is carried out.
//!
//! Reading one takes no longer than its text; compiling may take milliseconds, and a mebibyte. A query is read where others wait
//! for it, and again in the pool, and then may have nothing to ask. So an expression is compiled when records are about to be asked,
//! once, and then says whether it is too large.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use regex_syntax::ast;

use crate::error::{Error, Place, Result};

/// How much memory a compiled regular expression may take, in bytes.
const COMPILED_BYTES: usize = 1 << 20;

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Expression<'q> {
    pub(super) text: Cow<'q, str>,
    /// Where it begins in the raw query, in bytes.
    position: usize,
    compiled: OnceLock<Regex>,
}

impl<'q> Expression<'q> {
    /// Reads an expression, which begins at a byte of the query.
    ///
    /// # Errors
    /// `Invalid` there, if it is none.
    pub fn read(text: Cow<'q, str>, position: usize) -> Result<Self> {
        match ast::parse::Parser::new().parse(&text) {
            Ok(_) => Ok(Self { text, position, compiled: OnceLock::new() }),
            Err(error) => Err(refused(position, &error.kind().to_string())),
        }
    }

    /// Makes it ready to be asked; costs nothing the second time.
    ///
    /// # Errors
    /// `Invalid` where it stands, if it is too large or names what there is not.
    pub fn compile(&self) -> Result<()> {
        if self.compiled.get().is_some() {
            return Ok(());
        }
        let compiled = regex::RegexBuilder::new(&self.text).size_limit(COMPILED_BYTES).build().map_err(|error| {
            // The crate draws the place over several lines, and says what is wrong in the last.
            let error = error.to_string();
            refused(self.position, error.lines().last().unwrap_or_default().trim_start_matches("error: "))
        })?;
        self.compiled.get_or_init(|| compiled);
        Ok(())
    }

    /// Whether it is found in a text.
    ///
    /// # Panics
    /// If it was not compiled.
    pub fn is_found_in(&self, text: &str) -> bool {
        self.compiled.get().expect("a CompiledFilter has compiled it").is_match(text)
    }
}

fn refused(position: usize, why: &str) -> Error {
    Error::Invalid { detail: format!("the regular expression: {why}"), place: Place::Position(position) }
}
