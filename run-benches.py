#!/usr/bin/env python3
"""Measures Strata layer by layer: `python3 run-benches.py --help`. The thin start; everything else is in
`run_benches/`."""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older one says what is needed
    print(
        f"run-benches.py needs Python 3.11 or newer, and this is {sys.version.split()[0]}; with Debian 12 or later: apt-get install python3",
        file=sys.stderr,
    )
    sys.exit(2)

import _signal  # Python's own, which no folder of PYTHONPATH hides.

# until `interrupts.heed`, also over the next line
_signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP})

# The folders of PYTHONPATH stand before Python's own library, and may have a module of the same name.
if not sys.flags.isolated:
    os.execv(sys.executable, [sys.executable, "-I", os.path.abspath(__file__), *sys.argv[1:]])

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from run_benches import interrupts
from run_benches.cli import command_line

code = command_line.main(sys.argv[1:])
interrupts.wait_for_heed()
sys.exit(code)
