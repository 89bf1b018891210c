"""Folders that a command leaves nothing of.

Why one for the whole command, beside those of its parts: a program that is killed (a bench that hangs, a compiler, the
linker's, a browser) cannot remove what it has made, so all that a command starts has its temporary files in one folder,
which goes with the command. Its name says whose it is, as those of the harness do (benches/harness/src/folders.rs), so
that whoever comes later removes it if even that one was killed.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from run_benches.errors import UserError
from run_benches.interrupts import held
from run_benches.places import BENCH_CACHE

PREFIX = "strata-bench"

VARIABLES = ("TMPDIR", "STRATA_BENCH_DIR")
"""The variables that say where temporary files lie, and stores of benches where that is elsewhere."""

_found: dict[str, Path] = {}
"""The folders of the variables, as the command found them."""


def outside(variable: str = "TMPDIR") -> Path:
    """The folder of such a variable as the command found it: for what is told to a person."""
    return _found.get(variable) or Path(os.environ.get(variable) or _found.get("TMPDIR") or tempfile.gettempdir())


def for_sockets() -> Path:
    """Where sockets lie: their paths have at most 107 bytes (unix(7)), so not in a folder whose path is long."""
    usual = outside()
    return usual if len(os.fsencode(usual)) <= 60 else Path("/tmp")


@contextmanager
def of_the_command() -> Iterator[None]:
    """Has all that is started meanwhile keep its temporary files, and its stores, in folders that are removed at the
    end. They lie in those that they take the place of. Where one cannot be made, whoever needs it will say so."""
    try:
        usual = tempfile.gettempdir()
    except OSError as error:
        raise UserError(
            "no folder for temporary files can be written (TMPDIR, /tmp): make room, or set TMPDIR to another one"
        ) from error
    wanted = {
        name: Path(usual if name == "TMPDIR" else os.environ[name]).absolute()
        for name in VARIABLES
        if name == "TMPDIR" or os.environ.get(name)
    }
    # As long for every process: the length of the environment moves the stack of a bench.
    name = f"{PREFIX}-{_namespace():010}-{os.getpid():07}-{_started(os.getpid()) or 0:010}"
    before = {variable: os.environ.get(variable) for variable in VARIABLES}
    places = {*wanted.values(), BENCH_CACHE, Path("/dev/shm")}
    sweep(places)
    try:
        for variable, folder in wanted.items():
            with suppress(OSError), held():
                (folder / name).mkdir(mode=0o700, exist_ok=folder in _found.values())
                # PostgreSQL refuses to run as root: it has a folder of its own in this one, and another user.
                (folder / name).chmod(0o711)
                _found[variable] = folder
                os.environ[variable] = str(folder / name)
        tempfile.tempdir = None
        yield
    finally:
        with held():
            for variable, folder in _found.items():
                shutil.rmtree(folder / name, ignore_errors=True)
                if (earlier := before[variable]) is None:
                    del os.environ[variable]
                else:
                    os.environ[variable] = earlier
            _found.clear()
            tempfile.tempdir = None
            sweep(places)


@contextmanager
def folder(within: Path, prefix: str = "tmp") -> Iterator[Path]:
    """A folder that is there meanwhile, however the block is left."""
    made: list[Path] = []
    try:
        with held():
            made.append(Path(tempfile.mkdtemp(dir=within, prefix=prefix)))
        yield made[0]
    finally:
        remove(*made)


def remove(*folders: Path) -> None:
    """Removes folders with all that is in them, as far as they are there, and to the end: stores are large."""
    with held():
        for one in folders:
            shutil.rmtree(one, ignore_errors=True)


def sweep(places: set[Path]) -> None:
    """Removes the folders of processes, ours and those of benches, that no longer live. What cannot be removed now is
    left for the next."""
    for place in places:
        with suppress(OSError):
            for entry in os.scandir(place):
                owner = re.match(rf"{PREFIX}-0*{_namespace()}-(\d+)-(\d+)(?:-|$)", entry.name)
                if owner and _started(int(owner[1])) != int(owner[2]):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _namespace() -> int:
    """The number of our PID namespace, in which process ids are valid (namespaces(7)); 0 where it is not known."""
    try:
        return int(os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]"))
    except (OSError, ValueError):
        return 0


def _started(pid: int) -> int | None:
    """When a process started, in ticks since the boot (proc(5), field 22 of `stat`); nothing where it does not live."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return None
