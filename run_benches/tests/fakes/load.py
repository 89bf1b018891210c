#!/usr/bin/env python3
"""A load tool that measures nothing: stores a result that the real one once made, under the name of the scenario. A line
`SCENARIO refuse|break|fail|forget|wait` in `FAKE_TROUBLE` beside it lets that scenario go wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(__file__).absolute().parent
RESULT = HOME / "load_result.json"

if sys.argv[1] != "run":
    print("the load tool itself:", *sys.argv[1:])
    sys.exit(1)
name, folder = Path(sys.argv[2]).stem, Path(sys.argv[sys.argv.index("--results") + 1])
trouble = HOME / "FAKE_TROUBLE"
troubles = dict(line.split() for line in trouble.read_text().splitlines()) if trouble.exists() else {}
found = json.loads(RESULT.read_text())
found["id"] = f"{name}-{os.getpid()}"
found["scenario"]["name"] = name
match troubles.get(name):
    case "refuse":
        print(f"load: {name}.toml: load.connections: it must be above 0", file=sys.stderr)
        sys.exit(2)
    case "break":
        found |= {"validity": "invalid", "broken": ["T3: sent is not ok + failed + censored"]}
    case "fail":
        found["objectives"] = [{"objective": {"operation": None, "throughput_at_least": 1e6}, "measured": found["throughput"], "outcome": "fail"}]
    case "forget":
        sys.exit(0)
    case "wait":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
        server = subprocess.Popen(["sleep", "300"])
        print("waiting", server.pid, file=sys.stderr, flush=True)
        time.sleep(60)
folder.mkdir(parents=True, exist_ok=True)
(folder / f"{found['id']}.json").write_text(json.dumps(found))
(folder / f"{found['id']}.hlog").write_text(RESULT.with_suffix(".hlog").read_text())
print(f"{name}: a table; flags: {' '.join(sys.argv[3:])}")
sys.exit(1 if name in troubles else 0)
