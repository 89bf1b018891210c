#!/usr/bin/env python3
"""A bench binary without a bench: speaks the harness's interface, measures nothing, and misbehaves where `FAKE_TROUBLE`
in its own folder says so (`<row id> hang|crash|lose|refuse|refuse_once`; what hangs has made a store, and has started a
process in a group of its own). Times follow from the ids, so that tests know what to expect.

The runner passes on no environment of ours, hence the file beside it. Imports stand where they are needed, since a pair
starts two of these, and a run hundreds.
"""

import os
import sys

HOME, _, NAME = os.path.abspath(__file__).rpartition("/")
LAYER = NAME.partition("-")[0]
SENTINELS = ("integers", "byte_scan", "copy", "chase")
BASE_NS = {
    **dict.fromkeys(SENTINELS, 500.0),
    "read": 1000.0,
    "create": 4000.0,
    "update": 8000.0,
    "delete": 3000.0,
    "mixed": 2000.0,
}


def facts(operation: str, subject: str, indexes: int, threads: int) -> dict[str, object]:
    floor = {"id": f"{LAYER}/{operation}/floor/{indexes}_index_{threads}t", "at_least": 0.5, "aim": 0.99}
    return {
        "op": f"{operation} one record",
        "unit": "records",
        "units_per_operation": 1,
        "threads": threads,
        "clock": "wall",
        "changes_store": True,
        "capacity": None,
        "turn_operations": 10,
        "durability": None,
        "data_set": "none",
        "state": "none",
        "indexes": indexes,
        "bytes_per_operation": None,
        "floor": floor if subject == "strata" and threads == 1 and indexes == 0 else None,
        "against": [f"{LAYER}/read/strata/0_index_1t"]
        if operation == "read" and subject == "strata" and indexes == 1
        else [],
        "depth": "quick",
        "allocations_at_most": None,
    }


def rows() -> dict[str, dict[str, object]]:
    if LAYER == "harness":
        return {f"harness/{operation}/sentinel/0": facts(operation, "sentinel", 0, 1) for operation in SENTINELS}
    found = {}
    for operation in ("create", "read"):
        for subject, indexes, threads in (("strata", 0, 1), ("strata", 1, 1), ("strata", 0, 8), ("floor", 0, 1)):
            found[f"{LAYER}/{operation}/{subject}/{indexes}_index_{threads}t"] = facts(
                operation, subject, indexes, threads
            )
    return found


def cost_ns(id: str) -> float:
    _, operation, subject, case = id.split("/")
    return BASE_NS[operation] * (0.8 if subject == "floor" else 1 + int(case[0]))


def trouble(id: str) -> str:
    path = f"{HOME}/FAKE_TROUBLE"
    if os.path.exists(path):
        with open(path) as file:
            return dict(line.split() for line in file).get(id, "")
    return ""


def seen(id: str) -> dict[str, object]:
    found: dict[str, object] = {
        "allocations_per_operation": 2.0,
        "counters": {"bytes_written": 7},
        "latencies": {},
        "measures": {},
    }
    if "8t" in id:
        quantiles = {"p50_ns": 900.0, "p95_ns": 1500.0, "p99_ns": 2000.0, "p999_ns": None}
        found["latencies"] = {"read": {"count": 1000, "mean_ns": 1000.0, "max_ns": 3000, **quantiles}}
        found["measures"] = {"size_on_disk": {"value": 1 << 20, "unit": "bytes"}}
    return found


def write_facts(ran: set[str]) -> None:
    folder = os.environ.get("STRATA_FACTS_DIR")
    if folder:
        import json

        said = {id: one | (seen(id) if id in ran else {}) for id, one in rows().items()}
        content = {
            "schema": 2,
            "layer": LAYER,
            "engine": {"cache_bytes": 1},
            "process": {"file_system": "ext4"},
            "rows": said,
        }
        with open(f"{folder}/{os.getpid()}.json", "w") as file:
            json.dump(content, file)


def misbehave(id: str) -> None:
    if trouble(id) == "hang":
        import subprocess
        import tempfile
        import time

        subprocess.Popen(["sleep", "300"], process_group=0)
        tempfile.mkdtemp(dir=os.environ.get("STRATA_BENCH_DIR"))
        open(f"{HOME}/WAITING", "w").close()
        time.sleep(3600)
    if trouble(id) == "crash":
        print(f"thread 'main' panicked at benches/{LAYER}.rs:1:1:\nthe engine said no", file=sys.stderr)
        sys.exit(101)
    once = f"{HOME}/REFUSED-{id.replace('/', '-')}"
    if trouble(id) == "refuse" or (trouble(id) == "refuse_once" and not os.path.exists(once)):
        open(once, "w").close()
        print("strata-harness: refused: Busy", file=sys.stderr)
        sys.exit(101)


def sample(pattern: str, size: int) -> None:
    import json
    import re
    from pathlib import Path

    ran: set[str] = set()
    for number, id in enumerate(rows()):
        if not re.search(pattern, id):
            continue
        print(f"Benchmarking {id}", flush=True)
        misbehave(id)
        folder = Path(os.environ["CRITERION_HOME"]) / f"cut_{number}" / "new"
        folder.mkdir(parents=True)
        (folder / "benchmark.json").write_text(json.dumps({"group_id": "g", "full_id": id}))
        times = [cost_ns(id) * 100] * size
        (folder / "sample.json").write_text(
            json.dumps({"sampling_mode": "Flat", "iters": [100.0] * size, "times": times})
        )
        ran.add(id)
        write_facts(ran)


def take_turns(path: str) -> None:
    import _socket

    broker = _socket.socket(_socket.AF_UNIX)
    broker.connect(path)

    def ask(text: str) -> str:
        broker.send(f"{text}\n".encode())
        answer = b""
        while not answer.endswith(b"\n"):
            answer += broker.recv(100) or b"\n"
        return answer.decode().strip()

    for id in rows():
        if ask(f"row {id}") != "skip":
            misbehave(id)
            operations, turns = map(int, ask(f"meet {cost_ns(id)} 0").split())
            for _ in range(turns):
                if ask("ready") != "go":
                    break
                broker.send(f"done {round(operations * cost_ns(id))}\n".encode())
            ask("over")
            if trouble(id) == "lose":
                sys.exit("3 records of 128 are missing")


def main() -> None:
    write_facts(set())
    if "--list" in sys.argv:
        print("\n".join(f"{id}: benchmark" for id in rows()))
    elif "STRATA_TURN" in os.environ:
        take_turns(os.environ["STRATA_TURN"])
    else:
        assert os.environ["STRATA_DRIVEN"] == "1" and "--noplot" in sys.argv
        last = sys.argv[-1]
        sample(last if last.startswith("^") else "", int(sys.argv[sys.argv.index("--sample-size") + 1]))


main()
