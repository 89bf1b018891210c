"""Every process that the runner starts, from its start to its end, or to a timeout.

Why one place: a command that is stopped leaves no process behind, whatever it was doing. So each process runs in a
session of its own: Ctrl-C, or a terminal that is gone, reaches the runner alone, which then ends it with everything
that it started, in that session or in others. It is asked first, since many tidy up behind themselves (git its locks,
compilers their half files). Nothing reads what is typed.

A bench that hangs must cost its own row, not the run: it is given a deadline, and a shorter time during which it may
stay silent.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from run_benches.interrupts import held, raise_if_requested

POLL_S = 0.1
LONGEST_QUOTE = 300

SYSTEM = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|Input/output error|File too large|Too many open files|Cannot allocate memory"
    r"|Permission denied|signal:? 7\b"
)
"""The reasons of the system, which come before what a program says of them later. A linker writes its output by mapping
it into memory, and ends by signal 7 (SIGBUS) where the disk is full."""

_REFUSED = "strata-harness: refused: "
"""The beginning of what a bench says last if its engine refused an operation (benches/harness/src/refusal.rs)."""

REFUSED = "the engine refused: "
"""The words before the reason of that, where it is told."""


@dataclass(frozen=True)
class Ending:
    """The signal that asks a process to end, and the time that it may take then, before it is killed."""

    ask: signal.Signals
    patience_s: float


USUAL = Ending(signal.SIGTERM, 10.0)

STORING = Ending(signal.SIGINT, 30.0)
"""Of a program that finishes what is in flight, and stores it: the load tool, the server."""

AT_ONCE = Ending(signal.SIGKILL, 10.0)
"""Of what a test ends as a power switch would."""

KILLED_S = 10.0
"""The time that the kernel may take to end what was killed; what waits for a device cannot be waited for."""

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
Process = subprocess.Popen[bytes]
Captured = subprocess.CompletedProcess[str]

_under_way: set[Process] = set()
"""Those that were started and not ended yet."""


def start(command: Sequence[str | Path], **how: Any) -> Process:
    """Starts a process in a session of its own, which somebody has to `end`; `how` is as `subprocess.Popen` takes it."""
    with held():
        process: Process = subprocess.Popen(command, **{"stdin": DEVNULL, "start_new_session": True} | how)  # type: ignore[assignment]  # never as text
        _under_way.add(process)
    return process


@contextmanager
def started(command: Sequence[str | Path], ending: Ending = USUAL, **how: Any) -> Iterator[Process]:
    """A process that runs meanwhile; however the block is left, it is ended then."""
    process = start(command, **how)
    try:
        yield process
    finally:
        end(process, ending)


def call(command: Sequence[str | Path], limit_s: float | None = None, ending: Ending = USUAL, **how: Any) -> int:
    """Runs a program to its end; returns its exit code. TimeoutError if it takes longer than `limit_s`."""
    with started(command, ending, **how) as process:
        began = time.monotonic()
        while (code := code_within(process, POLL_S)) is None:
            _go_on(command, began, limit_s)
        return code


def captured(
    command: Sequence[str | Path],
    said: str = "",
    limit_s: float | None = None,
    ending: Ending = USUAL,
    no_text: str = "replace",
    **how: Any,
) -> Captured:
    """Runs a program to its end, with `said` as its input; returns what it printed, and its exit code. `no_text` is
    what becomes of bytes that are no text, as `bytes.decode` takes it."""
    with open(os.memfd_create("input"), "wb+", buffering=0) as input:
        input.write(said.encode(errors="surrogateescape"))
        input.seek(0)
        with started(command, ending, **{"stdin": input, "stdout": PIPE, "stderr": PIPE} | how) as process:
            began = time.monotonic()
            while True:
                with suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=POLL_S)
                    return Captured(
                        command,
                        process.returncode,
                        output.decode(errors=no_text),
                        (errors or b"").decode(errors=no_text),
                    )
                _go_on(command, began, limit_s)


def _go_on(command: Sequence[str | Path], began: float, limit_s: float | None) -> None:
    raise_if_requested()
    if limit_s is not None and time.monotonic() - began > limit_s:
        raise TimeoutError(f"{Path(command[0]).name} did not end within {limit_s:g} s")


def code_within(process: Process, seconds: float) -> int | None:
    """The exit code of a process, if it ends within this time; as in `subprocess`, a signal's is its number, negated."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def run(
    command: list[str],
    environment: dict[str, str],
    log: Path,
    deadline_s: float,
    silence_s: float,
    tick: Callable[[], None],
    cores: set[int] | None = None,
) -> str | None:
    """Runs `command`, on `cores` if they are given, with its output in `log`; returns why it failed, or nothing. `tick`
    is called while it runs."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output, started(command, env=environment, stdout=output, stderr=output) as process:
        with suppress(ProcessLookupError):  # one that has ended already says why in its exit code
            if cores:
                os.sched_setaffinity(process.pid, cores)
        began = heard = time.monotonic()
        said = 0
        while (code := code_within(process, POLL_S)) is None:
            raise_if_requested()
            tick()
            now, size = time.monotonic(), log.stat().st_size
            if size != said:
                said, heard = size, now
            if now - heard > silence_s:
                return f"silent for {silence_s:.0f} s, killed"
            if now - began > deadline_s:
                return f"not done after {deadline_s:.0f} s, killed"
    if code == 0:
        return None
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"{how}: {last_lines(log)}"


def last_lines(log: Path) -> str:
    """Returns what a process said last."""
    return essence(log.read_text(encoding="utf-8", errors="replace").splitlines())


def essence(lines: list[str]) -> str:
    """Returns what counts of the last lines of a process: that its engine refused an operation, else the first reason
    of the system, else the message of a panic where there is one, else the last line."""
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


def end(process: Process, ending: Ending = USUAL) -> None:
    """Ends a process, and what it started: also when it has ended itself, that may still run. Who does not end when it
    is asked is killed."""
    with held():
        known: set[_Id] = set()
        if process.poll() is None:
            known = _family({process.pid}, _running())
            _signal(os.killpg, process.pid, ending.ask)
            code_within(process, ending.patience_s)
        deadline = time.monotonic() + KILLED_S
        # A process that has ended by itself, and its group with it, is not looked for any further: there are hundreds
        # of these in a run.
        while (known or _signal(os.killpg, process.pid, 0)) and time.monotonic() < deadline:
            running = _running()
            left = _family({process.pid} | {one.pid for one in known & set(running)}, running)
            if not left:
                break
            for one in left:
                _signal(os.kill, one.pid, signal.SIGKILL)
            time.sleep(0.01)
        code_within(process, KILLED_S)
        _under_way.discard(process)


def end_all() -> None:
    """Ends what is still under way."""
    for process in list(_under_way):
        end(process)


class _Id(NamedTuple):
    """A process; ids are used again, so when it was started, in ticks since the boot, belongs to it."""

    pid: int
    began: int


class _Place(NamedTuple):
    """Where a process belongs."""

    parent: int
    session: int


def _running() -> dict[_Id, _Place]:
    """Every process that runs, as /proc/PID/stat says (proc(5): fields 4, 6 and 22)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                found[_Id(int(folder.name), int(fields[19]))] = _Place(int(fields[1]), int(fields[3]))
    return found


def _family(pids: set[int], running: dict[_Id, _Place]) -> set[_Id]:
    """These processes, those of sessions that they lead, and all that any of them started."""
    found: set[_Id] = set()
    while more := {one for one, place in running.items() if {one.pid, place.parent, place.session} & pids} - found:
        found |= more
        pids = pids | {one.pid for one in more}
    return found


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Sends a signal, and returns whether there was somebody to send it to."""
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
