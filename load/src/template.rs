//! Texts with the number of a row in them: paths, bodies, and the answers that are expected.
//!
//! `{n}` is the number, `{n/20}` its quotient, `{n%50}` its remainder, `{n/20%50}` the remainder of the quotient, each with a sum at its end
//! if wanted (`{n/4+99}`), `{filler:700}` so many letters that follow from it; `{items}` is a list in the body of a request, `{call}` the
//! number of the request among all of the run, `{fan_out}` a number that is varied from run to run; two braces are one. The same template
//! makes a row and says what must come back for it, so a wrong body cannot pass.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::random::mixed;

/// Letters that a text has at most: each request in flight has one in memory.
const MOST_LETTERS: u64 = 100_000_000;

/// A text with places for the number of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number { divisor: u64, modulus: Option<u64>, sum: u64 },
    Filler(usize),
    Items,
    Call,
    FanOut,
}

impl Template {
    /// The text of a row.
    pub fn of(&self, row: u64) -> String {
        self.with(row, 0, |_| {})
    }

    /// Returns true if it is no text at all.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns true if its text follows from a row alone.
    pub fn is_of_row(&self) -> bool {
        !(self.has_items() || self.has_call() || self.has_fan_out())
    }

    /// Returns true if it has a place for a list.
    pub fn has_items(&self) -> bool {
        self.parts.contains(&Part::Items)
    }

    /// Returns true if it has a place for the number of a request.
    pub fn has_call(&self) -> bool {
        self.parts.contains(&Part::Call)
    }

    /// Returns true if it has a place for the varied number, `{fan_out}`.
    pub fn has_fan_out(&self) -> bool {
        self.parts.contains(&Part::FanOut)
    }

    /// The same with a number where what is varied has its place.
    pub fn with_fan_out(&self, number: u64) -> Self {
        match self.has_fan_out() {
            true => Self::try_from(self.text.replace("{fan_out}", &number.to_string()))
                .expect("a number where a place was is a text like any other"),
            false => self.clone(),
        }
    }

    /// The text of a row in a request with a number, with a list where its place is.
    pub fn with(&self, row: u64, call: u64, items: impl Fn(&mut String)) -> String {
        let mut text = String::with_capacity(self.text.len() + 16);
        self.write(&mut text, row, call, items);
        text
    }

    /// Writes the text of a row in a request with a number behind another, with a list where its place is.
    pub fn write(&self, text: &mut String, row: u64, call: u64, items: impl Fn(&mut String)) {
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Number { divisor, modulus, sum } => {
                    let quotient = row / divisor;
                    let number = modulus.map_or(quotient, |modulus| quotient % modulus).saturating_add(*sum);
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{number}");
                }
                Part::Filler(length) => fill(text, row, *length),
                Part::Items => items(text),
                Part::Call => {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{call}");
                }
                // It was replaced before the scenario is run.
                Part::FanOut => text.push('0'),
            }
        }
    }
}

/// Sixteen letters from a to p a step, each from four bits: a body of 150 kB has to cost less to make than to send.
fn fill(text: &mut String, row: u64, length: usize) {
    text.reserve(length);
    for at in (0..length).step_by(16) {
        let bits = mixed(row ^ ((at as u64) << 40));
        let (low, high) = (letters(bits as u32), letters((bits >> 32) as u32));
        let letters = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let letters = std::str::from_utf8(&letters).expect("letters from a to p are ASCII");
        text.push_str(&letters[..(length - at).min(16)]);
    }
}

/// A letter for each four bits, the lowest first, as little-endian bytes.
fn letters(bits: u32) -> u64 {
    let mut spread = u64::from(bits);
    spread = (spread | (spread << 16)) & 0x0000_ffff_0000_ffff;
    spread = (spread | (spread << 8)) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | (spread << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    spread + 0x6161_6161_6161_6161
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            literal.push_str(before);
            let brace = &from[..1];
            if let Some(after) = from[1..].strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = from.find('}').filter(|_| brace == "{").ok_or(format!("a lone {brace}; two of it are one"))?;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(part(&from[1..end])?);
            rest = &from[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        let filled = |sum: u64, part: &Part| match part {
            Part::Filler(length) => sum.saturating_add(*length as u64),
            Part::Text(_) | Part::Number { .. } | Part::Items | Part::Call | Part::FanOut => sum,
        };
        match parts.iter().fold(0, filled) > MOST_LETTERS {
            true => Err(format!("a filler of more than {MOST_LETTERS} letters in all")),
            false => Ok(Self { text, parts }),
        }
    }
}

fn part(name: &str) -> Result<Part, String> {
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|number| *number > 0);
    let filler = || name.strip_prefix("filler:").and_then(number).map(|length| Part::Filler(length as usize));
    let known = match name.strip_prefix('n') {
        Some(arithmetic) => row_number(arithmetic, number),
        None if name == "items" => Some(Part::Items),
        None if name == "call" => Some(Part::Call),
        None if name == "fan_out" => Some(Part::FanOut),
        None => filler(),
    };
    known.ok_or(format!(
        "{{{name}}} is none of {{n}}, {{n/NUMBER}}, {{n%NUMBER}}, {{n/NUMBER%NUMBER}}, these with +NUMBER at the end, {{filler:NUMBER}}, \
         {{items}}, {{call}}, {{fan_out}}; a brace that is meant is written twice"
    ))
}

/// Reads what stands behind the `n`: a divisor, a modulus, a number that is added, in this order, each there or not.
fn row_number(arithmetic: &str, number: impl Fn(&str) -> Option<u64>) -> Option<Part> {
    let (arithmetic, sum) = match arithmetic.split_once('+') {
        Some((before, sum)) => (before, number(sum)?),
        None => (arithmetic, 0),
    };
    let (quotient, modulus) = match arithmetic.split_once('%') {
        Some((quotient, modulus)) => (quotient, Some(number(modulus)?)),
        None => (arithmetic, None),
    };
    let divisor = match quotient {
        "" => 1,
        _ => quotient.strip_prefix('/').and_then(number)?,
    };
    Some(Part::Number { divisor, modulus, sum })
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &str, row: u64) -> String {
        Template::try_from(template.to_owned()).unwrap().of(row)
    }

    #[test]
    fn places_are_filled_from_the_number() {
        assert_eq!(text("/T/p{n}?a=={n%10}", 123), "/T/p123?a==3");
        assert_eq!(text("{n/20} {n/20%4}", 123), "6 2");
        assert_eq!(text("{n+1} {n/4+99} {n%10+7} {n/20%4+1}", 123), "124 129 10 3");
        assert_eq!(text("{n+1}", u64::MAX), u64::MAX.to_string());
        assert_eq!(text(r#"{{"id":"p{n}"}}"#, 7), r#"{"id":"p7"}"#);
        let list = Template::try_from("{n}:[{items}]".to_owned()).unwrap();
        assert!(list.has_items());
        assert_eq!(list.with(3, 0, |text| text.push_str("a,b")), "3:[a,b]");
        let call = Template::try_from("{call}/{n}?rank=lt={fan_out}".to_owned()).unwrap();
        assert!(call.has_call() && call.has_fan_out() && !call.with_fan_out(100).has_fan_out());
        assert_eq!(call.with_fan_out(100).with(3, 7, |_| {}), "7/3?rank=lt=100");
        assert_eq!(String::from(call.with_fan_out(100)), "{call}/{n}?rank=lt=100");
        assert_eq!(call.with_fan_out(100), Template::try_from("{call}/{n}?rank=lt=100".to_owned()).unwrap());
        assert!([&list, &call].into_iter().all(|template| !template.is_of_row()));
        assert_eq!(text("{filler:40}", 1), text("{filler:40}", 1));
        assert_ne!(text("{filler:40}", 1), text("{filler:40}", 2));
        assert_eq!(text("{filler:40}", 1).len(), 40);
        assert_eq!(text("{filler:3}", 5), text("{filler:40}", 5)[..3]);
        let all: std::collections::BTreeSet<_> = text("{filler:4000}", 1).chars().collect();
        assert!(all.into_iter().eq('a'..='p'));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let too_long = ["{filler:99999999999}", "{filler:18446744073709551615}", "{filler:90000000}{filler:90000000}"];
        let no_number = ["{filler:0}", "{filler:-1}", "{filler:1e18}", "{filler:inf}", "{filler:99999999999999999999}"];
        for wrong in
            ["{m}", "{n%0}", "{n/0}", "{n%2/3}", "{n+0}", "{n+1/2}", "{n+1+2}", "{n-1}", "{n", "}", "{filler:x}"]
                .into_iter()
                .chain(too_long)
                .chain(no_number)
        {
            assert!(Template::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
