//! The terms of a text for full-text search.
//!
//! A term is a run of at least two letters or digits, in lower case, as defined by Unicode. There is neither stop-word removal nor
//! stemming: both depend on the language, which is unknown.

use std::borrow::Cow;

/// Returns the terms of a text in order, including repetitions; borrowed if they are already in lower case.
pub fn terms(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    terms_with_offsets(text).map(|(_, term)| term)
}

/// Returns the terms of a text, each with its byte offset.
pub fn terms_with_offsets(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let runs = text.split(|character: char| !character.is_alphanumeric());
    runs.filter(|run| run.chars().nth(1).is_some()).map(|run| {
        let offset = run.as_ptr().addr() - text.as_ptr().addr();
        match run.chars().any(char::is_uppercase) {
            true => (offset, Cow::Owned(run.to_lowercase())),
            false => (offset, Cow::Borrowed(run)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_letters_and_digits_in_lower_case() {
        let of = |text| terms(text).collect::<Vec<_>>();
        assert_eq!(of("Solid oak; hand-made"), ["solid", "oak", "hand", "made"]);
        assert_eq!(of("a 4K TV, ÄPFEL & 日本語 x"), ["4k", "tv", "äpfel", "日本語"]);
        assert_eq!(of("kit kit"), ["kit", "kit"]);
        assert!(of(" - a . b").is_empty());
    }
}
