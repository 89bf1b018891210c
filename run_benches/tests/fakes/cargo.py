#!/usr/bin/env python3
"""A cargo that builds at once: says of each fake bench or program beside it that it has been made, or fails where
`BROKEN` lies beside it. Where `SLOW` does, it waits for a compiler that never ends, and for another one in a group of
its own."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).absolute().parent

kind = "bench" if "bench" in sys.argv else "bin" if "build" in sys.argv else None
if kind:
    if (HOME / "BROKEN").exists():
        print("error[E0308]: mismatched types", file=sys.stderr)
        sys.exit(101)
    if (HOME / "SLOW").exists():
        tempfile.mkdtemp(prefix="rustc")
        compilers = [subprocess.Popen(["sleep", "300"], process_group=group) for group in (None, 0)]
        (HOME / "WAITING").touch()
        compilers[0].wait()
    for path in sorted(HOME.glob("*-fake" if kind == "bench" else "*-program")):
        target = {"kind": [kind], "name": path.name.partition("-")[0]}
        print(json.dumps({"reason": "compiler-artifact", "target": target, "executable": str(path)}))
    print(json.dumps({"reason": "build-finished", "success": True}))
