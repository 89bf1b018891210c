#!/usr/bin/env python3
"""A load tool that measures nothing: stores a result that the real one once made, under the name of the scenario. A
line `SCENARIO refuse|skip|break|fail|forget|wait` in `FAKE_TROUBLE` beside it lets that scenario go wrong. Of a pair, a
side with `--no-tls` has seven tenths of the CPU, and a third of a percent more or less from pair to pair; one with
`--rate` fails a hundred requests."""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

HOME = Path(__file__).absolute().parent
RESULT = HOME / "load_result.json"


def stored(name: str, folder: Path, side: str, cpu: float, lossy: bool) -> str:
    """Stores a result of a side of a pair; returns its id."""
    found = json.loads(RESULT.read_text())
    found["id"] = f"{name}-{side}"
    found["scenario"]["name"] = name
    found["processes"]["server"]["user_seconds"] *= cpu
    if lossy:
        found["total"] |= {"ok": found["total"]["ok"] - 100, "failed": {"status_503": 100}}
    if sys.argv[2] in troubles:
        found |= {"validity": "invalid", "broken": ["T3: sent is not ok + failed + censored"]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{found['id']}.json").write_text(json.dumps(found))
    return f"{name}-{side}"


trouble = HOME / "FAKE_TROUBLE"
troubles = dict(line.split() for line in trouble.read_text().splitlines()) if trouble.exists() else {}
if sys.argv[1] == "pair":
    at = sys.argv.index("--")
    folder = Path(sys.argv[sys.argv.index("--results") + 1])
    sides = [sys.argv[2:at], sys.argv[at + 1 :]]
    noise = [1 + (zlib.crc32(f"{folder.name}{side}".encode()) % 7 - 3) / 900 for side in "ab"]
    cpu = [(0.7 if "--no-tls" in words else 1.0) * noise for words, noise in zip(sides, noise)]
    print(
        json.dumps(
            [stored(words[0], folder, side, cpu, "--rate" in words) for words, side, cpu in zip(sides, "ab", cpu)]
        )
    )
    sys.exit(0)
if sys.argv[1] != "run":
    print("the load tool itself:", *sys.argv[1:])
    sys.exit(1)
if "--plan" in sys.argv:
    name = Path(sys.argv[2]).stem
    if troubles.get(name) == "refuse":
        print(f"load: {name}.toml: load.connections: it must be above 0", file=sys.stderr)
        sys.exit(2)
    print(
        json.dumps(
            {
                "run": [{"name": name, "seconds": 10.0}],
                "not_run": {"images": "no pictures"} if name == "quota-static" else {},
            }
        )
    )
    sys.exit(0)
name, folder = Path(sys.argv[2]).stem, Path(sys.argv[sys.argv.index("--results") + 1])
found = json.loads(RESULT.read_text())
found["id"] = f"{name}-1-{os.getpid()}"
found["scenario"]["name"] = name
match troubles.get(name):
    case "skip":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.skipped").write_text("no control group")
        sys.exit(1)
    case "break":
        found |= {"validity": "invalid", "broken": ["T3: sent is not ok + failed + censored"]}
    case "fail":
        found["objectives"] = [
            {
                "objective": {"operation": None, "classes": ["read"], "bound": {"throughput_at_least": 1e6}},
                "measured": found["throughput"],
                "outcome": "fail",
            }
        ]
    case "forget":
        sys.exit(0)
    case "wait":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
        server = subprocess.Popen(["sleep", "300"])
        print("waiting", server.pid, file=sys.stderr, flush=True)
        time.sleep(60)
folder.mkdir(parents=True, exist_ok=True)
(folder / f"{found['id']}.json").write_text(json.dumps(found))
print(f"{name}: a table; flags: {' '.join(sys.argv[3:])}")
sys.exit(1 if name in troubles else 0)
