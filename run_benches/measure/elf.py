"""The part of a binary that runs: what of two executables must be equal for them to be the same program.

Why not the whole file: a comment moves the line tables, and another name of a type the debug information, and neither of them is ever
loaded. What the kernel and the loader bring into memory decides; if that is equal byte by byte, measuring has nothing to find.
"""

import hashlib
import struct
from pathlib import Path

from run_benches.errors import Complaint

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_64_BIT_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_NOBITS = 8
_ALLOC = 2
_BUILD_ID = b".note.gnu.build-id"


def fingerprint(path: Path) -> str:
    """A hash of name, flags and content of every section that is loaded; the build id is left out, since it hashes the rest too."""
    content = path.read_bytes()
    if not content.startswith(_64_BIT_LITTLE_ENDIAN) or len(content) < _HEADER.size:
        raise Complaint(f"{path} is no 64-bit little-endian ELF file: comparisons need Linux on x86-64 or aarch64")
    header = _HEADER.unpack_from(content)
    first, size, count, names = header[6], header[11], header[12], header[13]
    sections = [_SECTION.unpack_from(content, first + number * size) for number in range(count)]
    names_at = sections[names][4]
    digest = hashlib.sha256()
    for name_at, kind, flags, _, offset, length, *_ in sections:
        name = content[names_at + name_at : content.index(b"\0", names_at + name_at)]
        if flags & _ALLOC and name != _BUILD_ID:
            digest.update(b"%s\0%d %d %d\0" % (name, kind, flags, length))
            digest.update(b"" if kind == _NOBITS else content[offset : offset + length])
    return digest.hexdigest()
