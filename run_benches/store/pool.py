"""The pool of a calibration on disk: the one home of its format, of reading it and of adding to it.

Why a line for each job: it grows by hours of measuring that nobody wants to lose, is committed, and is read by people
with other questions. A job's line is synced before the next job begins; a line that was cut off is not there. All
figures of a pool are of the very same machine code: pairs of two revisions are no longer pairs of one with itself.

History of the format:
  schema 1: the first. The first line is the origin, each other one a job. Effects are natural logarithms of B's time over A's.
  schema 2: the identity of the machine says also which generation its processor is of, and its caches. An older pool can be read, but not
    added to: whether this is its machine is not known.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from run_benches import files, serialization
from run_benches.errors import UserError
from run_benches.places import BASELINES, shown
from run_benches.store import stored_file
from run_benches.store.runs import Build, Machine

SCHEMA = 2
FOLDER = BASELINES / "calibration"
PATH = FOLDER / "pool.jsonl"
RESULTS = FOLDER / "results.json"
"""The error rates that were found in the pool."""


@dataclass
class Origin:
    """The facts that every job of a pool shares. `code` is a fingerprint of the loaded bytes of each target, lowest
    layer first, `fingerprint` one of the sources that measure pairs, `kinds` what kind each row is of; the commit is
    the one that the pool began with, of a `dirty` working tree one that no branch holds."""

    schema: int
    commit: str
    dirty: bool
    code: dict[str, str]
    machine: Machine
    build: Build
    turns: dict[str, int]
    seed: int
    fingerprint: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plant:
    """A slow-down of side B: so many steps in each operation of a layer, made to be this share of the time of its own
    row; no share where the steps were only weighed."""

    layer: str
    steps: int
    share: float | None = None


EntryKind = Literal["pair", "process", "published", "weighing", "plant", "comparison"]


@dataclass
class Entry:
    """A job that was done. `pair`: a pair of the target with itself; `process`: one that Criterion drives, against the
    one before it; `published`: the same with its published settings, of a few rows; `weighing` and `plant`: pairs whose
    side B is slowed down; `comparison`: a whole one of the pool's revision with itself.

    Lists go along with `rows`: the effect of the pair, A's time of one operation, by how much its sides met other
    conditions (as in a comparison), and what the usual tools would have made of the times (usual_tools.Change: p, low,
    high, mean)."""

    round: int
    kind: EntryKind
    target: str
    condition: str
    seconds: float
    plant: Plant | None = None
    rows: list[str] = field(default_factory=list)
    effects: list[float] = field(default_factory=list)
    a_ns: list[float] = field(default_factory=list)
    unlike: list[list[float] | None] = field(default_factory=list)
    usual: list[tuple[float, float, float, float] | None] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    outcome: str | None = None
    verdicts: dict[str, int] = field(default_factory=dict)


@dataclass
class Pool:
    """An origin and the jobs so far."""

    origin: Origin
    entries: list[Entry]

    def of(self, kind: EntryKind, condition: str) -> list[Entry]:
        """The jobs of this kind under this condition."""
        return [entry for entry in self.entries if (entry.kind, entry.condition) == (kind, condition)]


def load(path: Path = PATH) -> Pool:
    """Reads a pool; a damaged or newer file is a complaint of one line."""
    with stored_file.reading(path):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        if not whole:
            raise serialization.Malformed("it is empty")
        stored_file.check_schema(serialization.parse(dict[str, Any], whole[0]).get("schema"), SCHEMA, path)
        return Pool(serialization.parse(Origin, whole[0]), [serialization.parse(Entry, line) for line in whole[1:]])


def begin(origin: Origin, path: Path = PATH) -> Pool:
    """The pool of this origin: the one that is there goes on if its code is the same."""
    if not path.exists():
        files.replace(path, _line(origin))
        return Pool(origin, [])
    pool = load(path)
    there = pool.origin
    likeness = there.machine.likeness(origin.machine)
    if (there.code, there.turns, there.fingerprint) != (
        origin.code,
        origin.turns,
        origin.fingerprint,
    ) or not likeness.alike:
        why = (
            f"of another machine: {likeness.words}"
            if not likeness.alike
            else f"of {there.commit[:9]}, which is other code or another design"
        )
        raise UserError(f"{shown(path)} holds pairs {why}; move {shown(path.parent)} away to begin a new pool")
    if other := there.machine.other_kernel(origin.machine):
        print(f"{shown(path)} was begun under another kernel: {other}", file=sys.stderr)
    return pool


def add(pool: Pool, entry: Entry, path: Path = PATH) -> None:
    """Adds a job, in memory and, synced, on disk; what an interrupted addition left there is cut off."""
    pool.entries.append(entry)
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(_line(entry).encode())
        file.flush()
        os.fsync(file.fileno())


def _line(content: Origin | Entry) -> str:
    filled = {key: value for key, value in asdict(content).items() if value not in (None, [], {})}
    return json.dumps(filled, separators=(",", ":"), allow_nan=False) + "\n"
