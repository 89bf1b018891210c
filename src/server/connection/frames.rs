//! The frames of HTTP/2 in the bytes of a connection, told by their headers (RFC 9113, section 4.1).

/// The type of a frame with a part of a body.
pub(super) const DATA: u8 = 0;

/// The type of the first frame of a head, or of trailers.
pub(super) const HEADERS: u8 = 1;

/// The type of each further one.
pub(super) const CONTINUATION: u8 = 9;

/// The flag of the last one.
pub(super) const END_HEADERS: u8 = 4;

const HEADER_BYTES: usize = 9;

/// Where in the frames a stream of bytes has arrived.
#[derive(Default)]
pub(super) struct Frames {
    /// The header of the current frame.
    header: [u8; HEADER_BYTES],
    /// How much of it is known.
    known: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

/// A part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Bytes of the payload.
    pub(super) bytes: usize,
    /// Whether the payload ends with it.
    pub(super) is_last: bool,
}

impl Frames {
    /// Splits the next bytes by frames. A frame whose header alone has come has no part yet, unless it is empty.
    pub(super) fn parts<'f>(&'f mut self, mut bytes: &'f [u8]) -> impl Iterator<Item = Part> + 'f {
        std::iter::from_fn(move || {
            if self.known < HEADER_BYTES {
                let more = bytes.len().min(HEADER_BYTES - self.known);
                self.header[self.known..self.known + more].copy_from_slice(&bytes[..more]);
                (self.known, bytes) = (self.known + more, &bytes[more..]);
                if self.known < HEADER_BYTES {
                    return None;
                }
                let [high, middle, low, ..] = self.header;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
            }
            let more = bytes.len().min(self.left);
            if more == 0 && self.left > 0 {
                return None;
            }
            (self.left, bytes) = (self.left - more, &bytes[more..]);
            let is_last = self.left == 0;
            if is_last {
                self.known = 0;
            }
            Some(Part { kind: self.header[3], flags: self.header[4], bytes: more, is_last })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_however_they_are_cut() {
        let frame = |kind: u8, payload: &[u8]| {
            let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
            [&length[1..], &[kind, END_HEADERS, 0, 0, 0, 1], payload].concat()
        };
        let all = [frame(HEADERS, b"head"), frame(DATA, b""), frame(DATA, &[7; 70_000]), frame(6, &[0; 8])].concat();
        for cut in [1, 2, 8, 9, 10, 17, 1000, all.len()] {
            let (mut frames, mut seen) = (Frames::default(), Vec::<(u8, usize)>::new());
            let mut is_new = true;
            for piece in all.chunks(cut) {
                for part in frames.parts(piece) {
                    match seen.last_mut().filter(|_| !is_new) {
                        Some((_, bytes)) => *bytes += part.bytes,
                        None => seen.push((part.kind, part.bytes)),
                    }
                    is_new = part.is_last;
                    assert_eq!(part.flags, END_HEADERS);
                }
            }
            assert_eq!(seen, [(HEADERS, 4), (DATA, 0), (DATA, 70_000), (6, 8)], "in pieces of {cut}");
        }
    }
}
