"""What makes this machine noisy, and what would help. A first version: it looks, and it measures three seconds of scatter.

Why before a run: much of what spoils a measurement can be seen without measuring, and most of that can be mended in a minute.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from run_benches import figures, machine, shapes, tables, toolchain
from run_benches.errors import Exit
from run_benches.tables import Column

DOCTOR_SCHEMA = 1
PROBE_S = 1.5
STEAL_TO_MENTION = 0.01
SCATTER_TO_MENTION = 0.05


@dataclass(frozen=True)
class Finding:
    """Something that was looked at, and what would help if it is bad."""

    what: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Scatter:
    """How unlike equal pieces of work were: the spread of the middle 80 % over the median, and the longest over the median."""

    middle: float
    longest: float


def main(as_json: bool) -> Exit:
    """Prints the findings; always fine, since a noisy machine is no error."""
    stolen, total = machine.steal_and_total_jiffies()
    findings = [*_processor(), *_memory_and_disk(), *_tools(), *_scatter()]
    stolen_after, total_after = machine.steal_and_total_jiffies()
    findings.append(_steal((stolen_after - stolen) / max(1, total_after - total)))
    if as_json:
        print(shapes.text({"schema": DOCTOR_SCHEMA, "findings": findings}), end="")
        return Exit.FINE
    body = [[one.what, one.found, one.advice] for one in findings]
    print(tables.render("this machine", [Column("what"), Column("found"), Column("what would help")], body))
    print("ratios to floors are measured in lock-step pairs, which share the noise; absolute times are not")
    return Exit.FINE


def _processor() -> list[Finding]:
    cores, load, governor = len(os.sched_getaffinity(0)), os.getloadavg()[0], machine.governor()
    busy = "end other programs, or measure later" if load > 0.3 * cores else ""
    slow = "" if governor in (None, "performance") else "sudo cpupower frequency-set -g performance"
    few = "rows with 8 threads share so few cores: their figures are of contention" if cores < 8 else ""
    return [
        Finding("processor", machine.cpu_model()),
        Finding("cores", str(cores), few),
        Finding("load average of the last minute", f"{load:.2f}", busy),
        Finding("frequency governor", governor or "none to be seen (a virtual machine?)", slow),
    ]


def _memory_and_disk() -> list[Finding]:
    folder = Path(os.environ.get("STRATA_BENCH_DIR") or tempfile.gettempdir())
    kind = machine.file_system(folder) or "unknown"
    free_gib = shutil.disk_usage(folder).free / 2**30 if folder.exists() else 0.0
    in_memory = "a store in memory measures memory: set STRATA_BENCH_DIR to a folder on a disk" if kind in ("tmpfs", "ramfs") else ""
    full = "make room, or set STRATA_BENCH_DIR" if free_gib < 2 else in_memory
    available_gib = machine.memory_gib("MemAvailable") or 0.0
    return [
        Finding("memory available", f"{available_gib:.1f} GiB", "end other programs" if available_gib < 2 else ""),
        Finding("stores of the benches", f"{folder} ({kind}, {free_gib:.1f} GiB free)", full),
    ]


def _tools() -> list[Finding]:
    wanted = {"c++": "apt-get install g++", "cargo": "https://rustup.rs", "valgrind": "apt-get install valgrind", "perf": "apt-get install linux-perf", "ld.lld": "apt-get install lld"}
    found = [Finding(name, shutil.which(name) or "not there", "" if shutil.which(name) else advice) for name, advice in wanted.items()]
    library = toolchain.system_libclang()
    return [*found, Finding("libclang", str(library or "not there; the first build fetches it"), "" if library else "apt-get install libclang-dev")]


def _scatter() -> list[Finding]:
    block = bytes(8 << 20)
    probes: dict[str, Callable[[], object]] = {"scatter of a loop of integers": lambda: sum(range(30_000)), "scatter of copies of 8 MiB": lambda: bytearray(block)}
    return [_scatter_finding(what, probe(work)) for what, work in probes.items()]


def probe(work: Callable[[], object]) -> Scatter:
    """Does the same work over and over, and sees how unlike its times are."""
    times_s: list[float] = []
    end = time.perf_counter() + PROBE_S
    while (began := time.perf_counter()) < end:
        work()
        times_s.append(time.perf_counter() - began)
    times_s.sort()
    median_s, tenth = statistics.median(times_s), len(times_s) // 10
    return Scatter((times_s[-1 - tenth] - times_s[tenth]) / median_s, times_s[-1] / median_s)


def _scatter_finding(what: str, scatter: Scatter) -> Finding:
    shown = f"the middle 80 % within {figures.percent(scatter.middle)} of the median; the longest {scatter.longest:.1f} times the median"
    return Finding(what, shown, "trust ratios, not times" if scatter.middle > SCATTER_TO_MENTION else "")


def _steal(share: float) -> Finding:
    advice = "the host is busy: measure later, or on a machine of your own" if share > STEAL_TO_MENTION else ""
    return Finding("stolen by the host meanwhile", figures.percent(share), advice)
