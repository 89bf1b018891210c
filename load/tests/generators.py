#!/usr/bin/env python3
"""Measures the same server with load, wrk and oha in short windows that take turns, and says whether they agree.

The server has one processor and the clients the other. Each tool asks for the same on the same number of connections:
for a list of which the server makes an empty answer from a thousand rows, so that the server alone limits the
throughput and all tools must find the same; and for one row, which costs a client about as much as the server, so that
it shows what a request costs the client. What is printed is the ratio of ours to a peer's within a turn, its median and
its range over the turns.

    python3 load/tests/generators.py throughput     exit 1 unless within 5 % of both for lists, and within twice wrk's CPU for a row
    python3 load/tests/generators.py pause          what each tool sees of a second in which the server stands still
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SERVER_CPU, CLIENT_CPU = "0", "1"
CONNECTIONS = 50
ROWS = 1000

SCENARIO = """
name = "generators"
about = "what the load generators ask for"
tls = false
effects = [{ counter = "COUNTER", operations = ["get"], each = 1.0 }]

[data]
table = "Product"
rows = ROWS
schema = "type Product @table @export { id: ID @primaryKey text: String }"
row = '{{"id":"p{n}","text":"{filler:900}"}}'

[load]
connections = CONNECTIONS
warm_up_requests = CONNECTIONS
LOOP

[[operations]]
name = "get"
weight = 1.0
method = "GET"
path = "PATH"
expect = { status = 200, EXPECTED }
"""


@dataclass(frozen=True)
class Target:
    """The path that is asked for, what a right answer has, and the server's counter that each request raises by one."""

    path: str
    expected: str
    counter: str


ONE = Target("/Product/p17", 'has = { "/id" = "p17" }', "gets")
NONE_OF_ALL = Target("/Product?text==nothing", "rows = 0", "scans")


@dataclass
class Seen:
    """The report of a tool on a window, and the CPU it used for each of its requests; times in seconds."""

    rate: float
    requests: int
    cpu_us: float
    p50: float | None
    p99: float | None
    longest: float


class Bench:
    """A server on one processor, and the tools on another."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        self.load = str(binaries / "load")
        schema, ready = folder / "schema.graphql", folder / "ready"
        schema.write_text("type Product @table @export { id: ID @primaryKey text: String }\n")
        line = ["taskset", "-c", SERVER_CPU, str(binaries / "strata"), "serve", "--schema", str(schema)]
        line += ["--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", "--ready-file", str(ready)]
        self.server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (ready.exists() and ready.read_text().endswith("\n")):
            time.sleep(0.05)
        self.url = ready.read_text().strip()
        self.target = ONE
        rows = json.dumps([{"id": f"p{number}", "text": "x" * 900} for number in range(ROWS)]).encode()
        headers = {"content-type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/Product", rows, headers)).close()

    def client(self, *line: str) -> tuple[str, float]:
        """Runs a client on its processor: what it printed, and the CPU it used, in seconds."""

        def cpu() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        before = cpu()
        done = subprocess.run(["taskset", "-c", CLIENT_CPU, *line], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not done.stdout:
            sys.exit(f"{' '.join(line)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout, cpu() - before

    def ours(self, loop: str, connections: int = CONNECTIONS) -> Seen:
        """A closed loop of so many seconds, or an open one."""
        scenario = self.folder / "generators.toml"
        target = {"PATH": self.target.path, "EXPECTED": self.target.expected, "COUNTER": self.target.counter}
        text = SCENARIO
        for word, value in {"CONNECTIONS": str(connections), "ROWS": str(ROWS), "LOOP": loop, **target}.items():
            text = text.replace(word, value)
        scenario.write_text(text)
        results = Path(tempfile.mkdtemp(dir=self.folder))
        line = [self.load, "run", str(scenario), "--base-url", self.url, "--results", str(results)]
        self.client(*line, "--has-data")
        run = json.loads(next(results.glob("*.json")).read_text())
        if run["broken"]:
            sys.exit(f"{results}: {run['broken']}")
        client, total = run["processes"]["client"], run["total"]
        times = run["cells"][0]["response"] or run["cells"][0]["service"]
        quantiles = {found["quantile"]: found["value"] for found in times["quantiles"]}
        seconds = {at: value / 1e9 for at, value in quantiles.items() if value is not None}
        cpu = client["user_seconds"] + client["system_seconds"]
        longest = times["max"] / 1e9
        return Seen(
            run["throughput"], total["ok"], cpu / total["ok"] * 1e6, seconds.get(0.5), seconds.get(0.99), longest
        )

    def wrk(self, seconds: int, connections: int = CONNECTIONS) -> Seen:
        """Its only loop is closed."""
        line = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", self.url + self.target.path]
        said, cpu = self.client(*line)

        def time_of(pattern: str) -> float:
            found = re.search(pattern + r"\s+([\d.]+)(us|ms|s)", said)
            assert found, said
            return float(found[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[found[2]]

        rate, requests = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
        assert rate and requests and "Non-2xx" not in said, said
        longest = time_of(r"Latency\s+[\d.]+\w+\s+[\d.]+\w+")
        count = int(requests[1])
        return Seen(float(rate[1]), count, cpu / count * 1e6, time_of("50%"), time_of("99%"), longest)

    def oha(self, seconds: int, connections: int = CONNECTIONS, *more: str) -> Seen:
        """A closed loop, or with `-q` a rate."""
        line = ["oha", "--no-tui", "--output-format", "json", "-z", f"{seconds}s", "-c", str(connections), *more]
        said, cpu = self.client(*line, self.url + self.target.path)
        found = json.loads(said)
        count = sum(found["statusCodeDistribution"].values())
        assert set(found["statusCodeDistribution"]) == {"200"}, found["statusCodeDistribution"]
        summary, at = found["summary"], found["latencyPercentiles"]
        return Seen(count / summary["total"], count, cpu / count * 1e6, at["p50"], at["p99"], summary["slowest"])

    def stop(self) -> None:
        """Ends the server."""
        self.server.terminate()
        self.server.wait()


def ratio_line(what: str, ratios: list[float]) -> str:
    """A ratio with its spread."""
    return f"{what:<52} median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}"


def throughput(bench: Bench, turns: int, seconds: int) -> bool:
    """Returns whether the tools agree where the server is the bottleneck, and ours costs at most twice wrk's CPU where
    the client is."""
    good = True
    for target in (NONE_OF_ALL, ONE):
        bench.target = target
        print(target.path)
        for peer, (rate, cost) in medians(bench, turns, seconds).items():
            good &= abs(rate - 1) <= 0.05 if target is NONE_OF_ALL else peer != "wrk" or cost <= 2
    return good


def medians(bench: Bench, turns: int, seconds: int) -> dict[str, tuple[float, float]]:
    """Windows in turn, the order reversed each time: for each peer the ratios of requests a second and of the client's
    CPU a request."""
    tools: dict[str, Callable[[], Seen]] = {
        "load": lambda: bench.ours(f"seconds = {seconds}.0"),
        "wrk": lambda: bench.wrk(seconds),
        "oha": lambda: bench.oha(seconds),
    }
    bench.ours("seconds = 1.0")
    seen: dict[str, list[Seen]] = {name: [] for name in tools}
    for turn in range(turns):
        for name in sorted(tools, reverse=turn % 2 == 1):
            seen[name].append(tools[name]())
            print(f"turn {turn} {name:<5}{seen[name][-1].rate:10.0f}/s {seen[name][-1].cpu_us:6.2f} us CPU a request")
    found: dict[str, tuple[float, float]] = {}
    for peer in ("wrk", "oha"):
        pairs = list(zip(seen["load"], seen[peer], strict=True))
        rates = [ours.rate / theirs.rate for ours, theirs in pairs]
        costs = [ours.cpu_us / theirs.cpu_us for ours, theirs in pairs]
        print(ratio_line(f"requests a second, load over {peer}", rates))
        print(ratio_line(f"client CPU a request, load over {peer}", costs))
        found[peer] = statistics.median(rates), statistics.median(costs)
    return found


def pause(bench: Bench) -> bool:
    """A second of SIGSTOP in ten, once for each tool."""
    rate, connections, seconds = 1000, 10, 10
    schedule = f'schedule = {{ shape = "constant", rate = {rate}.0, seconds = {seconds}.0 }}\nqueue = {2 * rate}'
    tools: dict[str, Callable[[], Seen]] = {
        f"load, open loop, {rate}/s": lambda: bench.ours(schedule, connections),
        "load, closed loop": lambda: bench.ours(f"seconds = {seconds}.0", connections),
        "wrk": lambda: bench.wrk(seconds, connections),
        "oha": lambda: bench.oha(seconds, connections),
        f"oha -q {rate}": lambda: bench.oha(seconds, connections, "-q", str(rate)),
        f"oha -q {rate} --latency-correction": lambda: bench.oha(
            seconds, connections, "-q", str(rate), "--latency-correction"
        ),
    }
    bench.ours("seconds = 1.0")

    def stand_still() -> None:
        time.sleep(4)
        bench.server.send_signal(signal.SIGSTOP)
        time.sleep(1)
        bench.server.send_signal(signal.SIGCONT)

    print("closed form: who arrives t seconds into the second waits 1 - t, so p95 of ten seconds is 0.5 s, p99 0.9 s")
    for name, tool in tools.items():
        still = threading.Thread(target=stand_still)
        still.start()
        seen = tool()
        still.join()
        times = [f"{value * 1000:9.2f}" if value is not None else "        -" for value in (seen.p50, seen.p99)]
        print(f"{name:<36} {seen.requests:8} requests, p50 {times[0]} ms, p99 {times[1]} ms, max {seen.longest:6.3f} s")
    return True


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "pause"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    target = Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    parser.add_argument("--binaries", type=Path, default=target / "release", help="where load and strata are")
    line = parser.parse_args()
    missing = [tool for tool in ("wrk", "oha", "taskset") if shutil.which(tool) is None]
    if missing or len(os.sched_getaffinity(0)) < 2:
        print(f"skipped: not there: {', '.join(missing) or 'a second processor'}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(line.binaries, Path(folder))
        try:
            good = throughput(bench, line.turns, line.seconds) if line.what == "throughput" else pause(bench)
        finally:
            bench.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
