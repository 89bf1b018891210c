"""Fingerprints of real binaries: what is loaded counts, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from run_benches.errors import UserError
from run_benches.measure import elf


def compiled(folder: Path, source: str, *flags: str) -> str:
    (folder / "program.c").write_text(source)
    subprocess.run(["cc", *flags, "-o", "program", "program.c"], cwd=folder, check=True)
    return elf.loaded(folder / "program")


PLAIN = "int room[300]; int main(void) { return 7; }"


def test_debug_information_comments_and_the_build_id_do_not_count(tmp_path: Path) -> None:
    plain = compiled(tmp_path, PLAIN, "-Wl,--build-id")
    binary = (tmp_path / "program").read_bytes()
    for source, flag in ((f"/* a comment */\n\n{PLAIN}", "-g3"), (PLAIN, "-g")):
        assert compiled(tmp_path, source, flag, "-Wl,--build-id") == plain
        assert (tmp_path / "program").read_bytes() != binary


@pytest.mark.parametrize(
    "source",
    [
        PLAIN.replace("7", "8"),
        PLAIN.replace("300", "301"),
        PLAIN.replace("300]", "300] = {1}"),
        f"{PLAIN} int more(void) {{ return 7; }}",
    ],
)
def test_code_and_data_count(tmp_path: Path, source: str) -> None:
    assert compiled(tmp_path, source) != compiled(tmp_path, PLAIN)


def test_every_binary_of_the_system_has_one() -> None:
    assert elf.loaded(Path("/bin/true")) != elf.loaded(Path("/bin/false"))


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01" + b"\xff" * 10]
)
def test_what_is_no_whole_elf_file_is_a_complaint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "program").write_bytes(content)
    with pytest.raises(UserError, match="program is no"):
        elf.loaded(tmp_path / "program")
