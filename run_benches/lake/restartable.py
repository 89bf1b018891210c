"""A process over a folder, which may be killed and started again, with its data."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from run_benches import processes
from run_benches.errors import UserError

START_S = 60
"""Longer than one takes to be ready."""


class Restartable:
    """A process with its folder, where `log` has what it says."""

    folder: Path
    process: processes.Process | None = None

    def launch(
        self,
        name: str,
        command: list[str],
        is_ready: Callable[[], bool],
        every_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts it, and asks again and again until it is ready."""
        with (self.folder / "log").open("ab") as log:
            self.process = processes.start(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + START_S
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"{name} does not start: {processes.last_lines(self.folder / 'log')}")
            time.sleep(every_s)

    def kill(self) -> None:
        """Ends it as a power switch would, or `kill -9`."""
        if self.process:
            processes.end(self.process, processes.AT_ONCE)
            self.process = None
