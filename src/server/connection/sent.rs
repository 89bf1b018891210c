//! The bytes of responses among all bytes that a connection sends.
//!
//! Over HTTP/1 all of them are. Over HTTP/2 those of DATA frames are, and the others are not: a client may cause as many of them as it likes
//! without taking a response (the acknowledgement of a PING has 17 bytes).

use std::io::IoSlice;

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
    /// Returns how many of the next bytes, the first ones of these pieces, are of responses.
    pub(super) fn response_bytes(&mut self, mut bytes: usize, pieces: &[IoSlice<'_>]) -> u64 {
        if let Self::Http1 = self {
            return bytes as u64;
        }
        let sent = pieces.iter().map(|piece| {
            let (sent, _) = piece.split_at(piece.len().min(bytes));
            bytes -= sent.len();
            sent
        });
        sent.map(|sent| self.response_bytes_in(sent)).sum()
    }

    fn response_bytes_in(&mut self, bytes: &[u8]) -> u64 {
        match self {
            Self::Http1 => bytes.len() as u64,
            Self::Http2(frames) => {
                frames.parts(bytes).filter(|part| part.kind == DATA).map(|part| part.bytes as u64).sum()
            }
            Self::Nothing => {
                // `H` of `HTTP/1.1`; the first frame of HTTP/2 is one of settings, whose length begins with zero.
                let Some(first) = bytes.first() else { return 0 };
                *self = if *first == b'H' { Self::Http1 } else { Self::Http2(Frames::default()) };
                self.response_bytes_in(bytes)
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

    /// Returns the bytes of responses in these pieces, of which so many bytes are sent.
    fn response_bytes(sent: &mut Sent, bytes: usize, pieces: &[&[u8]]) -> u64 {
        let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        sent.response_bytes(bytes, &pieces)
    }

    #[test]
    fn only_data_frames_are_responses() {
        let (settings, ping, headers) = (frame(4, &[0; 6]), frame(6, &[7; 8]), frame(1, &[9; 40]));
        let mut sent = Sent::default();
        let all = [settings, ping.clone(), headers, frame(DATA, b"abc"), frame(DATA, b""), ping].concat();
        let (first, second) = all.split_at(all.len() / 2);
        assert_eq!((response_bytes(&mut sent, 0, &[]), response_bytes(&mut sent, all.len(), &[first, second])), (0, 3));
        assert_eq!(response_bytes(&mut sent, 9 + 2, &[&frame(DATA, b"abc"), b"not sent"]), 2);
    }

    #[test]
    fn over_http1_everything_is() {
        let mut sent = Sent::default();
        assert_eq!(response_bytes(&mut sent, 0, &[b""]), 0);
        assert_eq!(response_bytes(&mut sent, 1, &[b"HTTP"]), 1);
        assert_eq!(response_bytes(&mut sent, 18, &[b"TTP/1.1 200 OK\r\n\r\n", b"not sent"]), 18);
        assert_eq!(response_bytes(&mut sent, 9, &[&[0, 0, 4, 6, 0, 0, 0, 0, 0]]), 9);
    }
}
