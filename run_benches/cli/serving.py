"""A server over an empty store, for the checks that ask it something.

Why the binary, in a process of its own: what is asked is what people get.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from run_benches import processes
from run_benches.errors import UserError
from run_benches.measure import build as build_of_benches
from run_benches.places import ROOT
from run_benches.setup import toolchain

START_S = 60
"""Longer than a server takes to start over an empty store."""


def build() -> bool:
    """Builds the server; returns whether it could. Beside a test it shares its library with the benches: without one,
    crates would have other features."""
    toolchain.check()
    command = ["cargo", "build", "--release", "--workspace", "--bin", "strata", "--test", "features"]
    return processes.call(command, cwd=ROOT, env=os.environ | build_of_benches.environment(), stdout=sys.stderr) == 0


@contextmanager
def running(schema: str) -> Iterator[str]:
    """Runs the server that was built, over a folder that goes, until the block ends, however it ends; yields its URL."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "schema.graphql").write_text(schema, encoding="utf-8")
        options = [
            "--schema",
            f"{folder}/schema.graphql",
            "--data-dir",
            f"{folder}/data",
            "--ready-file",
            f"{folder}/ready",
        ]
        command = [str(toolchain.target_folder() / "release" / "strata"), "serve", "--listen", "127.0.0.1:0", *options]
        with (folder / "log").open("wb") as log, processes.started(command, processes.STORING, stderr=log) as process:
            yield _url(process, folder)


def _url(process: processes.Process, folder: Path) -> str:
    ready, deadline = folder / "ready", time.monotonic() + START_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise UserError(f"the server does not start: {processes.last_lines(folder / 'log')}")
        time.sleep(0.05)
    return ready.read_text(encoding="utf-8").strip()
