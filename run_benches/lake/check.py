"""Checks of a table beside its stream, as the load tool runs them: what they found as JSON on standard output, exit
code 0 if all is right.

`every-event-once` copies what is left, then holds all rows, by both readers, against all events. `reads` asks both
readers four questions, whose answers must agree, and looks at how many files the narrow ones touch. `rounds` measures
what copying takes, with a stream of its own.
"""

import argparse
import importlib
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from run_benches import processes
from run_benches.errors import UserError
from run_benches.lake import readers
from run_benches.lake.copying import Copier, Server
from run_benches.lake.readers import DuckDb, Lakehouse, hold, pyiceberg_table

TIMES = 3
"""The number of times that a question is asked; the median counts."""

INGESTION = timedelta(seconds=5)

OFFSETS = 1000
"""The length of the range of offsets that is asked for."""


def main(lakehouse: Lakehouse, arguments: list[str]) -> int:
    """Makes a check; returns the exit code."""
    parser = argparse.ArgumentParser(prog="lake-check")
    checks = {"every-event-once": every_event_once, "reads": reads, "rounds": rounds}
    parser.add_argument("check", choices=list(checks))
    parser.add_argument("--url", required=True)
    parser.add_argument("--stream", required=True)
    options = parser.parse_args(arguments)
    server = Server.at(options.url)
    found, is_right = checks[options.check](server, lakehouse, options.stream)
    print(json.dumps(found))
    return 0 if is_right else 1


def every_event_once(server: Server, lakehouse: Lakehouse, stream: str) -> tuple[dict[str, Any], bool]:
    """Copies the rest, and holds the table against the stream."""
    copied = Copier(server, lakehouse, stream).once()
    if copied.returncode != 0:
        return {"copying": copied.stderr.strip()}, False
    events = dict(server.events(stream))
    held = {name: hold(events, read(lakehouse, stream)) for name, read in readers.READERS.items()}
    found: dict[str, Any] = {"events": len(events)}
    for name, one in held.items():
        found |= {f"rows, {name}": one.rows, f"wrong, {name}": one.missing + one.twice + one.changed + one.foreign}
    return found, bool(events) and all(one.is_right for one in held.values())


def reads(server: Server, lakehouse: Lakehouse, stream: str) -> tuple[dict[str, Any], bool]:
    """Asks both readers the same."""
    said = importlib.import_module("pyiceberg.expressions")
    table, duckdb = pyiceberg_table(lakehouse, stream), DuckDb(lakehouse, stream)
    # As numbers: for times with zones, DuckDB's Python wants another package.
    begun, ended = duckdb.rows("epoch_us(min(ingested_at)), epoch_us(max(ingested_at))")[0]
    middle = datetime.fromtimestamp((begun + ended) / 2e6, UTC)
    since, until = middle.isoformat(), (middle + INGESTION).isoformat()
    high = server.watermarks(stream, 0)[1]
    first = max(0, high // 2 - OFFSETS // 2)
    questions: list[tuple[str, Any, str]] = [
        ("full scan", said.AlwaysTrue(), ""),
        (
            "five seconds of ingestion",
            said.And(said.GreaterThanOrEqual("ingested_at", since), said.LessThan("ingested_at", until)),
            f"WHERE ingested_at >= '{since}' AND ingested_at < '{until}'",
        ),
        (
            "a range of offsets of one partition",
            said.And(
                said.EqualTo("partition", 0),
                said.GreaterThanOrEqual("offset", first),
                said.LessThan("offset", first + OFFSETS),
            ),
            f'WHERE "partition" = 0 AND "offset" >= {first} AND "offset" < {first + OFFSETS}',
        ),
    ]
    found: dict[str, Any] = {}
    files_of: dict[str, int] = {}
    is_right = True
    for name, filtered, where in questions:
        files = len(list(table.scan(row_filter=filtered).plan_files()))
        by_pyiceberg, pyiceberg_s = _timed(partial(_rows, table, filtered))
        by_duckdb, duckdb_s = _timed(partial(_read, duckdb, where))
        files_of[name] = files
        found |= {
            f"{name}: files": files,
            f"{name}: rows": by_duckdb,
            f"{name}: PyIceberg, s": pyiceberg_s,
            f"{name}: DuckDB, s": duckdb_s,
        }
        is_right &= by_pyiceberg == by_duckdb > 0
    counted, count_s = _timed(lambda: table.scan().count())
    by_duckdb, duckdb_s = _timed(lambda: duckdb.rows("count(*)")[0][0])
    found |= {"count: rows": counted, "count: PyIceberg, s": count_s, "count: DuckDB, s": duckdb_s}
    is_right &= counted == by_duckdb > 0
    is_right &= all(files_of[name] < files_of["full scan"] for name, _, where in questions if where)
    return found, is_right


def _rows(table: Any, filtered: Any) -> int:
    return int(table.scan(row_filter=filtered).to_arrow().num_rows)


def _read(duckdb: DuckDb, where: str) -> int:
    """Reads all columns; the number of rows."""
    return len(
        duckdb.rows('"partition", "offset", epoch_us(ingested_at), timestamp_ms, key, idempotency_key, payload', where)
    )


EVENTS = 100_000
"""Of a round that is measured."""

SNAPSHOTS = (10, 100, 1000)
"""So many are in the table when a commit is timed; the median of as many commits as a tenth of it has."""

KEPT = 100
"""Snapshots that are kept, where the others expire."""

LAGS = {1: 15.0, 10: 40.0}
"""Seconds between commits, and how long events are appended meanwhile."""


def rounds(server: Server, lakehouse: Lakehouse, stream: str) -> tuple[dict[str, Any], bool]:
    """Measures rounds: events a second and CPU of each event, bytes of each, commits by the number of snapshots, and
    the lag."""
    found: dict[str, Any] = {}
    sent = _append(server, stream, 1)
    _copied(server, lakehouse, stream)  # makes the table
    before = _table_bytes(lakehouse, stream)
    walls, cpus = [], []
    for _ in range(TIMES):
        sent += _append(server, stream, EVENTS)
        wall, cpu = _copied(server, lakehouse, stream)
        walls.append(EVENTS / wall)
        cpus.append(cpu / EVENTS * 1e6)
    for name, values, digits in (("events a second", walls, 0), ("CPU of an event, us", cpus, 2)):
        found |= {
            f"{name}, {which}": round(one, digits or None)
            for which, one in zip(("least", "median", "most"), sorted(values), strict=True)
        }
    found["bytes of an event in the table"] = round((_table_bytes(lakehouse, stream) - before) / (TIMES * EVENTS), 1)
    (stats,) = (one for one in server.ask("GET", "/_stats")[1]["streams"] if one["name"] == stream)
    found["bytes of an event in the stream"] = round(sum(part["bytes"] for part in stats["partitions"]) / sent, 1)
    sent += _append(server, stream, max(SNAPSHOTS))
    times = _commits(server, lakehouse, stream, max(SNAPSHOTS) * 2)
    for number in SNAPSHOTS:
        around = times[number - number // 10 - TIMES : number]
        found[f"commit with {number} snapshots, ms"] = round(statistics.median(around), 1)
    sent += _append(server, stream, KEPT)
    times = _commits(server, lakehouse, stream, KEPT)
    found[f"commit with {KEPT} snapshots kept, ms"] = round(statistics.median(times), 1)
    for every_s, lasting_s in LAGS.items():
        more, lags = _lags(server, lakehouse, stream, every_s, lasting_s)
        sent += more
        found |= {
            f"lag with a commit each {every_s} s: p{percent}, s": round(lags[len(lags) * percent // 100], 2)
            for percent in (50, 99)
        }
    counted = len(readers.with_duckdb(lakehouse, stream))
    found["rows"] = counted
    return found, counted == sent


def _append(server: Server, stream: str, number: int) -> int:
    """Appends so many events, and says how many."""
    for begin in range(0, number, 1000):
        events = []
        for at in range(begin, min(begin + 1000, number)):
            payload = {"n": at, "page": f"/articles/{at % 1000}", "agent": "a browser"}
            events.append({"payload": payload, "key": f"visitor {at % 5000}"})
        server.append(stream, events)
    return number


def _copied(server: Server, lakehouse: Lakehouse, stream: str) -> tuple[float, float]:
    """Copies all there is; returns the seconds that it took on the wall and of processors, its start included."""
    copier, began = Copier(server, lakehouse, stream, ["--keep-snapshots", "100000"]), time.monotonic()
    process = processes.start([*copier.command(), "--once"], env=copier.environment(), stdout=processes.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    processes.end(process)
    if process.returncode != 0:
        raise UserError(f"copying ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def _commits(server: Server, lakehouse: Lakehouse, stream: str, kept: int) -> list[float]:
    """Copies what is left, an event a commit; the milliseconds of each."""
    done = Copier(server, lakehouse, stream, ["--commit-bytes", "1", "--keep-snapshots", str(kept)]).once()
    if done.returncode != 0:
        raise UserError(done.stderr)
    return [float(one) for one in re.findall(r"committed in ([0-9.]+) ms", done.stdout)]


def _table_bytes(lakehouse: Lakehouse, stream: str) -> int:
    return sum(pyiceberg_table(lakehouse, stream).inspect.files()["file_size_in_bytes"].to_pylist())


def _lags(server: Server, lakehouse: Lakehouse, stream: str, every_s: int, lasting_s: float) -> tuple[int, list[float]]:
    """Appends while it copies; how many, and the seconds from an event's ingestion to the snapshot that has it, sorted."""
    known = {snapshot.snapshot_id for snapshot in pyiceberg_table(lakehouse, stream).metadata.snapshots}
    copier, sent, began = Copier(server, lakehouse, stream, ["--commit-seconds", str(every_s)]), 0, time.monotonic()
    with processes.started(copier.command(), env=copier.environment(), stdout=processes.DEVNULL):
        while time.monotonic() - began < lasting_s:
            sent += _append(server, stream, 10)
            time.sleep(0.05)
    copier.once()
    table, lags = pyiceberg_table(lakehouse, stream), []
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in known and snapshot.parent_snapshot_id is not None:
            there = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("offset", "ingested_at")).to_arrow()
            before = table.scan(snapshot_id=snapshot.parent_snapshot_id, selected_fields=("offset",)).count()
            newest = there.sort_by("offset").slice(before)
            lags += [snapshot.timestamp_ms / 1000 - one.timestamp() for one in newest["ingested_at"].to_pylist()]
    return sent, sorted(lags)


def _timed(ask: Callable[[], int]) -> tuple[int, float]:
    """Returns the answer to a question, the same each time, and the median of its times in seconds."""
    answers, times = set(), []
    for _ in range(TIMES):
        began = time.monotonic()
        answers.add(ask())
        times.append(time.monotonic() - began)
    return (answers.pop() if len(answers) == 1 else -1), round(statistics.median(times), 4)
