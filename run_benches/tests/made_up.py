"""Rows of runs that nobody measured, for the tests of the page: their figures are chosen, so that what is said of them is known."""

from run_benches.runs import Bench, Facts, Latency, Measure, Place, Run

SPREAD = (0.98, 1.03, 1.0, 0.99, 1.01)
"""What the processes measured, over the time of the row."""


def bench(middle_ns: float, op: str, unit: str = "operations", **facts: object) -> Bench:
    """A row that ran in five processes."""
    points = [round(middle_ns * factor, 3) for factor in SPREAD]
    settings: dict[str, object] = {"units_per_operation": 1.0, "threads": 1, "durability": "soft", "data_set": "records of about 1 KB"}
    return Bench("ran", [], Facts(op=op, unit=unit, **(settings | facts)), points, 2.0)  # type: ignore[arg-type]


def planned(run: Run, rows: dict[str, Bench]) -> Run:
    """The run with these rows, too."""
    run.benches |= rows
    return run


def scaling() -> dict[str, Bench]:
    """READ and CREATE by threads; READ and a range by records; an insert by indexes."""
    rows = {}
    for threads, read_ns, create_ns in ((1, 1000, 4000), (2, 520, 2600), (4, 540, 3900), (8, 560, 4400)):
        words = "thread" if threads == 1 else "threads"
        for verb, time_ns in (("read", read_ns), ("create", create_ns)):
            rows[f"scaling/{verb}/strata/{threads}_{words}"] = bench(time_ns, f"{verb}s one record", threads=threads, scale=Place("threads", threads))
    for records, read_ns, range_ns in ((1e3, 900, 20_000), (1e4, 950, 20_100), (1e5, 1003, 20_050), (1e6, 1060, 19_980)):
        rows[f"scaling/read/strata/{records:.0f}_records"] = bench(read_ns, "reads one small record", scale=Place("records", records))
        rows[f"scaling/range/strata/{records:.0f}_records"] = bench(range_ns, "reads a range", scale=Place("records", records))
    for indexes, time_ns in enumerate((2000, 2700, 3400)):
        rows[f"scaling/insert/strata/{indexes}_indexes"] = bench(time_ns, "inserts one record", scale=Place("indexes", indexes))
    return rows


def latency(count: int, p50_ns: float, max_ns: float) -> Latency:
    """As many quantiles as so many operations have."""
    p50, p95, p99, p999 = (p50_ns * factor if count >= least else None for least, factor in ((20, 1), (200, 2), (1000, 4), (10_000, 9)))
    return Latency(count, p50_ns * 1.2, p50, p95, p99, p999, max_ns)


def macro() -> dict[str, Bench]:
    """Two workloads: YCSB A with latencies of two kinds, and a bulk load with measures alone."""
    mixed = bench(3000, "half of the operations read, half update", workload=True, threads=8)
    mixed.latencies = {
        "read": [latency(50_000, 900, 4e6), latency(50_000, 940, 7e6)],
        "update": [latency(500, 5000, 2e6)],
        "never": [],
    }
    mixed.measures = {"size_on_disk": Measure("bytes", [10_485_760.0, 11_534_336.0]), "write_amplification": Measure("ratio", [1.5, 1.5])}
    load = bench(4000, "loads one record", unit="records", workload=True)
    load.measures = {"stall_time": Measure("seconds", [0.25]), "peak_memory": Measure("bytes", [])}
    return {"macro/ycsb_a/strata/zipfian": mixed, "macro/bulk_load/strata/1000000_records": load}
