"""The histograms that the load tool leaves as `.hlog`, read into points of percentile curves.

Why read here and kept as points: a curve over the nines needs more quantiles than a table has, and a stored run should
draw the same picture where its folder is gone. The format is HdrHistogram's interval log with V2 compressed histograms
(github.com/HdrHistogram/HdrHistogram, EncodableHistogram and ZigZagLEB128): integers from the front to the back
big-endian, counts as ZigZag LEB128, a negative one a run of zeros.
"""

import base64
import binascii
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from run_benches.errors import UserError
from run_benches.places import shown
from run_benches.store.loads import Quantile

COMPRESSED, PLAIN = 0x1C849304, 0x1C849303
"""The first words of the two layers, without the bits that say how wide a count is."""

STEPS_A_NINE = 12
"""Points of a curve from one nine to the next."""

FEWEST_BEYOND = 10
"""A quantile is told only where so many values lie beyond it."""

Bucket = tuple[int, int]
"""The largest value that falls into it, and how many did."""


def curves(path: Path, beyond: dict[str, int]) -> dict[str, list[Quantile]]:
    """The curve of each tag of a log, in nanoseconds; `beyond` says by tag how many are later than any that was
    measured."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        found = dict(_histogram(line) for line in lines if line.startswith("Tag="))
    except (OSError, UnicodeDecodeError, ValueError, binascii.Error, zlib.error, struct.error, IndexError) as error:
        raise UserError(f"{shown(path)} is no log of histograms: {error}") from error
    return {tag: points(buckets, beyond.get(tag, 0)) for tag, buckets in found.items() if buckets}


def points(buckets: list[Bucket], beyond: int) -> list[Quantile]:
    """Quantiles in equal steps of nines, as far as enough values lie beyond them; no value where that is beyond all
    that was measured."""
    count = sum(number for _, number in buckets) + beyond
    most = math.log10(count / FEWEST_BEYOND) if count > FEWEST_BEYOND else 0.0
    found: list[Quantile] = []
    at, below = 0, buckets[0][1]
    for step in range(math.floor(most * STEPS_A_NINE) + 1):
        quantile = 1 - 10 ** (-step / STEPS_A_NINE)
        rank = max(1, math.ceil(quantile * count - 1e-9))
        while below < rank and at + 1 < len(buckets):
            at += 1
            below += buckets[at][1]
        found.append(Quantile(round(quantile, 9), float(buckets[at][0]) if below >= rank else None))
    return found


def _histogram(line: str) -> tuple[str, list[Bucket]]:
    tag, *_, encoded = line.removeprefix("Tag=").split(",")
    raw = base64.b64decode(encoded, validate=True)
    cookie, length = struct.unpack_from(">II", raw)
    if cookie & ~0xF0 != COMPRESSED:
        raise ValueError(f"{tag}: not a compressed histogram of the second version")
    plain = zlib.decompress(raw[8 : 8 + length])
    cookie, size, _, digits, lowest, _, _ = struct.unpack_from(">IIIIQQd", plain)
    if cookie & ~0xF0 != PLAIN:
        raise ValueError(f"{tag}: not a histogram of the second version")
    return tag, list(_buckets(plain[40 : 40 + size], digits, lowest))


def _buckets(counts: bytes, digits: int, lowest: int) -> Iterator[Bucket]:
    """Yields the buckets of a histogram that are not empty. Values that share a bucket agree in `digits` digits: a
    bucket of buckets has half of `width` places, the first one all of them, and each is twice as coarse as the one
    before."""
    unit = int(math.log2(max(1, lowest)))
    half = math.ceil(math.log2(2 * 10**digits)) - 1
    index = 0
    for number in _numbers(counts):
        if number < 0:
            index -= number
            continue
        coarse = max(0, (index >> half) - 1)
        place = index - (coarse << half)
        if number:
            yield ((place + 1) << coarse + unit) - 1, number
        index += 1


def _numbers(raw: bytes) -> Iterator[int]:
    """ZigZag LEB128: seven bits a byte from the low ones up, all eight of the ninth."""
    at = 0
    while at < len(raw):
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            last = shift == 56 or byte < 0x80
            value |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
            if last:
                break
        yield (value >> 1) ^ -(value & 1)
