"""The disturbance of the machine while we measure: none, a steady foreign load, or a neighbour that writes to the disk.

Why on purpose: error rates of a quiet machine say little about the one a person has. Whatever disturbs is bounded in
time and in size, and ends with us however we end: it looks at its parent many times a second, and its file has no name,
so that the kernel takes the file back even from a process that was killed.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from run_benches import processes
from run_benches.measure import broker
from run_benches.places import ROOT

LOADS = {"quiet": 0.0, "load 30 %": 0.3, "load 60 %": 0.6}
"""The share of each core that others take."""

DISK = "disk"
CONDITIONS = (*LOADS, DISK)

HOG_BYTES = 256 << 20
"""The hog writes over its file again and again; it never grows beyond this."""

HOG_BYTES_A_SECOND = 32 << 20
CHUNK = 1 << 20


@contextmanager
def disturbed(condition: str, folder: Path, limit_s: float) -> Iterator[None]:
    """One of `CONDITIONS` holds meanwhile, and at most for `limit_s`; `folder` is where the disk is kept busy."""
    if condition in LOADS:
        with broker.foreign_load(LOADS[condition], os.sched_getaffinity(0), limit_s):
            yield
        return
    with processes.started([sys.executable, "-m", __name__, str(folder), str(limit_s), str(os.getpid())], cwd=ROOT):
        yield


def hog(folder: Path, limit_s: float, parent: int, most_bytes: int = HOG_BYTES) -> int:
    """Writes and syncs a nameless file until the time is over or the parent has ended; returns the largest size it had."""
    block, size, end = os.urandom(CHUNK), 0, time.monotonic() + limit_s
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        while time.monotonic() < end and os.getppid() == parent:
            began = time.monotonic()
            if file.tell() + CHUNK > most_bytes:
                file.seek(0)
            file.write(block)
            os.fdatasync(file.fileno())
            size = max(size, file.tell())
            time.sleep(max(0.0, CHUNK / HOG_BYTES_A_SECOND - (time.monotonic() - began)))
    return size


if __name__ == "__main__":
    hog(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
