//! The tokens of a document (GraphQL, October 2021, 2.1; strings as of September 2025, 2.9.4).
//!
//! async-graphql's parser reads `01` as two numbers, `fragmentName` as two words, and an unfinished block string as two strings; it keeps
//! the escape in a block string and refuses surrogate pairs.

use async_graphql_parser::Pos;

use super::Fault;

/// A token; ignored are white space, commas, comments and byte order marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'d> {
    End,
    /// One of `! $ & ( ) : = @ [ ] { | }`.
    Punctuator(char),
    /// `...`
    Spread,
    Name(&'d str),
    Int(&'d str),
    Float(&'d str),
    /// The value of a string or a block string.
    Text(String),
}

/// The tokens of a text.
pub(super) struct Tokens<'d> {
    text: &'d str,
    /// The byte offset of the next token.
    at: usize,
    /// The last position that was computed, and its byte offset.
    position: Pos,
    counted: usize,
}

impl<'d> Tokens<'d> {
    pub fn new(text: &'d str) -> Self {
        Self { text, at: 0, position: Pos { line: 1, column: 1 }, counted: 0 }
    }

    /// Reads the next token, with its position.
    ///
    /// # Errors
    /// What comes next is no token.
    pub fn next(&mut self) -> Result<(Token<'d>, Pos), Fault> {
        self.skip_ignored();
        let (position, rest) = (self.position(), self.rest());
        let token = match rest.chars().next() {
            None => Token::End,
            Some(mark @ ('!' | '$' | '&' | '(' | ')' | ':' | '=' | '@' | '[' | ']' | '{' | '|' | '}')) => {
                self.at += 1;
                Token::Punctuator(mark)
            }
            Some('.') if rest.starts_with("...") => {
                self.at += 3;
                Token::Spread
            }
            Some('"') if rest.starts_with("\"\"\"") => Token::Text(self.block_string()?),
            Some('"') => Token::Text(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('a'..='z' | 'A'..='Z' | '_') => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let (name, _) = rest.split_at(rest.bytes().take_while(is_part).count());
                self.at += name.len();
                Token::Name(name)
            }
            Some(other) => return Err(self.fault(format!("unexpected character {other:?}"))),
        };
        Ok((token, position))
    }

    fn rest(&self) -> &'d str {
        &self.text[self.at..]
    }

    fn skip_ignored(&mut self) {
        loop {
            let rest = self.rest();
            self.at += match rest.chars().next() {
                Some(ignored @ (' ' | '\t' | '\n' | '\r' | ',' | '\u{feff}')) => ignored.len_utf8(),
                Some('#') => rest.find(['\n', '\r']).unwrap_or(rest.len()),
                _ => return,
            };
        }
    }

    /// Returns the position of the next byte.
    fn position(&mut self) -> Pos {
        let mut characters = self.text[self.counted..self.at].chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\r' if characters.peek() == Some(&'\n') => {}
                '\n' | '\r' => self.position = Pos { line: self.position.line + 1, column: 1 },
                _ => self.position.column += 1,
            }
        }
        self.counted = self.at;
        self.position
    }

    /// Returns the fault at the next byte.
    fn fault(&mut self, message: impl Into<String>) -> Fault {
        Fault::at(self.position(), message)
    }

    fn number(&mut self) -> Result<Token<'d>, Fault> {
        let (number, mut is_float) = (self.rest(), false);
        self.take(&['-']);
        if !self.take(&['0']) {
            self.digits()?;
        }
        if self.take(&['.']) {
            self.digits()?;
            is_float = true;
        }
        if self.take(&['e', 'E']) {
            self.take(&['+', '-']);
            self.digits()?;
            is_float = true;
        }
        if self.rest().starts_with(|next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '.')) {
            return Err(self.fault("a number cannot go on like this"));
        }
        let number = &number[..number.len() - self.rest().len()];
        Ok(if is_float { Token::Float(number) } else { Token::Int(number) })
    }

    fn take(&mut self, characters: &[char]) -> bool {
        let is_taken = self.rest().starts_with(characters);
        self.at += usize::from(is_taken);
        is_taken
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += digits;
        if digits == 0 { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(['"', '\\', '\n', '\r']).unwrap_or(rest.len());
            text.push_str(&rest[..end]);
            self.at += end;
            match rest.as_bytes().get(end) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escaped()?),
                _ => return Err(self.fault("a string ends with \" on the line where it begins")),
            }
        }
    }

    /// Reads an escape sequence.
    fn escaped(&mut self) -> Result<char, Fault> {
        let rest = self.rest();
        let (character, behind) = match rest.as_bytes().get(1) {
            Some(b'u') => match escaped_code(rest) {
                Some(found) => found,
                None => {
                    return Err(
                        self.fault("\\u needs four hexadecimal digits, or some in braces; surrogates stand in pairs")
                    );
                }
            },
            Some(escaped @ (b'"' | b'\\' | b'/')) => (char::from(*escaped), &rest[2..]),
            Some(b'b') => ('\u{8}', &rest[2..]),
            Some(b'f') => ('\u{c}', &rest[2..]),
            Some(b'n') => ('\n', &rest[2..]),
            Some(b'r') => ('\r', &rest[2..]),
            Some(b't') => ('\t', &rest[2..]),
            _ => return Err(self.fault("a backslash is followed by one of \" \\ / b f n r t u")),
        };
        self.at = self.text.len() - behind.len();
        Ok(character)
    }

    fn block_string(&mut self) -> Result<String, Fault> {
        let mut raw = String::new();
        let mut rest = &self.rest()[3..];
        loop {
            let Some((part, behind)) = rest.split_once("\"\"\"") else {
                return Err(self.fault("a block string ends with \"\"\""));
            };
            rest = behind;
            let Some(part) = part.strip_suffix('\\') else {
                raw.push_str(part);
                break;
            };
            raw.push_str(part);
            raw.push_str("\"\"\"");
        }
        self.at = self.text.len() - rest.len();
        Ok(dedented(&raw))
    }
}

/// Reads `\uXXXX`, `\u{X..}` or a surrogate pair at the beginning of a text; returns the character, and the text behind it.
fn escaped_code(text: &str) -> Option<(char, &str)> {
    fn code(text: &str) -> Option<(u32, &str)> {
        let digits = text.strip_prefix("\\u")?;
        let (digits, behind) = match digits.strip_prefix('{') {
            Some(digits) => digits.split_once('}')?,
            None => digits.split_at_checked(4)?,
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some((u32::from_str_radix(digits, 16).ok().filter(|_| is_number)?, behind))
    }
    let (first, behind) = code(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, behind));
    }
    let (second, behind) = code(behind)?;
    let is_pair = text.len() - behind.len() == "\\uD83D\\uDE00".len() && !text.starts_with("\\u{");
    let units = [first, second].map(|unit| u16::try_from(unit).unwrap_or_default());
    let character = char::decode_utf16(units).next()?.ok().filter(|_| is_pair)?;
    Some((character, behind))
}

/// Removes the common indentation and blank lines at the ends (`BlockStringValue` of 2.9.4).
fn dedented(raw: &str) -> String {
    fn indentation(line: &str) -> usize {
        line.len() - line.trim_start_matches([' ', '\t']).len()
    }
    let raw = raw.replace("\r\n", "\n");
    let mut lines: Vec<&str> = raw.split(['\n', '\r']).collect();
    let is_blank = |line: &str| indentation(line) == line.len();
    let common = lines[1..].iter().filter(|line| !is_blank(line)).map(|line| indentation(line)).min().unwrap_or(0);
    for line in &mut lines[1..] {
        *line = line.get(common..).unwrap_or("");
    }
    let end = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1);
    let begin = lines[..end].iter().position(|line| !is_blank(line)).unwrap_or(end);
    lines[begin..end].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, up to its end.
    fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
        let mut tokens = Tokens::new(text);
        let all = std::iter::from_fn(|| match tokens.next() {
            Ok((Token::End, _)) => None,
            other => Some(other.map(|(token, _)| token).ok()),
        });
        all.collect()
    }

    fn text(text: &str) -> Option<String> {
        match <[Token<'_>; 1]>::try_from(tokens(text)?) {
            Ok([Token::Text(text)]) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn numbers_end_where_they_have_to() {
        for number in ["0", "-0", "7", "-12", "1234567890123456789012"] {
            assert_eq!(tokens(number), Some(vec![Token::Int(number)]));
        }
        for number in ["0.0", "-1.50", "1e9", "1E+9", "-0e-0", "6.02e23"] {
            assert_eq!(tokens(number), Some(vec![Token::Float(number)]));
        }
        for number in
            ["01", "-01", "00", "1.", "1.e1", ".5", "1e", "1e+", "-", "+1", "1a", "1_", "1.5.2", "0x1", "1...", "1.5f"]
        {
            assert_eq!(tokens(number), None, "{number}");
        }
        assert_eq!(tokens("1,2 -3").map(|all| all.len()), Some(3));
    }

    #[test]
    fn strings_have_escapes() {
        for (quoted, value) in [
            (r#""""#, ""),
            (r#""a \" \\ \/ \b\f\n\r\t é""#, "a \" \\ / \u{8}\u{c}\n\r\t é"),
            (r#""\u00e9\u00E9\u0000""#, "éé\0"),
            (r#""\ud83d\ude00\uD83D\uDE00!""#, "😀😀!"),
            (r#""\u{1F600}\u{61}\u{000000061}\u{10FFFF}\u{0}""#, "😀aa\u{10ffff}\0"),
            ("\"\u{1}\u{7f}\u{feff}😀\"", "\u{1}\u{7f}\u{feff}😀"),
            (r##""# no, comment""##, "# no, comment"),
        ] {
            assert_eq!(text(quoted).as_deref(), Some(value), "{quoted}");
        }
        for quoted in [
            r#"""#,
            r#""a"#,
            "\"a\nb\"",
            "\"a\rb\"",
            r#""\""#,
            r#""\a""#,
            r#""\U0061""#,
            r#""\x41""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\u+123""#,
            r#""\u{}""#,
            r#""\u{110000}""#,
            r#""\u{FFFFFFFFFF}""#,
            r#""\u{1F600""#,
            r#""\u{ 61}""#,
            r#""\u{+61}""#,
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ude00\ud83d""#,
            r#""\ud83d\u0061""#,
            r#""\ud83d\ud83d""#,
            r#""\ud83dx\ude00""#,
            r#""\u{d83d}""#,
            r#""\u{d83d}\u{de00}""#,
            r#""\ud83d\u{de00}""#,
            r#""\u{d83d}\ude00""#,
            r#""\u{D83}\uDE00""#,
        ] {
            assert_eq!(text(quoted), None, "{quoted}");
        }
    }

    #[test]
    fn block_strings_lose_their_indentation() {
        for (quoted, value) in [
            (r#""""""""#, ""),
            (r#""""a \""" b""""#, r#"a """ b"#),
            (r#""""\"""\""" \\ """"#, "\"\"\"\"\"\" \\\\ "),
            (r#""""\n \u0061 "quoted" """"#, r#"\n \u0061 "quoted" "#),
            (
                "\"\"\"\n    Hello,\n      World!\n\n    Yours,\n      GraphQL.\n  \"\"\"",
                "Hello,\n  World!\n\nYours,\n  GraphQL.",
            ),
            ("\"\"\"  first\n  second\n\tthird\"\"\"", "  first\n second\nthird"),
            ("\"\"\"a\r\n  b\r  c\n\n\n\"\"\"", "a\nb\nc"),
            ("\"\"\"\r\n\t\r\n \"\"\"", ""),
            ("\"\"\"\n    a\n  \n    b\n\"\"\"", "a\n\nb"),
            ("\"\"\"\n    a\n      \n    b\n\"\"\"", "a\n  \nb"),
            ("\"\"\"a\n  é\n  \u{a0}b\"\"\"", "a\né\n\u{a0}b"),
        ] {
            assert_eq!(text(quoted).as_deref(), Some(value), "{quoted}");
        }
        for quoted in [r#"""""#, r#""""a""#, r#""""a\""""#, r#""""a"""""#, r#""""a \\""""#] {
            assert_eq!(text(quoted), None, "{quoted}");
        }
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let mut tokens = Tokens::new("\u{feff}a,é\r\n");
        assert_eq!(tokens.next().map(|(_, at)| (at.line, at.column)).ok(), Some((1, 2)));
        assert_eq!(tokens.next().err().and_then(|fault| fault.at), Some((1, 4)));
        let mut tokens = Tokens::new("\"é😀\" x\r\ny\rz\n\nw # é\n \"\"\"\r\n\"\"\" v");
        let all = std::iter::from_fn(|| tokens.next().ok().filter(|(token, _)| *token != Token::End));
        let places: Vec<_> = all.map(|(_, at)| (at.line, at.column)).collect();
        assert_eq!(places, [(1, 1), (1, 6), (2, 1), (3, 1), (5, 1), (6, 2), (7, 5)]);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["..", "?", "%", "é", "\0", "\u{b}", "\u{a0}", "'a'", ";", "a-b"] {
            assert_eq!(tokens(text), None, "{text:?}");
        }
        assert_eq!(tokens("#é😀\u{1}\n,\u{feff} \t\r\n"), Some(Vec::new()));
        assert_eq!(tokens("fragmentName"), Some(vec![Token::Name("fragmentName")]));
    }
}
