//! JSON text read from left to right, by whoever knows what should come next.
//!
//! No tree is built and no type is guessed: [`super::coerce`] asks for what the schema expects, and what nobody looks into is
//! checked and stepped over. Text is searched many bytes at a time for the three things that can end or change it, and
//! borrowed unless it has escapes. What is accepted is RFC 8259 as serde_json reads it, which the tests of `value` hold it to.

use std::borrow::Cow;

use memchr::memchr2;

/// How deep a value may be nested.
pub const DEPTH: u32 = 128;

/// Why a text is not the JSON that was expected, and at which byte.
#[derive(Debug)]
pub struct Fault {
    at: usize,
    what: &'static str,
}

/// What the next value is: a scalar, whole, or the bracket of what holds others, not yet taken.
#[derive(Debug)]
pub enum Item<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number without fraction and exponent, within 64 bits with a sign.
    Integer(i64),
    /// One beyond them, within 64 bits without a sign.
    Unsigned(u64),
    /// Any other number; finite.
    Float(f64),
    /// A number that is greater than all doubles, or less than all.
    Beyond,
    /// Text, its escapes resolved.
    Text(Cow<'a, str>),
    /// The `[` of a list.
    List,
    /// The `{` of an object.
    Object,
}

/// A place in JSON text.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether any byte of the text is a control character; if none is, no part of it has to be searched for one.
    controls: bool,
    /// Whether white space was stepped over since somebody last set this to false.
    spaced: bool,
}

impl Fault {
    /// What is wrong, at which line and column of `text`, both from 1; columns count bytes.
    pub fn describe(&self, text: &str) -> String {
        let before = &text.as_bytes()[..self.at];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        format!("{} at line {line} column {column}", self.what)
    }
}

impl<'a> Reader<'a> {
    /// At the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, controls: has_controls(text.as_bytes()), spaced: false }
    }

    /// How many bytes were taken.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The fault of text in which something else stands here.
    pub fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    /// The next byte that is not white space, not yet taken.
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

    /// Takes a byte, which comes next or `what` is missing.
    ///
    /// # Errors
    /// Another byte comes next, or none.
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
    /// Something does.
    pub fn end(&mut self) -> Result<(), Fault> {
        self.peek().map_or(Ok(()), |_| Err(self.fault("unexpected data after the value")))
    }

    /// Steps to the next element of a list whose bracket was taken; false at its end, which is taken.
    ///
    /// # Errors
    /// Neither comes next.
    pub fn next_element(&mut self, first: bool) -> Result<bool, Fault> {
        self.next_of(b']', first, "expected `,` or `]`")
    }

    /// The same for the members of an object; a quotation mark is next if there is another one.
    ///
    /// # Errors
    /// Neither comes next.
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

    /// Takes a name if it is this one, written without escapes. A quotation mark is next.
    #[inline]
    pub fn take_name(&mut self, name: &str) -> bool {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let is_it = rest.get(name.len()) == Some(&b'"') && rest.starts_with(name.as_bytes());
        if is_it {
            self.at += name.len() + 2;
        }
        is_it
    }

    /// Takes the next value if it is a scalar, else only says what begins.
    ///
    /// # Errors
    /// No value comes next.
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

    /// Takes text if it is whole without escapes and control characters; nothing if something else comes next.
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

    /// Takes a number of at most 15 digits, some of them decimals, and returns its digits and how many are decimals; nothing if
    /// something else comes next, or a number with a sign, an exponent or zeros that mean nothing.
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

    /// Takes a word if it comes next.
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

    /// Takes text. A quotation mark is next.
    ///
    /// # Errors
    /// It has no end, a control character, unknown escape, or a lone surrogate.
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

    /// Steps to the next quotation mark or backslash and returns what stands before it.
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

    /// Takes a backslash and what it escapes.
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

    /// Steps over a number; says whether it has neither fraction nor exponent.
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
            // What a surrogate means is not asked: nobody reads it.
            self.escaped()?;
        }
    }

    /// Takes a value of any kind and returns its text, and whether there is white space in it outside of texts; `None` if it is
    /// nested deeper than [`DEPTH`], and then the reader is of no more use.
    ///
    /// # Errors
    /// No value comes next.
    pub fn skip(&mut self) -> Result<Option<(&'a str, bool)>, Fault> {
        self.peek();
        self.spaced = false;
        let start = self.at;
        // Which brackets are open: from the lowest bit up, the innermost first, 1 for an object.
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

    /// Takes a value of any kind, or a name, and returns its text.
    ///
    /// # Errors
    /// No value comes next, or one nested deeper than [`DEPTH`].
    pub fn value_text(&mut self) -> Result<&'a str, Fault> {
        let deep = self.fault("nested too deep");
        self.skip()?.map(|(text, _)| text).ok_or(deep)
    }

    /// Steps to the next value of the innermost bracket, over its name in an object; false at the end.
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

/// What is missing between a name and its value.
pub const COLON: &str = "expected `:`";

enum Escape {
    Character(char),
    /// A UTF-16 code unit; may be a surrogate.
    Unit(u16),
}

/// Whether text has to be escaped in JSON.
pub fn needs_escape(text: &str) -> bool {
    memchr2(b'"', b'\\', text.as_bytes()).is_some() || has_controls(text.as_bytes())
}

/// One pass that the compiler makes wide, because nothing leaves the loop early.
fn has_controls(bytes: &[u8]) -> bool {
    bytes.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20
}
