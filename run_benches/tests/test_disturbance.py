"""The disturbance of a calibration stays within its bounds and ends with whoever started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from run_benches.calibrate import disturbance
from run_benches.places import ROOT

PARENT = """
import sys, time
from pathlib import Path
from run_benches.calibrate.disturbance import disturbed
with disturbed(sys.argv[2], Path(sys.argv[1]), 600.0):
    print("up", flush=True)
    time.sleep(600)
"""


def test_the_hog_never_grows_beyond_its_bound(tmp_path: Path) -> None:
    size = disturbance.hog(tmp_path, 0.5, os.getppid(), most_bytes=2 * disturbance.CHUNK)
    assert 0 < size <= 2 * disturbance.CHUNK
    assert not list(tmp_path.iterdir()), "its file has no name"


def test_the_hog_writes_nothing_for_a_parent_that_has_ended(tmp_path: Path) -> None:
    assert disturbance.hog(tmp_path, 60.0, parent=-1) == 0


@pytest.mark.parametrize("condition", [name for name in disturbance.CONDITIONS if name != "quiet"])
def test_a_disturbance_ends_with_its_parent_however_that_ends(tmp_path: Path, condition: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), condition], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout and parent.stdout.readline() == "up\n"
        children = _children(parent.pid)
        assert children
        parent.send_signal(signal.SIGKILL)
    _wait_for_the_end_of(children)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("condition", disturbance.CONDITIONS)
def test_a_disturbance_ends_with_its_block(tmp_path: Path, condition: str) -> None:
    before = _children(os.getpid())
    with disturbance.disturbed(condition, tmp_path, 600.0):
        assert bool(_children(os.getpid()) - before) == (condition != "quiet")
    assert _children(os.getpid()) == before


def _children(parent: int) -> set[int]:
    return {
        int(pid) for task in Path(f"/proc/{parent}/task").iterdir() for pid in (task / "children").read_text().split()
    }


def _wait_for_the_end_of(pids: set[int]) -> None:
    """Fails after a minute, which nothing takes; no test depends on how soon."""
    deadline = time.monotonic() + 60
    while any(
        Path(f"/proc/{pid}").exists() and "(zombie)" not in Path(f"/proc/{pid}/status").read_text() for pid in pids
    ):
        assert time.monotonic() < deadline, "still there after a minute"
        time.sleep(0.02)
