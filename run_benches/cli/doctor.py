"""The causes of noise on this machine, the smallest change it can show, and what would help.

Why before a run: much of what spoils a measurement can be seen without measuring, and most of that can be mended in a
minute. Why also measured: whether all of it together is too much, only a program that is compared with itself can tell.
So the sentinels of the harness, which run no code of the project, are paired with themselves, and what their pairs
scatter by says which slow-down `compare` would see.

What a machine does not tell is said to be unknown; nothing here can fail.
"""

import itertools
import math
import os
import re
import secrets
import shutil
import statistics
import textwrap
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from run_benches import processes, scratch, serialization
from run_benches.analysis import figures
from run_benches.errors import Exit, UserError
from run_benches.measure import broker, build, jobs, machine
from run_benches.measure.layers import SENTINELS
from run_benches.measure.lock import alone
from run_benches.progress import ProgressLine
from run_benches.render import terminal
from run_benches.setup import libclang
from run_benches.stats import judge

DOCTOR_SCHEMA = 2
WATCHED_S = 1.0
PAIRS = 8
COMPARED_PAIRS = (16, 64)
ROWS, MARGIN = 20, 0.02
"""The rows of a layer, and the share within which `compare` calls a row the same if nothing else is said."""

STEAL_TO_MENTION = 0.01
PRESSURE_TO_MENTION = 0.05
WIDEST = {"what": 24, "found": 36, "help": 34}
"""Columns of letters: with the gaps between them less than the hundred that any terminal has."""


@dataclass(frozen=True)
class Finding:
    """Something that was looked at, and what would help if it is bad."""

    what: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Scatter:
    """A row compared with itself: the standard deviation of a pair's effect, and the smallest slow-downs that would be
    seen by numbers of pairs; infinite ones are absent."""

    row: str
    deviation: float
    visible: dict[str, float]


def main(as_json: bool) -> Exit:
    """Prints the findings; always fine, since a noisy machine is no error."""
    root = Path("/")
    findings = [*processor(root), *_watched(root), *memory(root), *_stores(), *_tools()]
    try:
        scatters, unmeasured = _sentinels(), None
    except UserError as error:
        scatters, unmeasured = [], str(error)
    if as_json:
        print(
            serialization.text(
                {"schema": DOCTOR_SCHEMA, "findings": findings, "sentinels": scatters, "unmeasured": unmeasured}
            ),
            end="",
        )
        return Exit.FINE
    lines = []
    for one in findings:
        texts = zip((one.what, one.found, one.advice), WIDEST.values(), strict=True)
        cells = [textwrap.wrap(text, width, break_on_hyphens=False) for text, width in texts]
        lines += [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]
    print(terminal.table("this machine", ["what", "found", "what would help"], lines))
    print(
        _visible(scatters)
        if unmeasured is None
        else textwrap.fill(f"the smallest change that can be seen here was not measured: {unmeasured}", 96)
    )
    return Exit.FINE


def processor(root: Path) -> list[Finding]:
    """Cores, what shares them, their clock, and how much of them we may use."""
    own = os.sched_getaffinity(0)
    pinned = max(own)
    cpu = root / "sys/devices/system/cpu"
    listed = re.findall(r"(\d+)(?:-(\d+))?", _read(cpu / f"cpu{pinned}/topology/thread_siblings_list"))  # `0-1,4`
    siblings = {core for low, high in listed for core in range(int(low), int(high or low) + 1)} - {pinned}
    beside = (
        f"shared with {', '.join(map(str, sorted(siblings)))}" if siblings else "shared with no other that is known"
    )
    governor = _read(cpu / "cpu0/cpufreq/scaling_governor")
    quota, throttled = _quota(root)
    few = "rows with 8 threads share so few cores: their figures are of contention" if len(own) < 8 else ""
    hypervisor = bool(re.search(r"^flags\s*:.*\bhypervisor\b", _read(root / "proc/cpuinfo"), re.MULTILINE))
    slowed = _read(cpu / "intel_pstate/no_turbo")
    turbo = _read(cpu / "cpufreq/boost") or {"1": "0", "0": "1"}.get(slowed, "")
    load = (_read(root / "proc/loadavg").split() or ["unknown"])[0]
    busy = load != "unknown" and float(load) > 0.3 * len(own)
    return [
        Finding("processor", machine.cpu_model()),
        Finding("cores", str(len(own)), few),
        Finding(f"core {pinned}, of pairs", beside, "switch SMT off, or keep the sibling idle" if siblings else ""),
        Finding(
            "virtual machine",
            "yes" if hypervisor else "no sign of it",
            "a machine of your own has fewer neighbours" if hypervisor else "",
        ),
        Finding(
            "frequency governor",
            governor or "unknown",
            "" if governor in ("", "performance") else "sudo cpupower frequency-set -g performance",
        ),
        Finding(
            "turbo",
            {"1": "on", "0": "off"}.get(turbo, "unknown"),
            "switch it off: its clock follows heat and neighbours" if turbo == "1" else "",
        ),
        Finding("cgroup's quota", quota, "measure outside of the container, or lift its limit" if throttled else ""),
        Finding("load of the last minute", load, "end other programs, or measure later" if busy else ""),
    ]


def _quota(root: Path) -> tuple[str, bool]:
    """The tightest `cpu.max` from our group up to the root, and whether it has ever held us back."""
    place = (re.search(r"^0::/(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE) or ["", ""])[1]
    group = root / "sys/fs/cgroup" / place
    cores, periods, known = math.inf, 0, False
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root / "sys/fs/cgroup"):
            break
        most, _, period = _read(folder / "cpu.max").partition(" ")
        known = known or bool(most)
        if most.isdigit() and period:
            cores = min(cores, int(most) / int(period))
        found = re.search(r"^nr_throttled (\d+)$", _read(folder / "cpu.stat"), re.MULTILINE)
        periods = max(periods, int(found[1])) if found else periods
    limit = f"{cores:.3g} cores" if cores < math.inf else "none" if known else "none to be seen"
    return (f"{limit}; throttled {periods} times" if periods else limit), cores < math.inf or periods > 0


def _watched(root: Path) -> list[Finding]:
    """Watches for a second: time that the host took, waiting for cores, memory and disks, other programs."""
    (stolen_before, all_before), used_before = machine.steal_and_total_jiffies(), used(root)
    time.sleep(WATCHED_S)
    (stolen_after, all_after), used_after = machine.steal_and_total_jiffies(), used(root)
    stolen = (stolen_after - stolen_before) / max(1, all_after - all_before)
    host = "the host is busy: measure later, or on a machine of your own" if stolen > STEAL_TO_MENTION else ""
    return [
        Finding("stolen by the host", figures.percent(stolen), host),
        *pressure(root),
        busiest(used_before, used_after),
    ]


def pressure(root: Path) -> list[Finding]:
    """Returns how much of the last minute something waited for cores, memory or disks (PSI)."""
    findings = []
    for kind, help_ in (
        ("cpu", "end other programs"),
        ("memory", "end other programs: memory is short"),
        ("io", "end what reads and writes, or wait for it"),
    ):
        found = re.search(r"^some .*?avg60=([\d.]+)", _read(root / f"proc/pressure/{kind}"), re.MULTILINE)
        share = float(found[1]) / 100 if found else None
        text = "unknown" if share is None else f"{figures.percent(share)} of the last minute"
        findings.append(
            Finding(f"waited for {kind}", text, help_ if share is not None and share > PRESSURE_TO_MENTION else "")
        )
    return findings


def used(root: Path) -> dict[tuple[int, str], int]:
    """The jiffies of processor time that each process has used, by its number and name; not those of this one and its
    parents."""
    found: dict[tuple[int, str], int] = {}
    parents: dict[int, int] = {}
    for path in (root / "proc").glob("[0-9]*/stat"):
        number, _, rest = _read(path).partition(" (")
        name, _, tail = rest.rpartition(") ")
        fields = tail.split()
        if len(fields) > 12:
            parents[int(number)] = int(fields[1])
            found[int(number), name] = int(fields[11]) + int(fields[12])
    ours, one = set(), os.getpid()
    while one in parents:
        ours.add(one)
        one = parents[one]
    return {key: jiffies for key, jiffies in found.items() if key[0] not in ours}


def busiest(before: dict[tuple[int, str], int], after: dict[tuple[int, str], int]) -> Finding:
    """The three other processes that used most of a core between two looks."""
    a_second = os.sysconf("SC_CLK_TCK") * WATCHED_S
    shares = sorted(((jiffies - before.get(key, jiffies)) / a_second, key[1]) for key, jiffies in after.items())
    top = [f"{name} {figures.percent(share)}" for share, name in reversed(shares[-3:]) if share >= 0.02]
    return Finding("other programs, of a core", ", ".join(top) or "none", "end them, or measure later" if top else "")


def memory(root: Path) -> list[Finding]:
    """Room, swap, huge pages, and where programs are placed."""
    sizes = {
        name: int(size) / 2**20
        for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    }
    available, swapped = sizes.get("MemAvailable"), sizes.get("SwapTotal", 0.0) - sizes.get("SwapFree", 0.0)
    huge = re.search(r"\[(\w+)\]", _read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    layout = {"0": "off", "1": "on", "2": "on"}.get(_read(root / "proc/sys/kernel/randomize_va_space"), "unknown")
    moves = "sudo sysctl kernel.randomize_va_space=2: one placement only is chance" if layout == "off" else ""
    return [
        Finding(
            "memory available",
            "unknown" if available is None else f"{available:.1f} GiB",
            "end other programs" if available is not None and available < 2 else "",
        ),
        Finding(
            "swap in use",
            f"{swapped:.1f} GiB" if swapped > 0 else "none",
            "end other programs, then sudo swapoff -a" if swapped > 0.1 else "",
        ),
        Finding(
            "huge pages",
            huge[1] if huge else "unknown",
            "madvise: else they come and go by chance" if huge and huge[1] == "always" else "",
        ),
        Finding("random addresses", layout, moves),
    ]


def _stores() -> list[Finding]:
    folder = scratch.outside("STRATA_BENCH_DIR")
    kind = machine.file_system(folder) or "unknown"
    free_gib = shutil.disk_usage(folder).free / 2**30 if folder.exists() else 0.0
    in_memory = (
        "a store in memory measures memory: set STRATA_BENCH_DIR to a folder on a disk"
        if kind in ("tmpfs", "ramfs")
        else ""
    )
    full = "make room, or set STRATA_BENCH_DIR" if free_gib < 2 else in_memory
    return [Finding("stores of the benches", f"{folder} ({kind}, {free_gib:.1f} GiB free)", full)]


def _tools() -> list[Finding]:
    wanted = {
        "c++": "apt-get install g++",
        "cargo": "https://rustup.rs",
        "valgrind": "apt-get install valgrind",
        "perf": "apt-get install linux-perf",
    }
    found = [
        Finding(name, shutil.which(name) or "not there", "" if shutil.which(name) else advice)
        for name, advice in wanted.items()
    ]
    paranoid = _read(Path("/proc/sys/kernel/perf_event_paranoid"))
    refused = os.geteuid() != 0 and paranoid.isdigit() and int(paranoid) > 2
    linker, unfit = shutil.which("ld.lld"), libclang.refusal(libclang.LIBRARY)
    with suppress(OSError):
        root = Path(processes.captured(["rustc", "--print", "sysroot"]).stdout.strip())
        linker = "Rust's own" if list(root.glob("lib/rustlib/*/bin/gcc-ld/ld.lld")) else linker
    return [
        *found,
        Finding(
            "perf_event_paranoid", paranoid or "unknown", "sudo sysctl kernel.perf_event_paranoid=1" if refused else ""
        ),
        Finding(
            "lld", linker or "not there", "" if linker else "apt-get install lld: placement of code can't be shuffled"
        ),
        Finding("libclang", "not there; the first build fetches it" if unfit else str(libclang.LIBRARY)),
    ]


def _sentinels() -> list[Scatter]:
    """Measures how much the rows that run none of our code scatter."""
    executable = build.last_build().get(SENTINELS)
    if executable is None:
        raise UserError("it takes the benches, so look again after the first build: run-benches.py --quick")
    with alone():
        effects = _paired_with_itself(executable, list(build.ask(SENTINELS, executable).facts.rows))
    return [scatter(row, found) for row, found in effects.items()]


def _paired_with_itself(executable: Path, rows: Sequence[str]) -> dict[str, list[float]]:
    side = broker.Lane([str(executable), "--bench"], jobs.environment_of({}))
    effects: dict[str, list[float]] = {row: [] for row in rows}
    with ProgressLine() as line:
        for pair in range(PAIRS):

            def progress(settled: int, of: int, pair: int = pair) -> None:
                line.show(f"pairing the sentinels with themselves: pair {pair + 1} of {PAIRS}, {settled} of {of} rows")

            plan = [broker.RowInTurns((row, row)) for row in rows]
            seed = secrets.randbits(32)
            result = broker.run(
                (side, side), plan, cores=jobs.pinned_to(1), seed=seed, deadline_s=60, silence_s=20, progress=progress
            )
            if result.failures:
                raise UserError(f"{result.failures[0].ids[0]}: {jobs.in_one_line(result.failures[0].reason)}")
            for (row, *_), log in result.rows.items():
                effects[row].append(broker.effect(log))
    return effects


def scatter(row: str, effects: Sequence[float]) -> Scatter:
    """Returns the scatter of a row from the effects of its pairs with itself, and what can be seen in spite of it."""
    deviation = statistics.stdev(effects)
    visible = {str(pairs): judge.smallest_visible(deviation, pairs, ROWS, MARGIN) for pairs in COMPARED_PAIRS}
    return Scatter(
        row, round(deviation, 6), {pairs: round(least, 5) for pairs, least in visible.items() if math.isfinite(least)}
    )


def _visible(scatters: Sequence[Scatter]) -> str:
    title = f"smallest slow-down that compare would see in 8 of 10 cases, of {ROWS} rows with a margin of {figures.percent(MARGIN)}"
    columns = ["compared with itself", "a pair's scatter>", *(f"with {pairs} pairs>" for pairs in COMPARED_PAIRS)]
    body = []
    for one in scatters:
        visible = [one.visible.get(str(pairs)) for pairs in COMPARED_PAIRS]
        least = ["none" if share is None else figures.percent(share) for share in visible]
        body.append([one.row, figures.percent(one.deviation), *least])
    return terminal.table(textwrap.fill(title, 96), columns, body)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
