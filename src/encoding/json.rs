//! A streaming reader of JSON text, driven by a caller that knows what to expect.
//!
//! It builds no tree and guesses no types: [`super::coerce`] asks for what the schema requires, and values that nobody needs are validated
//! and skipped. Text is searched many bytes at a time for the three kinds of byte that can end or change it, and borrowed unless it has
//! escapes. It accepts RFC 8259 as serde_json does, which the tests of `value` verify.

use std::borrow::Cow;

use memchr::memchr2;

/// The maximum nesting depth of a value.
pub const DEPTH: u32 = 128;

/// The reason why a text is not the expected JSON, and the byte offset.
#[derive(Debug)]
pub struct Fault {
    at: usize,
    what: &'static str,
}

/// The beginning of a value: a complete scalar, or the opening bracket of a list or an object, which is not consumed.
#[derive(Debug)]
pub enum Item<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number without fraction and exponent that fits into an `i64`.
    Integer(i64),
    /// A number without fraction and exponent that fits into a `u64` only.
    Unsigned(u64),
    /// Any other number; finite.
    Float(f64),
    /// A number outside the range of doubles.
    Beyond,
    /// Text, unescaped.
    Text(Cow<'a, str>),
    /// The `[` of a list.
    List,
    /// The `{` of an object.
    Object,
}

/// A position in JSON text.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether the text contains any control character; if not, none of its parts has to be searched for one.
    controls: bool,
    /// Whether white space was skipped since this was last set to false.
    spaced: bool,
}

impl Fault {
    /// Describes the fault with its line and column in `text`, both from 1; columns count bytes.
    pub fn describe(&self, text: &str) -> String {
        let before = &text.as_bytes()[..self.at];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        format!("{} at line {line} column {column}", self.what)
    }
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, controls: has_controls(text.as_bytes()), spaced: false }
    }

    /// Returns the number of bytes consumed.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the fault for unexpected input at the current position.
    pub fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        match self.here() {
            Some(b' ' | b'\n' | b'\r' | b'\t') => self.peek_behind_spaces(),
            byte => byte,
        }
    }

    fn peek_behind_spaces(&mut self) -> Option<u8> {
        self.spaced = true;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.here() {
            self.at += 1;
        }
        self.here()
    }

    #[inline]
    fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Consumes this byte, or reports that `what` is missing.
    ///
    /// # Errors
    /// If another byte or the end comes next.
    pub fn take(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.peek() != Some(byte) {
            return Err(self.fault(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// If something follows.
    pub fn end(&mut self) -> Result<(), Fault> {
        self.peek().map_or(Ok(()), |_| Err(self.fault("unexpected data after the value")))
    }

    /// Advances to the next element of a list whose opening bracket is consumed; returns false at its end, which is consumed.
    ///
    /// # Errors
    /// If neither comes next.
    pub fn next_element(&mut self, first: bool) -> Result<bool, Fault> {
        self.next_of(b']', first, "expected `,` or `]`")
    }

    /// Like `next_element`, for the members of an object; a quotation mark comes next if there is another member.
    ///
    /// # Errors
    /// If neither comes next.
    pub fn next_member(&mut self, first: bool) -> Result<bool, Fault> {
        let another = self.next_of(b'}', first, "expected `,` or `}`")?;
        if another && self.peek() != Some(b'"') {
            return Err(self.fault("expected a member name in double quotes"));
        }
        Ok(another)
    }

    #[inline]
    fn next_of(&mut self, close: u8, first: bool, what: &'static str) -> Result<bool, Fault> {
        match self.peek() {
            Some(byte) if byte == close => self.at += 1,
            Some(b',') if !first => {
                self.at += 1;
                return Ok(true);
            }
            Some(_) if first => return Ok(true),
            _ => return Err(self.fault(what)),
        }
        Ok(false)
    }

    /// Consumes a name if it is this one, written without escapes. A quotation mark must come next.
    #[inline]
    pub fn take_name(&mut self, name: &str) -> bool {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let is_it = rest.get(name.len()) == Some(&b'"') && rest.starts_with(name.as_bytes());
        if is_it {
            self.at += name.len() + 2;
        }
        is_it
    }

    /// Consumes the next value if it is a scalar; otherwise only returns which bracket opens.
    ///
    /// # Errors
    /// If no value comes next.
    #[inline(always)]
    pub fn item(&mut self) -> Result<Item<'a>, Fault> {
        match self.peek() {
            Some(b'"') => self.text().map(Item::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => Ok(Item::List),
            Some(b'{') => Ok(Item::Object),
            Some(b't') => self.word("true").map(|()| Item::Boolean(true)),
            Some(b'f') => self.word("false").map(|()| Item::Boolean(false)),
            Some(b'n') => self.word("null").map(|()| Item::Null),
            _ => Err(self.fault("expected a value")),
        }
    }

    /// Consumes text if it is complete and has no escapes or control characters; otherwise consumes nothing.
    #[inline]
    pub fn take_plain_text(&mut self) -> bool {
        if self.controls || self.here() != Some(b'"') {
            return false;
        }
        let rest = &self.text.as_bytes()[self.at + 1..];
        match memchr2(b'"', b'\\', rest) {
            Some(length) if rest[length] == b'"' => {
                self.at += length + 2;
                true
            }
            _ => false,
        }
    }

    /// Consumes a number of at most 15 digits, including decimals, and returns its digits and the number of decimals; consumes nothing if
    /// something else comes next, or a number with a sign, an exponent or redundant zeros.
    #[inline]
    pub fn take_short_number(&mut self, most_decimals: usize) -> Option<(u64, usize)> {
        const MOST_DIGITS: usize = 15;
        let rest = &self.text.as_bytes()[self.at..];
        let (mut number, mut at, mut point) = (0, 0, None);
        let end = loop {
            match rest.get(at)? {
                digit @ b'0'..=b'9' => number = number * 10 + u64::from(digit - b'0'),
                b'.' if point.is_none() => point = Some(at),
                b'.' | b'e' | b'E' => return None,
                _ => break at,
            }
            if at > MOST_DIGITS {
                return None;
            }
            at += 1;
        };
        let whole = point.unwrap_or(end);
        let decimals = point.map_or(0, |point| end - point - 1);
        let needless = (whole > 1 && rest[0] == b'0') || (point.is_some() && (decimals == 0 || number % 10 == 0));
        if whole == 0 || whole + decimals > MOST_DIGITS || decimals > most_decimals || needless {
            return None;
        }
        self.at += end;
        Some((number, decimals))
    }

    /// Consumes a word if it comes next.
    #[inline]
    pub fn take_word(&mut self, word: &str) -> bool {
        let is_it = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if is_it {
            self.at += word.len();
        }
        is_it
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if self.take_word(word) { Ok(()) } else { Err(self.fault("expected a value")) }
    }

    /// Consumes text. A quotation mark must come next.
    ///
    /// # Errors
    /// If it is not terminated, or has a control character, an unknown escape, or a lone surrogate.
    #[inline]
    pub fn text(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.at += 1;
        let plain = self.plain()?;
        if self.here() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.text_with_escapes(plain).map(Cow::Owned)
    }

    #[inline(never)]
    fn text_with_escapes(&mut self, plain: &str) -> Result<String, Fault> {
        let mut whole = plain.to_owned();
        while self.here() != Some(b'"') {
            whole.push(self.escape()?);
            whole.push_str(self.plain()?);
        }
        self.at += 1;
        Ok(whole)
    }

    /// Advances to the next quotation mark or backslash and returns the text before it.
    #[inline]
    fn plain(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let Some(length) = memchr2(b'"', b'\\', rest) else {
            self.at = self.text.len();
            return Err(self.fault("unterminated string"));
        };
        if self.controls && has_controls(&rest[..length]) {
            return Err(self.fault("control character in a string"));
        }
        self.at += length;
        Ok(&self.text[start..self.at])
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let half = self.fault("a lone surrogate");
        let high = match self.escaped()? {
            Escape::Character(character) => return Ok(character),
            Escape::Unit(unit) => unit,
        };
        let low = match high {
            0xD800..=0xDBFF => self.escaped().ok(),
            _ => None,
        };
        let low = low.and_then(|low| if let Escape::Unit(unit) = low { Some(unit) } else { None });
        let character = char::decode_utf16(std::iter::once(high).chain(low)).next();
        character.and_then(std::result::Result::ok).ok_or(half)
    }

    /// Consumes an escape sequence.
    fn escaped(&mut self) -> Result<Escape, Fault> {
        let unknown = self.fault("unknown escape");
        let rest = &self.text.as_bytes()[self.at..];
        let (Some(b'\\'), Some(kind)) = (rest.first(), rest.get(1)) else {
            return Err(unknown);
        };
        let character = match kind {
            b'"' | b'\\' | b'/' => char::from(*kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = rest.get(2..6).and_then(|digits| {
                    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
                    digits.into_iter().try_fold(0, |unit: u16, digit| Some(unit << 4 | digit? as u16))
                });
                self.at += 6;
                return unit.map(Escape::Unit).ok_or(unknown);
            }
            _ => return Err(unknown),
        };
        self.at += 2;
        Ok(Escape::Character(character))
    }

    fn number(&mut self) -> Result<Item<'a>, Fault> {
        let start = self.at;
        let whole = self.step_over_number()?;
        let text = &self.text[start..self.at];
        if whole && let Ok(integer) = text.parse() {
            return Ok(Item::Integer(integer));
        }
        if whole && let Ok(unsigned) = text.parse() {
            return Ok(Item::Unsigned(unsigned));
        }
        match text.parse() {
            Ok(float) if f64::is_finite(float) => Ok(Item::Float(float)),
            _ => Ok(Item::Beyond),
        }
    }

    /// Skips a number; returns whether it has neither fraction nor exponent.
    fn step_over_number(&mut self) -> Result<bool, Fault> {
        if self.here() == Some(b'-') {
            self.at += 1;
        }
        match self.here() {
            Some(b'0') => {
                self.at += 1;
                if let Some(b'0'..=b'9') = self.here() {
                    return Err(self.fault("number with a leading zero"));
                }
            }
            _ => self.step_over_digits()?,
        }
        let mut whole = true;
        if self.here() == Some(b'.') {
            self.at += 1;
            self.step_over_digits()?;
            whole = false;
        }
        if let Some(b'e' | b'E') = self.here() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.here() {
                self.at += 1;
            }
            self.step_over_digits()?;
            whole = false;
        }
        Ok(whole)
    }

    fn step_over_digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.here() {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    fn step_over_text(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.plain()?;
            if self.here() == Some(b'"') {
                self.at += 1;
                return Ok(());
            }
            // Surrogates are not checked, since the text is not read.
            self.escaped()?;
        }
    }

    /// Consumes a value of any kind and returns its text, and whether it contains white space outside strings; `None` if it is nested
    /// deeper than [`DEPTH`], after which the reader must not be used.
    ///
    /// # Errors
    /// If no value comes next.
    pub fn skip(&mut self) -> Result<Option<(&'a str, bool)>, Fault> {
        self.peek();
        self.spaced = false;
        let start = self.at;
        // The open brackets as a bit set: the innermost in the lowest bit, 1 for an object.
        let (mut objects, mut depth) = (0u128, 0);
        loop {
            let mut holds_more = false;
            match self.peek() {
                Some(b'"') => self.step_over_text()?,
                Some(b'-' | b'0'..=b'9') => drop(self.step_over_number()?),
                Some(open @ (b'[' | b'{')) => {
                    if depth == DEPTH {
                        return Ok(None);
                    }
                    self.at += 1;
                    depth += 1;
                    objects = objects << 1 | u128::from(open == b'{');
                    holds_more = self.more(objects, true)?;
                    if !holds_more {
                        (objects, depth) = (objects >> 1, depth - 1);
                    }
                }
                _ => drop(self.item()?),
            }
            while !holds_more {
                if depth == 0 {
                    return Ok(Some((&self.text[start..self.at], self.spaced)));
                }
                holds_more = self.more(objects, false)?;
                if !holds_more {
                    (objects, depth) = (objects >> 1, depth - 1);
                }
            }
        }
    }

    /// Consumes a value of any kind, or a name, and returns its text.
    ///
    /// # Errors
    /// If no value comes next, or one nested deeper than [`DEPTH`].
    pub fn value_text(&mut self) -> Result<&'a str, Fault> {
        let deep = self.fault("nested too deep");
        self.skip()?.map(|(text, _)| text).ok_or(deep)
    }

    /// Advances to the next value of the innermost bracket, past its name in an object; returns false at the end.
    fn more(&mut self, objects: u128, first: bool) -> Result<bool, Fault> {
        if objects & 1 == 0 {
            return self.next_element(first);
        }
        let more = self.next_member(first)?;
        if more {
            self.step_over_text()?;
            self.take(b':', COLON)?;
        }
        Ok(more)
    }
}

/// The fault of a name that is not followed by a colon.
pub const COLON: &str = "expected `:`";

enum Escape {
    Character(char),
    /// A UTF-16 code unit; may be a surrogate.
    Unit(u16),
}

/// Returns whether text has to be escaped in JSON.
pub fn needs_escape(text: &str) -> bool {
    memchr2(b'"', b'\\', text.as_bytes()).is_some() || has_controls(text.as_bytes())
}

/// A loop without an early exit, so that the compiler vectorises it.
fn has_controls(bytes: &[u8]) -> bool {
    bytes.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20
}
