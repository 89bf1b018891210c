"""A server for checks: it ends with the block that asked it, and says why if it does not start."""

import os
import signal
from pathlib import Path

import pytest

from run_benches.cli import serving
from run_benches.errors import UserError


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a shell script where the server is built to."""
    binary = folder / "release" / "strata"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nwhile [ "$1" != --ready-file ]; do shift; done\n{script}\n', encoding="utf-8")
    binary.chmod(0o755)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(folder))


@pytest.mark.parametrize("fault", [AssertionError, KeyboardInterrupt])
def test_a_server_ends_with_its_block_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    stand_in(
        tmp_path,
        monkeypatch,
        f'dirname "$2" > {tmp_path}/folder; echo $$ > "$2.new"; mv "$2.new" "$2"; exec sleep 1000',
    )
    with pytest.raises(fault), serving.running("type T @table { id: ID! @primaryKey }") as url:
        assert Path((tmp_path / "folder").read_text().strip(), "schema.graphql").read_text().startswith("type T")
        raise fault
    with pytest.raises(ProcessLookupError):
        os.kill(int(url), signal.SIG_DFL)
    assert not Path((tmp_path / "folder").read_text().strip()).exists()


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo first >&2; echo no room >&2; exit 2")
    with pytest.raises(UserError, match="no room"), serving.running(""):
        pass
