"""What Criterion writes, and nothing else about Criterion: the one module that reads its files.

Why one module: the files are private to criterion (read here as version 0.8.2 writes them; the golden files of the tests are its own) and
may change with any version. Results are known by `full_id`, since directory names are cut to 64 characters and have some characters
replaced; its printed output is for people and is never read.
"""

import glob
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from run_benches import serialization


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
class _Benchmark:
    full_id: str


@dataclass(frozen=True)
class _Sample:
    sampling_mode: str
    iters: list[float]
    times: list[float]


def arguments(sample_size: int, warm_up_s: float, measurement_s: float) -> list[str]:
    """The options of a driven process. Criterion's own statistics and plots are not used, so they are kept small."""
    sizes = ["--sample-size", str(sample_size), "--warm-up-time", f"{warm_up_s:g}", "--measurement-time", f"{measurement_s:g}"]
    return ["--bench", "--noplot", "--nresamples", "1001", *sizes]


def filter_of(rows: list[str]) -> str:
    """The regular expression by which Criterion runs these rows and no other."""
    return "^(?:" + "|".join(re.escape(row) for row in rows) + ")$"


def read(home: Path, baseline: str = "new") -> dict[str, Samples]:
    """The samples of every row that was measured with `CRITERION_HOME` at `home`, by full id: the last ones, or those kept as a baseline."""
    return dict(_read_row(path.parent) for path in sorted(home.glob(f"**/{glob.escape(baseline)}/sample.json")))


def baselines(home: Path) -> list[str]:
    """The names that results were kept by."""
    return sorted({path.parent.name for path in home.glob("**/sample.json")} - {"new"})


def _read_row(folder: Path) -> tuple[str, Samples]:
    try:
        row = serialization.load(_Benchmark, folder / "benchmark.json").full_id
        sample = serialization.load(_Sample, folder / "sample.json")
    except OSError as error:
        raise serialization.Malformed(f"{folder}: {error.strerror}") from error
    except serialization.Malformed as error:
        raise serialization.Malformed(f"{folder}: {error} (is this criterion 0.8.2?)") from error
    if not sample.iters or len(sample.iters) != len(sample.times) or min(sample.iters) <= 0 or min(sample.times) <= 0:
        raise serialization.Malformed(f"{folder}: {len(sample.times)} times for {len(sample.iters)} counts, or one that is not positive")
    return row, Samples(sample.iters, sample.times)
