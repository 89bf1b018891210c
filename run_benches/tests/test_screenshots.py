"""A picture of a page is of the page as it is now, or that is said, without a browser."""

import struct
import zlib
from pathlib import Path

import pytest

from run_benches import places
from run_benches.analysis.load_findings import LoadFindings
from run_benches.render import screenshots
from run_benches.render.screenshots import Screenshot
from run_benches.tests.made_up import a_load_run


def a_png() -> bytes:
    """A picture of one point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
        + chunk(b"IEND", b"")
    )


def test_a_sealed_picture_is_one_and_every_change_shows(tmp_path: Path) -> None:
    picture, file = Screenshot("x.png", 10, 20, "a page"), tmp_path / "x.png"
    assert picture.fault(tmp_path) == "is missing or cannot be read"
    file.write_bytes(a_png())
    assert picture.fault(tmp_path) == "is of another page, or was edited"
    sealed = picture.sealed(a_png())
    file.write_bytes(sealed)
    assert picture.fault(tmp_path) is None
    place, chunks = 8, []
    while place < len(sealed):
        (length,) = struct.unpack(">I", sealed[place : place + 4])
        kind, data, (sum,) = (
            sealed[place + 4 : place + 8],
            sealed[place + 8 : place + 8 + length],
            struct.unpack(">I", sealed[place + 8 + length : place + 12 + length]),
        )
        assert zlib.crc32(kind + data) == sum
        chunks.append(kind)
        place += 12 + length
    assert chunks == [b"IHDR", b"IDAT", b"tEXt", b"IEND"], "a picture for every reader"
    for other in (Screenshot("x.png", 10, 20, "another page"), Screenshot("x.png", 11, 20, "a page")):
        assert other.fault(tmp_path) == "is of another page, or was edited"
    for at in range(8, len(sealed)):
        file.write_bytes(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
        assert picture.fault(tmp_path) is not None, at


def test_the_page_of_another_run_and_another_console_are_other_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = a_load_run()
    page = screenshots.of_load_page(LoadFindings.of(run))
    run.started = "2031-01-01T00:00:00Z"
    assert page != screenshots.of_load_page(LoadFindings.of(run))
    before = screenshots.console()
    (tmp_path / "src/console").mkdir(parents=True)
    monkeypatch.setattr(places, "ROOT", tmp_path)
    (tmp_path / "src/console/console.js").write_text("show();")
    assert screenshots.console() != before
