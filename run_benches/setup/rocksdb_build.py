"""The state of the one part of the build that takes half an hour, as a target folder tells it: whether RocksDB is
compiled, in which environment, and how far a compile is; and RocksDB out of it as a library, for programs that embed
the store.

Why read off files: cargo tells of a build script only when it has ended. What lies in a target folder is cargo's own
affair and may change, so whatever is not found there is unknown; only who asks for the library has to be told.

Why a library: cargo compiles RocksDB again where a build dependency of a program turns on a feature of one that bindgen
has, too. With `ROCKSDB_LIB_DIR` the build script compiles the extensions of the C interface alone. Why the library has
them even so: that compilation takes type information (RTTI) for granted, which RocksDB is compiled without, and would
not link. The linker takes what it finds first, which is the library; both define the same functions.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from run_benches import processes
from run_benches.errors import UserError
from run_benches.places import LIBRARIES, shown
from run_benches.progress import duration

LIBCLANG_VARIABLES = ("LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS")
"""The variables by which bindgen finds libclang."""

SOURCES = "rocksdb_lib_sources.txt"
"""The crate's own list of what it compiles; one of them it replaces by its own, and it adds the extensions of the C
interface."""


ARCHIVE = "librocksdb.a"
"""The archive that the build script makes of RocksDB; on some processors it puts a few objects into a second one,
`librocksdb_*.a`."""

_SOURCES_AT = "cargo::metadata=cargo_manifest_dir="
"""Behind this the build script says where the sources of the crate lie."""


def builds(target: Path) -> set[str]:
    """The times that RocksDB has been compiled in this target folder (its build script has finished), by name."""
    return {output.parent.name for output in target.glob("release/build/*librocksdb-sys-*/output")}


def variables(target: Path) -> dict[str, str | None]:
    """The variables that the newest build of RocksDB in this target folder has read, those of the crates below it among
    them; none where one was not set. Where one of them changes, cargo compiles RocksDB again."""
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
    """The variables by which the newest build of this target folder found libclang; none of them where that was the
    system's."""
    return {name: value for name, value in variables(target).items() if name in LIBCLANG_VARIABLES and value}


def library(target: Path) -> Path:
    """The folder that has RocksDB, as it was compiled last in this target folder, as a library with its headers; made
    if it is not there."""
    outputs = [
        output
        for output in target.glob("release/build/*librocksdb-sys-*/output")
        if (output.parent / "out" / ARCHIVE).is_file()
    ]
    if not outputs:
        raise UserError(
            f"{shown(target)} has no {ARCHIVE}, though the build has ended: cargo clean --release -p rust-librocksdb-sys, then type it again"
        )
    output = max(outputs, key=_time)
    said = output.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    sources = next((Path(line.removeprefix(_SOURCES_AT)) for line in said if line.startswith(_SOURCES_AT)), None)
    if sources is None or not (sources / "rocksdb" / "include").is_dir():
        where = shown(sources) if sources else f"where {shown(output)} should say"
        raise UserError(f"the sources with which RocksDB was compiled are not {where}: cargo fetch, then type it again")
    with (output.parent / "out" / ARCHIVE).open("rb") as archive:
        hash = hashlib.file_digest(archive, "sha256").hexdigest()[:8]
    version = tomllib.loads((sources / "Cargo.toml").read_text(encoding="utf-8"))["package"]["version"]
    folder = LIBRARIES / f"librocksdb-{version}-{hash}"
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    with (LIBRARIES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _make_library(folder, output.parent / "out", sources)
    return folder


def library_variables(folder: Path) -> dict[str, str]:
    """The variables by which the build script of another program takes the library in `folder`, and compiles none."""
    return {"ROCKSDB_LIB_DIR": str(folder), "ROCKSDB_INCLUDE_DIR": str(folder / "include"), "ROCKSDB_STATIC": "1"}


def _make_library(folder: Path, out: Path, sources: Path) -> None:
    """Copies it beside `folder`, and renames it."""
    new = folder.with_name(f".{folder.name}")
    shutil.rmtree(new, ignore_errors=True)  # of a command that was killed
    try:
        shutil.copytree(sources / "rocksdb" / "include", new / "include")
        shutil.copyfile(out / ARCHIVE, new / ARCHIVE)
        for other in sorted(out.glob("librocksdb_*.a")):
            _join(new / ARCHIVE, other)
        for path in new.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _join(archive: Path, other: Path) -> None:
    """Adds the objects of another archive: a program links one alone."""
    objects = archive.with_name("objects")
    objects.mkdir()
    _ar("x", other, folder=objects)
    _ar("q", archive, *sorted(objects.iterdir()))
    shutil.rmtree(objects)


def _ar(operation: str, archive: Path, *words: Path, folder: Path | None = None) -> None:
    if not shutil.which("ar"):
        raise UserError("there is no ar, which reads archives of objects: with Debian, apt-get install binutils")
    done = processes.captured(["ar", operation, archive, *words], cwd=folder)
    if done.returncode != 0:
        raise UserError(f"ar {operation} {shown(archive)} failed: {processes.essence(done.stderr.splitlines())}")


@dataclass(frozen=True)
class Compile:
    """A compile that is under way: objects that are there, how many it will be if that is known, and for how long it
    has run."""

    done: int
    of: int | None
    seconds: float

    def __str__(self) -> str:
        if not self.of or not self.done:
            return f"RocksDB {self.done} objects" if self.done else "RocksDB under way"
        left = self.seconds / self.done * max(0, self.of - self.done)
        return f"RocksDB {self.done} of {self.of} objects, about {duration(left)} left"


def under_way(target: Path, since: float) -> Compile | None:
    """The compile that began after `since` (seconds of the epoch) and has not ended. What an earlier one left behind is
    not counted."""
    for stamp in target.glob("release/build/*librocksdb-sys-*/invoked.timestamp"):
        began = _time(stamp)
        if began >= since - 1 and _time(stamp.parent / "output") < began:
            done = sum(_time(path) >= began for path in stamp.parent.glob("out/**/*.o"))
            return Compile(done, _objects(target.glob("release/build/*librocksdb-sys-*/*.d")), time.time() - began)
    return None


def _objects(dependencies: Iterable[Path]) -> int | None:
    """Returns the number of objects that it will be: the build script was compiled from the list of sources, and its
    dependencies name the file."""
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
