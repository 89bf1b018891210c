"""The files that Criterion writes, and nothing else about Criterion: the one module that reads its files.

Why one module: the files are private to criterion (read here as version 0.8.2 writes them; the golden files of the
tests are its own) and may change with any version. Results are known by `full_id`, since directory names are cut to 64
characters and have some characters replaced; its printed output is for people and is never read. Results lie there
until somebody removes them, also those of other versions and of benches that are gone, so a folder that cannot be read
is named and costs no other row.
"""

import math
import os
import re
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TypeVar

from run_benches import serialization
from run_benches.places import ROOT
from run_benches.setup import toolchain

T = TypeVar("T")

_FILES = {"benchmark.json", "sample.json", "estimates.json", "tukey.json"}
"""The files that Criterion leaves of a row; only the first two are read."""


@dataclass(frozen=True)
class Samples:
    """The samples of one row in one process: `iterations[n]` operations took `times_ns[n]` together."""

    iterations: list[float]
    times_ns: list[float]

    def median_ns(self) -> float:
        """The median over the samples of the time of one operation: stalls of the machine do not enter."""
        return statistics.median(time / count for time, count in zip(self.times_ns, self.iterations, strict=True))

    def mean_ns(self) -> float:
        """All time over all operations: for rows whose stalls (flushes, compactions) are part of the cost."""
        return sum(self.times_ns) / sum(self.iterations)


@dataclass(frozen=True)
class Unreadable:
    """A folder of results that cannot be read, and why; with its row, where at least that is known."""

    folder: Path
    reason: str
    row: str | None = None


@dataclass(frozen=True)
class CriterionResults:
    """The samples of every row by full id, and what cannot be read."""

    rows: dict[str, Samples] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)


@dataclass(frozen=True)
class _Benchmark:
    full_id: str
    directory_name: str | None = None


@dataclass(frozen=True)
class _Sample:
    sampling_mode: str
    iters: list[float]
    times: list[float]


def arguments(sample_size: int, warm_up_s: float, measurement_s: float) -> list[str]:
    """The options of a driven process. Criterion's own statistics and plots are not used, so they are kept small."""
    sizes = [
        "--sample-size",
        str(sample_size),
        "--warm-up-time",
        f"{warm_up_s:g}",
        "--measurement-time",
        f"{measurement_s:g}",
    ]
    return ["--bench", "--noplot", "--nresamples", "1001", *sizes]


def filter_of(rows: list[str]) -> str:
    """The regular expression by which Criterion runs these rows and no other."""
    return "^(?:" + "|".join(re.escape(row) for row in rows) + ")$"


def home() -> Path:
    """Where a typed `cargo bench` leaves its results, by Criterion's own rule: `CRITERION_HOME`, else the folder
    `criterion` of cargo's target folder. Cargo runs the benches in the folder of their package."""
    named = os.environ.get("CRITERION_HOME")
    return toolchain.target_folder() / "criterion" if named is None else ROOT / named


def read(home: Path, baseline: str = "new") -> CriterionResults:
    """Reads what was measured with `CRITERION_HOME` at `home`: the last results, or those kept as a baseline."""
    results = CriterionResults()
    for folder, name in _named(home, results.unreadable):
        row = None
        try:
            if name == PurePath(baseline):
                row = _load(_Benchmark, folder / "benchmark.json").full_id
                results.rows[row] = _samples(folder / "sample.json")
        except serialization.Malformed as error:
            results.unreadable.append(Unreadable(folder, str(error), row))
    return results


def baselines(home: Path) -> list[str]:
    """The names that results were kept by."""
    return sorted({str(name) for _, name in _named(home, [])} - {"new"})


def _named(home: Path, unreadable: list[Unreadable]) -> Iterator[tuple[Path, PurePath]]:
    """Every folder of results with the name they were kept by: what lies below the folder of their row. A name with
    slashes (of a branch) is folders within one another, as rows are, so it is the results that say where their row
    begins, or others of the row."""
    folders = list(_folders(home, unreadable))
    rows: dict[Path, Path] = {}
    for folder in folders:
        with suppress(serialization.Malformed):
            if name := _load(_Benchmark, folder / "benchmark.json").directory_name:
                rows[folder] = home / name
    for folder in folders:
        known = {rows[folder]} if folder in rows else {*rows.values()}
        yield folder, folder.relative_to(next((above for above in folder.parents if above in known), folder.parent))


def _folders(home: Path, unreadable: list[Unreadable]) -> Iterator[Path]:
    """Every folder that may hold the results of a row: with one of Criterion's files, or empty. Notes those that cannot
    be looked into."""

    def note(error: OSError) -> None:
        unreadable.append(Unreadable(Path(error.filename), error.strerror or str(error)))

    for path, folders, files in os.walk(home, onerror=note):
        folders.sort()
        if Path(path) != home and (_FILES & {*files} or not (files or folders)):
            yield Path(path)


def _samples(path: Path) -> Samples:
    sample = _load(_Sample, path)
    if (
        not sample.iters
        or len(sample.iters) != len(sample.times)
        or not all(0 < one < math.inf for one in (*sample.iters, *sample.times))
    ):
        raise serialization.Malformed(
            f"{path.name}: {len(sample.times)} times for {len(sample.iters)} counts, or one that is not positive"
        )
    return Samples(sample.iters, sample.times)


def _load(kind: type[T], path: Path) -> T:
    try:
        return serialization.load(kind, path)
    except OSError as error:
        raise serialization.Malformed(f"{path.name}: {error.strerror}") from error
    except serialization.Malformed as error:
        raise serialization.Malformed(f"{path.name}: {error} (is this criterion 0.8.2?)") from error
