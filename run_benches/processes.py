"""Running one bench process to its end, or to a timeout.

Why: a bench that hangs must cost its own row, not the run. A process is given a deadline, and a shorter time during which it may stay
silent; past either it is killed with everything it started. It runs in a session of its own, so that Ctrl-C reaches the runner alone,
which then ends it.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

POLL_S = 0.1
LONGEST_QUOTE = 300

SYSTEM = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|Input/output error|File too large|Too many open files|Cannot allocate memory"
    r"|Permission denied|signal:? 7\b"
)
"""The reasons of the system, which come before what a program says of them later. A linker writes its output by mapping it into memory, and
ends by signal 7 (SIGBUS) where the disk is full."""

_REFUSED = "strata-harness: refused: "
"""What a bench says last if its engine refused an operation (benches/harness/src/refusal.rs)."""

REFUSED = "the engine refused: "
"""How the reason of that is told."""

ENDING_S = 30.0
"""How long a process that was interrupted may take to store what it has."""


def run(
    command: list[str],
    environment: dict[str, str],
    log: Path,
    deadline_s: float,
    silence_s: float,
    tick: Callable[[], None],
    cores: set[int] | None = None,
) -> str | None:
    """Runs `command`, on `cores` if they are given, with its output in `log`; returns why it failed, or nothing. `tick` is called while
    it runs."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    with suppress(ProcessLookupError):  # one that has ended already says why in its exit code
        if cores:
            os.sched_setaffinity(process.pid, cores)
    try:
        return _watch(process, log, deadline_s, silence_s, tick)
    finally:
        end(process)


def _watch(process: "subprocess.Popen[bytes]", log: Path, deadline_s: float, silence_s: float, tick: Callable[[], None]) -> str | None:
    began = heard = time.monotonic()
    said = 0
    while True:
        try:
            return _ending(process.wait(POLL_S), log)
        except subprocess.TimeoutExpired:
            pass
        tick()
        now, size = time.monotonic(), log.stat().st_size
        if size != said:
            said, heard = size, now
        if now - heard > silence_s:
            return f"silent for {silence_s:.0f} s, killed"
        if now - began > deadline_s:
            return f"not done after {deadline_s:.0f} s, killed"


def _ending(code: int, log: Path) -> str | None:
    if code == 0:
        return None
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"{how}: {last_words(log)}"


def last_words(log: Path) -> str:
    """What a process said last."""
    return essence(log.read_text(encoding="utf-8", errors="replace").splitlines())


def essence(lines: list[str]) -> str:
    """What counts of the last lines of a process: that its engine refused an operation, else the first reason of the system, else the message
    of a panic where there is one, else the last line."""
    said = [line.strip() for line in lines if line.strip()]
    refused = [line.removeprefix(_REFUSED) for line in said if line.startswith(_REFUSED)]
    if refused:
        return (REFUSED + refused[0])[:LONGEST_QUOTE]
    system = [line for line in said if SYSTEM.search(line)]
    if system:
        full = "no space left, where the linker wrote: " if "signal" in system[0] else ""
        return (full + system[0])[:LONGEST_QUOTE]
    panics = [at for at, line in enumerate(said) if "panicked at" in line]
    if panics:
        return " ".join(said[panics[0] : panics[0] + 2])[:LONGEST_QUOTE]
    return (said or ["it said nothing"])[-1][:LONGEST_QUOTE]


def refusal(failure: str | None) -> str | None:
    """That the engine refused an operation, and why, if a process failed for that."""
    _, refused, reason = (failure or "").partition(REFUSED)
    return refused + reason if refused else None


def interrupt(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Asks a process to end in order, and waits a while for it."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)


def end(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Kills a process that leads a session, and what it started: also when it has ended itself, that may still run."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
