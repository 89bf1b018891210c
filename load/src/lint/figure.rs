//! A figure as it is printed: what its digits say, and how exact they are.

/// A figure, in seconds if it is a time, between the ends of what its last digit leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) least: f64,
    pub(super) value: f64,
    pub(super) most: f64,
}

/// The reading of a text where a figure is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    /// No figure: nothing was measured (`-`, `n/a`, `NaN`, `inf`).
    Nothing,
    /// A number with a unit of time.
    Time(Figure),
    /// A number without a unit.
    Bare(Figure),
    /// Something with digits that is neither.
    Other,
}

impl Figure {
    pub(super) fn new(value: f64, resolution: f64) -> Self {
        Self { least: value - resolution, value, most: value + resolution }
    }

    pub(super) fn scaled(self, scale: f64) -> Self {
        Self { least: self.least * scale, value: self.value * scale, most: self.most * scale }
    }

    /// Adds a smaller part, `30s` to `2m`, by which alone it is inexact.
    fn with_part(self, part: Self) -> Self {
        Self { least: self.value + part.least, value: self.value + part.value, most: self.value + part.most }
    }

    /// Returns true if it may be no more than another. Figures that are rounded alike have the order of the values that were rounded.
    pub(super) fn is_at_most(&self, other: Self, tolerance: f64) -> bool {
        let alike = (self.most - self.least) / (other.most - other.least);
        self.value <= other.value * (1.0 + tolerance)
            || (!(0.9..1.1).contains(&alike) && self.least <= other.most * (1.0 + tolerance))
    }

    pub(super) fn milliseconds(&self) -> String {
        format!("{:.3} ms", self.value * 1e3)
    }
}

impl Reading {
    /// Reads `1.5ms`, `250 us`, `2.1 secs`, `1h2m3.5s`, `1,234.5`, `12k`, `> 30 s`.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if !text.contains(|letter: char| letter.is_ascii_digit()) {
            return Self::Nothing;
        }
        let (bound, rest) = bound(text);
        match (bound, amount(rest)) {
            (Bound::None, reading) => reading,
            (bound, Self::Time(figure)) => Self::Time(bound.apply(figure)),
            (bound, Self::Bare(figure)) => Self::Bare(bound.apply(figure)),
            (_, reading) => reading,
        }
    }
}

/// The unit of a time, in seconds.
pub(super) fn unit(word: &str) -> Option<f64> {
    Some(match word.to_lowercase().as_str() {
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        // A million is no minutes.
        "m" if word == "M" => return None,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1e-3,
        // The micro sign and the Greek letter; in lower case they are one only here.
        "us" | "µs" | "μs" | "usec" | "usecs" | "µsec" | "μsec" | "micros" | "microsecond" | "microseconds" => 1e-6,
        "ns" | "nsec" | "nsecs" | "nanos" | "nanosecond" | "nanoseconds" => 1e-9,
        _ => return None,
    })
}

/// Returns true if a text that is no time holds several, or a range of them, or one with a remark. A difference has a sign.
pub(super) fn is_unclear(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.split(|letter: char| !letter.is_alphabetic()).any(|word| unit(word).is_some())
}

#[derive(Clone, Copy)]
enum Bound {
    None,
    AtMost,
    AtLeast,
}

impl Bound {
    fn apply(self, figure: Figure) -> Figure {
        match self {
            Self::None => figure,
            Self::AtMost => Figure { least: 0.0, ..figure },
            Self::AtLeast => Figure { most: f64::INFINITY, ..figure },
        }
    }
}

fn bound(text: &str) -> (Bound, &str) {
    let marks = [
        ("<", Bound::AtMost),
        ("≤", Bound::AtMost),
        (">", Bound::AtLeast),
        ("≥", Bound::AtLeast),
        ("~", Bound::None),
        ("≈", Bound::None),
    ];
    match marks.into_iter().find_map(|(mark, bound)| Some((bound, text.strip_prefix(mark)?))) {
        Some((bound, rest)) => (bound, rest.trim_start_matches('=').trim_start()),
        None => (Bound::None, text),
    }
}

fn amount(text: &str) -> Reading {
    let (mut total, mut rest): (Option<Figure>, _) = (None, text);
    while let Some((number, after)) = number(rest) {
        let after = after.trim_start();
        let end = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(end);
        match (unit(word), total, word) {
            (Some(scale), _, _) => {
                total = Some(total.map_or(number.scaled(scale), |sum| sum.with_part(number.scaled(scale))))
            }
            (None, None, "") if ends(after) => return Reading::Bare(number),
            (None, None, "k" | "K") if ends(after) => return Reading::Bare(number.scaled(1e3)),
            (None, None, "M") if ends(after) => return Reading::Bare(number.scaled(1e6)),
            _ => return Reading::Other,
        }
        rest = after.trim_start();
    }
    total.filter(|_| ends(rest)).map_or(Reading::Other, Reading::Time)
}

/// Returns true if a figure ends before the text: with a remark, or with its deviation.
fn ends(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['(', '[', '±'])
        || text.starts_with("+/-")
        || !text.contains(|letter: char| letter.is_alphanumeric() || ['%', '/'].contains(&letter))
}

/// The number that a text begins with, whose thousands may be separated, and the rest.
fn number(text: &str) -> Option<(Figure, &str)> {
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        let group = || {
            let digits = text[at + letter.len_utf8()..].chars().take_while(char::is_ascii_digit).count();
            digits == 3 && at - text[..at].rfind(|before: char| !before.is_ascii_digit()).map_or(0, |at| at + 1) <= 3
        };
        let follows = || text[at + 1..].starts_with(|next: char| next.is_ascii_digit());
        let within = match letter {
            letter if letter.is_ascii_digit() => true,
            '.' => follows(),
            ',' | '_' | '\'' if at > 0 => follows(),
            ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' if at > 0 => group(),
            _ => false,
        };
        if !within {
            break;
        }
        end = at + letter.len_utf8();
    }
    let (digits, mut rest) = text.split_at(end);
    let point = decimal_point(digits);
    let mut plain: String = digits
        .char_indices()
        .filter(|(at, letter)| letter.is_ascii_digit() || Some(*at) == point)
        .map(|(_, letter)| letter)
        .collect();
    plain = plain.replace(',', ".");
    let decimals = point.map_or(0, |at| digits.len() - at - 1);
    let mut scale = 1.0;
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let length = exponent
            .find(|letter: char| !letter.is_ascii_digit() && !['+', '-'].contains(&letter))
            .unwrap_or(exponent.len());
        if let Ok(power) = exponent[..length].parse::<i32>() {
            (scale, rest) = (10f64.powi(power), &exponent[length..]);
        }
    }
    let resolution = 0.1f64.powi(i32::try_from(decimals).ok()?);
    Some((Figure::new(plain.parse().ok()?, resolution).scaled(scale), rest))
}

/// Where the decimal point stands: the last separator, unless it separates thousands.
fn decimal_point(digits: &str) -> Option<usize> {
    let last = digits.rfind(['.', ','])?;
    let mark = &digits[last..=last];
    let thousands = digits.len() - last == 4 && last <= 3 && !digits.starts_with('0');
    let repeated = digits.matches(mark).count() > 1;
    let alone = !digits[..last].contains(['.', ',']);
    let separates_thousands = repeated || (mark == "," && alone && thousands);
    (!separates_thousands).then_some(last)
}
