//! Texts with the number of a row in them: paths, bodies, and the answers that are expected.
//!
//! `{n}` is the number, `{n%50}` its remainder, `{filler:700}` so many letters that follow from it; two braces are one. The same
//! template makes a row and says what must come back for it, so a wrong body cannot pass.

use serde::{Deserialize, Serialize};

use crate::random::mixed;

/// A text with places for the number of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number,
    Remainder(u64),
    Filler(usize),
}

impl Template {
    /// The text of a row.
    pub fn of(&self, row: u64) -> String {
        let mut text = String::with_capacity(self.text.len() + 16);
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Number => text.push_str(&row.to_string()),
                Part::Remainder(divisor) => text.push_str(&(row % divisor).to_string()),
                Part::Filler(length) => fill(&mut text, row, *length),
            }
        }
        text
    }
}

fn fill(text: &mut String, row: u64, length: usize) {
    let mut bits = 0;
    for at in 0..length {
        bits = if at % 16 == 0 { mixed(row ^ ((at as u64) << 40)) } else { bits >> 4 };
        text.push(char::from(b'a' + (bits & 15) as u8));
    }
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
        Ok(Self { text, parts })
    }
}

fn part(name: &str) -> Result<Part, String> {
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|number| *number > 0);
    let known = match name {
        "n" => Some(Part::Number),
        _ => (name.strip_prefix("n%").and_then(number).map(Part::Remainder))
            .or_else(|| name.strip_prefix("filler:").and_then(number).map(|length| Part::Filler(length as usize))),
    };
    known.ok_or(format!(
        "{{{name}}} is none of {{n}}, {{n%NUMBER}}, {{filler:NUMBER}}; a brace that is meant is written twice"
    ))
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
        assert_eq!(text(r#"{{"id":"p{n}"}}"#, 7), r#"{"id":"p7"}"#);
        assert_eq!(text("{filler:40}", 1), text("{filler:40}", 1));
        assert_ne!(text("{filler:40}", 1), text("{filler:40}", 2));
        assert_eq!(text("{filler:40}", 1).len(), 40);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in ["{m}", "{n%0}", "{n", "}", "{filler:x}"] {
            assert!(Template::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
