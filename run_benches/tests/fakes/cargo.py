#!/usr/bin/env python3
"""A cargo that builds at once: says of each fake bench beside it that it has been made, or fails where `BROKEN` lies beside it."""

import json
import sys
from pathlib import Path

HOME = Path(__file__).absolute().parent

if "bench" in sys.argv:
    if (HOME / "BROKEN").exists():
        print("error[E0308]: mismatched types", file=sys.stderr)
        sys.exit(101)
    for path in sorted(HOME.glob("*-fake")):
        target = {"kind": ["bench"], "name": path.name.partition("-")[0]}
        print(json.dumps({"reason": "compiler-artifact", "target": target, "executable": str(path)}))
    print(json.dumps({"reason": "build-finished", "success": True}))
