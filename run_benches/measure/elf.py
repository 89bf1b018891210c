"""The part of a binary that runs: what of two executables must be equal for them to be the same program.

Why not the whole file: a comment moves the line tables, and another name of a type the debug information, and neither
of them is ever loaded. What the kernel and the loader bring into memory decides; if that is equal byte by byte,
measuring has nothing to find.
"""

import hashlib
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from run_benches.errors import UserError

_BUILD_ID = ".note.gnu.build-id"


def loaded(path: Path) -> str:
    """A hash of name, flags and content of every section that is loaded; the build id is left out, since it hashes the
    rest too."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        try:
            loaded = [
                section
                for section in ELFFile(file).iter_sections()
                if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section.name != _BUILD_ID
            ]
            for section in loaded:
                digest.update(
                    f"{section.name}\0{section['sh_type']} {section['sh_flags']} {section['sh_size']}\0".encode()
                )
                digest.update(b"" if section["sh_type"] == "SHT_NOBITS" else section.data())
        except ELFError as error:
            raise UserError(f"{path} is no ELF file ({error}): comparisons need Linux") from error
    if not loaded:
        raise UserError(f"{path} is no program: none of its sections is loaded")
    return digest.hexdigest()
