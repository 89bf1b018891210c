"""Rows of runs that nobody measured, for the tests of the page: their figures are chosen, so that what is said of them
is known."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from run_benches.analysis.findings import Findings
from run_benches.measure import load_run
from run_benches.store import loads
from run_benches.store.loads import LoadRun
from run_benches.store.runs import Bench, Build, Facts, Family, Latency, Machine, Measure, Place, Run, Tool


def contradictions(run: Run) -> list[str]:
    """Returns the contradictions in a run."""
    return [words for check in Findings.of(run).checks for words in check.found]


FAKES = Path(__file__).parent / "fakes"

A_MACHINE = {
    "cpu_model": "A processor",
    "cores": 2,
    "architecture": "x86_64",
    "family": "26",
    "model": "2",
    "stepping": "1",
    "caches": "L3 32768K",
}

SPREAD = (0.98, 1.03, 1.0, 0.99, 1.01)
"""The times that the processes measured, over the time of the row."""


def bench(middle_ns: float, op: str, unit: str = "operations", **facts: object) -> Bench:
    """A row that ran in five processes."""
    points = [round(middle_ns * factor, 3) for factor in SPREAD]
    settings: dict[str, object] = {
        "units_per_operation": 1.0,
        "threads": 1,
        "durability": "soft",
        "data_set": "records of about 1 KB",
    }
    return Bench("ran", [], Facts(op=op, unit=unit, **(settings | facts)), points, 2.0)  # type: ignore[arg-type]


TUPLES = (-0.011, -0.008, -0.005, -0.003, -0.002, -0.001, 0.001, 0.002, 0.003, 0.005, 0.008, 0.011)
"""The distance by which each tuple is off, as a logarithm: around none, and enough of them for intervals that hold
together."""


def family(run: Run, rows: Sequence[str], edges: Iterable[tuple[str, str]] = (), scatter: float = 1.0) -> Run:
    """Lets the rows that ran take turns: each with the first, which is the base and has a second lane, and as the edges
    say."""
    lanes = [id for id in rows if run.benches[id].points_ns]
    base = lanes[0]
    pairs = [(id, base) for id in lanes] + [edge for edge in edges if set(edge) <= set(lanes)]
    for id, other in pairs:
        log = math.log(statistics.median(run.benches[id].points_ns) / statistics.median(run.benches[other].points_ns))
        run.contrasts.setdefault(id, {})[other] = [log + scatter * off for off in TUPLES]
    for id in lanes:
        run.benches[id].family = run.benches[id].family or base
    run.families[base] = Family("ran", [], list(lanes), base, [list(pair) for pair in pairs], len(TUPLES))
    return run


def planned(run: Run, rows: dict[str, Bench]) -> Run:
    """The run with these rows, too."""
    run.benches |= rows
    return run


def scaling() -> dict[str, Bench]:
    """READ and CREATE by threads, beside their floors and the bare machine; READ and a range by records; an insert by
    indexes."""
    rows = {}
    for threads, read_ns, create_ns, alu_ns in ((1, 900, 3000, 300), (2, 470, 3600, 152)):
        words = "thread" if threads == 1 else "threads"
        for id, time_ns in (("read/floor", read_ns), ("create/floor", create_ns), ("machine/alu", alu_ns)):
            rows[f"scaling/{id}/{threads}_{words}"] = bench(
                time_ns, "the same, bare", threads=threads, scale=Place("threads", threads)
            )
    for threads, read_ns, create_ns in ((1, 1000, 4000), (2, 520, 2600), (4, 540, 3900), (8, 560, 4400)):
        words = "thread" if threads == 1 else "threads"
        for verb, time_ns in (("read", read_ns), ("create", create_ns)):
            rows[f"scaling/{verb}/strata/{threads}_{words}"] = bench(
                time_ns, f"{verb}s one record", threads=threads, scale=Place("threads", threads)
            )
    for records, read_ns, range_ns in (
        (1e3, 900, 20_000),
        (1e4, 950, 20_100),
        (1e5, 1003, 20_050),
        (1e6, 1060, 19_980),
    ):
        rows[f"scaling/read/strata/{records:.0f}_records"] = bench(
            read_ns, "reads one small record", scale=Place("records", records)
        )
        rows[f"scaling/range/strata/{records:.0f}_records"] = bench(
            range_ns, "reads a range", scale=Place("records", records)
        )
    for indexes, time_ns in enumerate((2000, 2700, 3400)):
        rows[f"scaling/insert/strata/{indexes}_indexes"] = bench(
            time_ns, "inserts one record", scale=Place("indexes", indexes)
        )
    return rows


def with_scaling(run: Run) -> Run:
    """The run with the rows of scaling; those by threads took turns with one thread."""
    planned(run, scaling())
    for work in ("read/strata", "create/strata", "read/floor", "create/floor", "machine/alu"):
        family(run, [id for id in run.benches if id.startswith(f"scaling/{work}/") and "thread" in id])
    return run


def latency(count: int, p50_ns: float, max_ns: float) -> Latency:
    """As many quantiles as so many operations have."""
    p50, p95, p99, p999 = (
        p50_ns * factor if count >= least else None for least, factor in ((20, 1), (200, 2), (1000, 4), (10_000, 9))
    )
    return Latency(count, p50_ns * 1.2, p50, p95, p99, p999, max_ns)


def macro() -> dict[str, Bench]:
    """Two workloads: YCSB A with latencies of two kinds, and a bulk load with measures alone."""
    mixed = bench(3000, "half of the operations read, half update", workload=True, threads=8)
    mixed.latencies = {
        "read": [latency(50_000, 900, 4e6), latency(50_000, 940, 7e6)],
        "update": [latency(500, 5000, 2e6)],
        "never": [],
    }
    mixed.measures = {
        "size_on_disk": Measure("bytes", [10_485_760.0, 11_534_336.0]),
        "write_amplification": Measure("ratio", [1.5, 1.5]),
    }
    load = bench(4000, "loads one record", unit="records", workload=True)
    load.measures = {"stall_time": Measure("seconds", [0.25]), "peak_memory": Measure("bytes", [])}
    return {"macro/ycsb_a/strata/zipfian": mixed, "macro/bulk_load/strata/1000000_records": load}


def a_load_run() -> LoadRun:
    """A load test of one scenario that ran, as the load tool once stored it, and of one that was refused."""
    raw = json.loads((FAKES / "load_result.json").read_text(encoding="utf-8"))
    ran = loads.LoadCell("ran", [], raw, load_run.curves(raw))
    return LoadRun(
        schema=loads.SCHEMA,
        name=None,
        tool=Tool("0123456789abcdef", False, ""),
        command=["run-benches.py", "load"],
        started="2026-01-01T00:00:00Z",
        seconds=12.0,
        complete=True,
        machine=Machine({"cpu_model": "a processor", "cores": 2}, {}),
        build=Build("rustc 1.0", "", "release"),
        binaries={},
        flags=[],
        scenarios={
            "rest-crud": ran,
            "throughput-read": loads.LoadCell(
                "invalid", ["load: throughput-read.toml: load.connections: it must be above 0"]
            ),
        },
    )
