"""What a target folder says of the one part of the build that takes half an hour: whether RocksDB is compiled, in which environment, and
how far a compile is.

Why read off files: cargo tells of a build script only when it has ended. What lies in a target folder is cargo's own affair and may
change, so whatever is not found there is unknown, never an error.
"""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from run_benches.progress import duration

LIBCLANG_VARIABLES = ("LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS")
"""What bindgen finds libclang by."""

SOURCES = "rocksdb_lib_sources.txt"
"""The crate's own list of what it compiles; one of them it replaces by its own, and it adds the extensions of the C interface."""


def builds(target: Path) -> set[str]:
    """The times that RocksDB has been compiled in this target folder (its build script has finished), by name."""
    return {output.parent.name for output in target.glob("release/build/*librocksdb-sys-*/output")}


def variables(target: Path) -> dict[str, str | None]:
    """The variables that the newest build of RocksDB in this target folder has read, those of the crates below it among them; none where
    one was not set. Where one of them changes, cargo compiles RocksDB again."""
    units = {}
    for path in target.glob("release/.fingerprint/*/*.json"):
        with suppress(OSError, ValueError):  # beside it stands its hash, by which others name it
            units[int.from_bytes(bytes.fromhex(path.with_suffix("").read_text(encoding="utf-8")), "little")] = path
    left = sorted(target.glob("release/.fingerprint/*librocksdb-sys-*/run-build-script-*.json"), key=_time)[-1:]
    read: dict[str, str | None] = {}
    seen = set()
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            with suppress(OSError, ValueError, KeyError, TypeError):
                unit = json.loads(path.read_text(encoding="utf-8"))
                asked = [one["RerunIfEnvChanged"] for one in unit["local"] if "RerunIfEnvChanged" in one]
                read |= {one["var"]: one["val"] for one in asked}
                left += [units[hash] for _, _, _, hash in unit["deps"] if hash in units]
    return read


def libclang_variables(target: Path) -> dict[str, str]:
    """The variables by which the newest build of this target folder found libclang; none of them where that was the system's."""
    return {name: value for name, value in variables(target).items() if name in LIBCLANG_VARIABLES and value}


@dataclass(frozen=True)
class Compile:
    """A compile that is under way: objects that are there, how many it will be if that is known, and for how long it has run."""

    done: int
    of: int | None
    seconds: float

    def __str__(self) -> str:
        if not self.of or not self.done:
            return f"RocksDB {self.done} objects" if self.done else "RocksDB under way"
        left = self.seconds / self.done * max(0, self.of - self.done)
        return f"RocksDB {self.done} of {self.of} objects, about {duration(left)} left"


def under_way(target: Path, since: float) -> Compile | None:
    """The compile that began after `since` (seconds of the epoch) and has not ended. What an earlier one left behind is not counted."""
    for stamp in target.glob("release/build/*librocksdb-sys-*/invoked.timestamp"):
        began = _time(stamp)
        if began >= since - 1 and _time(stamp.parent / "output") < began:
            done = sum(_time(path) >= began for path in stamp.parent.glob("out/**/*.o"))
            return Compile(done, _objects(target.glob("release/build/*librocksdb-sys-*/*.d")), time.time() - began)
    return None


def _objects(dependencies: Iterable[Path]) -> int | None:
    """How many objects it will be: the build script was compiled from the list of sources, and its dependencies name the file."""
    try:
        text = max(dependencies, key=_time).read_text(encoding="utf-8")
        sources = next(word for word in text.replace("\\ ", "\0").split() if word.endswith(SOURCES)).replace("\0", " ")
        return Path(sources).read_text(encoding="utf-8").count(".cc\n") + 1
    except (ValueError, StopIteration, OSError):
        return None


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
