//! The bytes of answers among all bytes that a connection sends.
//!
//! Over HTTP/1 all of them are. Over HTTP/2 those of DATA frames are, and the others are not: a client may cause as many of them as it likes
//! without taking an answer (the acknowledgement of a PING has 17 bytes).

use super::frames::{DATA, Frames};

/// What was sent last.
#[derive(Default)]
pub(super) enum Sent {
    /// Nothing yet.
    #[default]
    Nothing,
    Http1,
    Http2(Frames),
}

impl Sent {
    /// Returns how many of the next bytes are of answers.
    pub(super) fn answered(&mut self, bytes: &[u8]) -> u64 {
        if let (Self::Nothing, Some(first)) = (&self, bytes.first()) {
            // `H` of `HTTP/1.1`; the first frame of HTTP/2 is one of settings, whose length begins with zero.
            *self = if *first == b'H' { Self::Http1 } else { Self::Http2(Frames::default()) };
        }
        match self {
            Self::Nothing => 0,
            Self::Http1 => bytes.len() as u64,
            Self::Http2(frames) => {
                frames.parts(bytes).filter(|part| part.kind == DATA).map(|part| part.bytes as u64).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn only_data_frames_are_answers() {
        let (settings, ping, headers) = (frame(4, &[0; 6]), frame(6, &[7; 8]), frame(1, &[9; 40]));
        let mut sent = Sent::default();
        let all = [settings, ping.clone(), headers, frame(DATA, b"abc"), frame(DATA, b""), ping].concat();
        assert_eq!((sent.answered(b""), sent.answered(&all)), (0, 3));
    }

    #[test]
    fn over_http1_everything_is() {
        let mut sent = Sent::default();
        assert_eq!(sent.answered(b""), 0);
        assert_eq!(sent.answered(b"H"), 1);
        assert_eq!(sent.answered(b"TTP/1.1 200 OK\r\n\r\n"), 18);
        assert_eq!(sent.answered(&[0, 0, 4, 6, 0, 0, 0, 0, 0]), 9);
    }
}
