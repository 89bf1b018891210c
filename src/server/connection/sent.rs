//! The bytes of answers among all bytes that a connection sends.
//!
//! Over HTTP/1 all of them are. Over HTTP/2 those of DATA frames are, and the others are not: a client may cause as many of them as it likes
//! without taking an answer (the acknowledgement of a PING has 17 bytes). The frames are told by their headers (RFC 9113, section 4.1).

/// What was sent last.
#[derive(Default)]
pub(super) enum Sent {
    /// Nothing yet.
    #[default]
    Nothing,
    Http1,
    /// A part of a frame's header, and how much of it; 0 to 8 bytes.
    Header([u8; HEADER_BYTES], usize),
    /// All but this many bytes of the payload of a frame; whether it is of an answer.
    Payload(usize, bool),
}

const HEADER_BYTES: usize = 9;

/// The type of a frame with a part of an answer's body.
const DATA: u8 = 0;

impl Sent {
    /// Returns how many of the next bytes are of answers.
    pub(super) fn answered(&mut self, mut bytes: &[u8]) -> u64 {
        let mut answered = 0;
        while let Some(first) = bytes.first() {
            match self {
                // `H` of `HTTP/1.1`; the first frame of HTTP/2 is one of settings, whose length begins with zero.
                Self::Nothing if *first == b'H' => *self = Self::Http1,
                Self::Nothing => *self = Self::Header([0; HEADER_BYTES], 0),
                Self::Http1 => return bytes.len() as u64,
                Self::Header(header, filled) => {
                    let more = bytes.len().min(HEADER_BYTES - *filled);
                    header[*filled..*filled + more].copy_from_slice(&bytes[..more]);
                    (*filled, bytes) = (*filled + more, &bytes[more..]);
                    if *filled == HEADER_BYTES {
                        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                        *self = Self::Payload(length, header[3] == DATA);
                    }
                }
                Self::Payload(left, is_answer) => {
                    let more = bytes.len().min(*left);
                    answered += if *is_answer { more as u64 } else { 0 };
                    (*left, bytes) = (*left - more, &bytes[more..]);
                }
            }
            if let Self::Payload(0, _) = self {
                *self = Self::Header([0; HEADER_BYTES], 0);
            }
        }
        answered
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
        let long = frame(DATA, &[b'x'; 70_000]);
        let all = [settings, ping.clone(), headers, frame(DATA, b"abc"), frame(DATA, b""), ping, long].concat();
        for piece in [1, 2, 8, 9, 10, 17, 1000, all.len()] {
            let mut sent = Sent::default();
            let answered: u64 = all.chunks(piece).map(|piece| sent.answered(piece)).sum();
            assert_eq!(answered, 70_003, "in pieces of {piece}");
        }
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
