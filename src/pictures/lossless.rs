//! The bytes that the Huffman codes of a lossless WebP take: a group of them takes its decoder up to 120 KB, a file of some hundred KB may
//! announce 65 536, and only the image that assigns them to blocks says so. So the stream is read up to there, as the specification of WebP
//! Lossless has it.

use super::Fault;

/// The symbols of the five codes of a group, without those of a cache of colours.
const ALPHABETS: [usize; 5] = [256 + 24, 256, 256, 256, 40];

/// Bytes of the table that the decoder makes of a code.
const TABLE_BYTES: usize = 4 << 10;

/// Bytes of a symbol whose code is longer than that table, with the room that the decoder keeps for the way to it.
const SYMBOL_BYTES: usize = 32;

/// Bytes of a group beside its codes, in a list that grows.
const ENTRY_BYTES: usize = 1 << 10;

/// The longest code, in bits.
const LONGEST_CODE: usize = 15;

/// The colours of the largest cache.
const MOST_CACHED: usize = 1 << 11;

/// The order in which lengths of the codes of lengths are stored.
const ORDER: [usize; 19] = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Bits, the lowest of each byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<usize> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Some(bit.into())
    }

    fn number(&mut self, bits: usize) -> Option<usize> {
        (0..bits).try_fold(0, |number, place| Some(number | self.bit()? << place))
    }

    /// A number that a symbol stands for with some bits behind it: lengths and distances.
    fn prefixed(&mut self, symbol: usize) -> Option<usize> {
        if symbol < 4 {
            return Some(symbol + 1);
        }
        let extra = (symbol - 2) >> 1;
        Some(((2 + (symbol & 1)) << extra) + self.number(extra)? + 1)
    }
}

/// A canonical Huffman code: how many symbols each length has, and the symbols in their order.
struct Code {
    numbers: [usize; LONGEST_CODE + 1],
    symbols: Vec<usize>,
}

impl Code {
    fn new(lengths: &[usize]) -> Self {
        let mut numbers = [0; LONGEST_CODE + 1];
        lengths.iter().for_each(|length| numbers[*length] += 1);
        numbers[0] = 0;
        let mut symbols: Vec<_> = (0..lengths.len()).filter(|symbol| lengths[*symbol] > 0).collect();
        symbols.sort_by_key(|symbol| lengths[*symbol]);
        Self { numbers, symbols }
    }

    /// Reads a code of symbols.
    fn read(bits: &mut Bits<'_>, alphabet: usize) -> Option<Self> {
        let mut lengths = vec![0; alphabet];
        if bits.bit()? == 1 {
            let (has_two, is_long) = (bits.bit()? == 1, bits.bit()? == 1);
            // Two are in the order in which they stand there, as the decoder takes them.
            let mut symbols = vec![bits.number(if is_long { 8 } else { 1 })?];
            if has_two {
                symbols.push(bits.number(8)?);
            }
            let mut numbers = [0; LONGEST_CODE + 1];
            numbers[1] = symbols.len();
            return symbols.iter().all(|symbol| *symbol < alphabet).then_some(Self { numbers, symbols });
        }
        let mut of_lengths = [0; 19];
        for place in &ORDER[..bits.number(4)? + 4] {
            of_lengths[*place] = bits.number(3)?;
        }
        let of_lengths = Self::new(&of_lengths);
        let mut left = match bits.bit()? {
            0 => alphabet,
            _ => {
                let width = 2 + 2 * bits.number(3)?;
                2 + bits.number(width)?
            }
        };
        let (mut symbol, mut before) = (0, 8);
        while symbol < alphabet && left > 0 {
            left -= 1;
            let (length, times) = match of_lengths.symbol(bits)? {
                16 => (before, 3 + bits.number(2)?),
                17 => (0, 3 + bits.number(3)?),
                18 => (0, 11 + bits.number(7)?),
                length => (length, 1),
            };
            lengths.get_mut(symbol..symbol + times)?.fill(length);
            symbol += times;
            before = if length > 0 { length } else { before };
        }
        Some(Self::new(&lengths))
    }

    /// Reads a symbol. A code of one symbol has no bits.
    fn symbol(&self, bits: &mut Bits<'_>) -> Option<usize> {
        if let [only] = self.symbols[..] {
            return Some(only);
        }
        let (mut code, mut first, mut before) = (0, 0, 0);
        for number in &self.numbers[1..] {
            code |= bits.bit()?;
            if code < first + number {
                return self.symbols.get((before + code).checked_sub(first)?).copied();
            }
            before += number;
            first = (first + number) << 1;
            code <<= 1;
        }
        None
    }
}

/// Returns the bytes that the codes of a stream take at most, for a picture of a size. The stream is that behind its head.
///
/// # Errors
/// `Damaged` if it ends before they are told, or is none.
pub(super) fn bytes(stream: &[u8], width: usize, height: usize) -> Result<u64, Fault> {
    let read = read(&mut Bits { bytes: stream, at: 0 }, (width, height));
    let (groups, cached) = read.ok_or_else(|| Fault::damaged("its codes are cut, or are none"))?;
    // The images before it have one group each, and caches of their own.
    Ok(groups * of_group(cached) + 4 * of_group(MOST_CACHED))
}

/// The bytes of a group, with a cache of so many colours.
fn of_group(cached: usize) -> u64 {
    let symbols = ALPHABETS.iter().sum::<usize>() + cached;
    (ALPHABETS.len() * TABLE_BYTES + symbols * SYMBOL_BYTES + ENTRY_BYTES) as u64
}

/// Returns the number of groups, and of the colours in a cache.
fn read(bits: &mut Bits<'_>, (mut width, height): (usize, usize)) -> Option<(u64, usize)> {
    let mut seen = [false; 4];
    while bits.bit()? == 1 {
        let transform = bits.number(2)?;
        if std::mem::replace(&mut seen[transform], true) {
            return None;
        }
        match transform {
            0 | 1 => {
                let blocks = bits.number(3)? + 2;
                image(bits, width.div_ceil(1 << blocks), height.div_ceil(1 << blocks))?;
            }
            3 => {
                let colours = bits.number(8)? + 1;
                image(bits, colours, 1)?;
                width = width.div_ceil(match colours {
                    ..=2 => 8,
                    3..=4 => 4,
                    5..=16 => 2,
                    _ => 1,
                });
            }
            _ => {}
        }
    }
    let cached = cache(bits)?;
    if bits.bit()? == 0 {
        return Some((1, cached));
    }
    let blocks = bits.number(3)? + 2;
    Some((image(bits, width.div_ceil(1 << blocks), height.div_ceil(1 << blocks))?, cached))
}

/// Reads how many colours a cache has; 0 if there is none.
fn cache(bits: &mut Bits<'_>) -> Option<usize> {
    let size = if bits.bit()? == 1 { bits.number(4)? } else { return Some(0) };
    (size > 0 && 1 << size <= MOST_CACHED).then_some(1 << size)
}

/// Reads an image that has one group; returns how many groups its pixels name, by red and green. A copy of a pixel, or one of the cache,
/// names none that was not named before.
fn image(bits: &mut Bits<'_>, width: usize, height: usize) -> Option<u64> {
    let cached = cache(bits)?;
    let mut codes = Vec::with_capacity(ALPHABETS.len());
    for (number, alphabet) in ALPHABETS.into_iter().enumerate() {
        codes.push(Code::read(bits, if number == 0 { alphabet + cached } else { alphabet })?);
    }
    let (size, mut came, mut groups) = (width * height, 0, 1);
    while came < size {
        match codes[0].symbol(bits)? {
            green @ 0..256 => {
                let (red, _, _) = (codes[1].symbol(bits)?, codes[2].symbol(bits)?, codes[3].symbol(bits)?);
                groups = groups.max((red << 8 | green) as u64 + 1);
                came += 1;
            }
            length @ 256..280 => {
                came += bits.prefixed(length - 256)?;
                let distance = codes[4].symbol(bits)?;
                bits.prefixed(distance)?;
            }
            _ => came += 1,
        }
    }
    Some(groups)
}
