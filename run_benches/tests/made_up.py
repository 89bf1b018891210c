"""Rows of runs that nobody measured, for the tests of the page: their figures are chosen, so that what is said of them
is known."""

import copy
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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


def set_ratio(run: Run, id: str, other: str, ratio: float, scatter: float = 1.0) -> None:
    """Lets a row take so many times as long as another, in every tuple."""
    run.contrasts[id][other] = [math.log(ratio) + scatter * off for off in TUPLES]


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
        "never": [latency(0, 0, 0)],
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


def result_of(load: LoadRun) -> dict[str, Any]:
    """The result of its scenario, to be changed."""
    result = load.scenarios["rest-crud"].result
    assert result
    return result


def repeated(load: LoadRun, count: int) -> list[dict[str, Any]]:
    """Lets its scenario be repeated so many times, and returns the results, to be changed."""
    first = load.scenarios.pop("rest-crud")
    cells = {f"rest-crud-repeat-{number}": copy.deepcopy(first) for number in range(1, count + 1)}
    results = [cell.result for cell in cells.values() if cell.result]
    for number, result in enumerate(results, start=1):
        result["scenario"]["repeat"] = number
    load.scenarios |= cells
    return results


def a_load_run_of_a_stream() -> LoadRun:
    """Two stages of appends by items, with answers that were refused, subscribers, kills and every bound on them."""
    load = a_load_run()
    result = result_of(load)
    measured = result["cells"][0]
    result["scenario"]["operations"][0] |= {
        "acknowledges": {"partition": "/partition", "offset": "/offset"},
        "items": {"count": 100, "each": "{n}"},
    }
    result["scenario"]["data"] = {"stream": "Click"}
    for counts in (measured["counts"], result["total"]):
        counts["refused"] = 7
    windows = {"window": {"seconds": 5.0, "arrivals_seconds": 5.0}}
    result["stages"] = [{name: result[name] for name in ("cells", "total", "throughput")} | windows] * 2
    result["scenario"]["load"]["stages"] = [{"users": 32, "seconds": 5.0}, {"users": 400, "seconds": 5.0}]
    result["promises"] = {"gapless": {"checked": 4000, "wrong": 0}, "in_place": {"checked": 3999, "wrong": 1}}
    result["kills"] = [3, 5]
    result["scenario"]["subscribers"] = [{"count": 4, "path": "/Click?stream=sse"}]
    came = {"due": 400, "missing": 1, "repeated": 2, "lag": measured["service"], "lag_from_start": None}
    came |= dict.fromkeys(("due_in_warm_up", "unanswered", "ended"), 0)
    result["subscribers"] = {"requests_at_least": 4, "requests_at_most": 4, "kinds": [came]}
    bounds: dict[str, Any] = {
        "refused_at_least": 0.01,
        "refused_at_most": 0.0,
        "goodput": {"of_stages": [1, 3], "at_least": 0.9},
        "lag": {"quantile": 0.99, "at_most_ms": 20.0},
    }
    result["objectives"] = [
        {"objective": {"stage": 2, "bound": {kind: limits}}, "measured": 0.5, "outcome": "pass"}
        for kind, limits in bounds.items()
    ]
    return load


def a_load_run_of_messages() -> LoadRun:
    """Messages to many, and what came of them by how many they were for."""
    load = a_load_run()
    result = result_of(load)
    lag = result["cells"][0]["service"]
    counts = {"answered": 1200, "answered_in_warm_up": 20, "unanswered": 6, "targets": 1_640_000}
    counts |= {"delivered": 1_639_990, "absent": 7, "pending": 3, "failed": 0}
    counts |= {"received": 1_639_991, "lost": 1, "doubled": 2, "stray": 4, "of_unanswered": 0, "lagged": 1, "ended": 0}
    fan_outs = [
        {"up_to": up_to, "answered": answered, "received": received, "last_lag": last_lag}
        for up_to, answered, received, last_lag in (
            (100, 400, 39_990, lag),
            (3000, 799, 1_597_000, None),
            (None, 1, 3001, lag),
        )
    ]
    result["multicasts"] = counts | {"lag": lag, "last_lag": lag, "by_fan_out": fan_outs}
    result["processes"]["server"] = {"user_seconds": 8.0, "system_seconds": 1.02}
    bound = {"last_lag": {"quantile": 0.99, "at_most_ms": 100.0}}
    result["objectives"] = [{"objective": {"bound": bound}, "measured": 36.5, "outcome": "pass"}]
    return load


def a_load_run_under_a_quota() -> LoadRun:
    """Three repeats under a quota, one of them invalid, with an objective of every kind that they miss."""
    load = a_load_run()
    for result, throughput in zip(repeated(load, 3), (1000.0, 990.0, 1010.0), strict=True):
        result["scenario"]["load"]["server_cpus"], result["throughput"] = 0.5, throughput
        result["quota"] = {"mechanism": "cpu.max", "throttled_periods": 42}
        bounds: list[tuple[dict[str, Any], float | None]] = [
            ({"classes": ["read"], "bound": {"throughput_at_least": 1e6}}, 1000.0),
            ({"bound": {"failures_at_most": 0.01}}, 0.125),
            ({"operation": "get", "bound": {"response": {"quantile": 0.999, "at_most_ms": 2.0}}}, None),
            ({"bound": {"growth": {"of": "descriptors", "at_most": 0.2}}}, 0.5),
        ]
        result["objectives"] = [
            {"objective": objective, "measured": measured, "outcome": "fail"} for objective, measured in bounds
        ]
    result["validity"], result["broken"] = "invalid", ["T3: a sum"]
    return load


def a_load_run_of_servers() -> LoadRun:
    """One server over a database, and two, in the same repeats."""
    load = a_load_run()
    ran = load.scenarios.pop("rest-crud")
    for repeat in range(1, 7):
        for servers, seconds in ((1, 0.5), (2, 0.6)):
            cell = copy.deepcopy(ran)
            assert cell.result
            scenario = cell.result["scenario"]
            scenario |= {"name": f"servers-x{servers}-repeat-{repeat}", "repeat": repeat}
            scenario["data"]["storage"], scenario["load"]["servers"] = "postgres", servers
            cell.result["processes"]["server"] = {"user_seconds": seconds * repeat, "system_seconds": 0.0}
            cpu = {"user_seconds": repeat, "system_seconds": 0.0}
            cell.result["brokers"] = [{"program": "postgres", "version": "15.1", "was_there": False, "cpu": cpu}]
            load.scenarios[scenario["name"]] = cell
    return load
