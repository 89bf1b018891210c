"""Where things lie in the checkout.

Why a module: every path that the runner writes to is named here once, so that what has to be ignored by git, or may be deleted, can be
read off one page. The root is the folder that holds this package, never the current directory.
"""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
"""The checkout."""

BENCHES = ROOT / "benches"
"""The sources of the benches, one file a layer."""

SCENARIOS = ROOT / "load" / "scenarios"
"""The scenarios of load tests, one file each."""

BASELINES = ROOT / "baselines"
"""Runs that were given a name; committed."""

BUT_BASELINES = ("--", ".", f":!{BASELINES.name}")
"""For git: all paths but those of results that were kept, which change nothing of what is measured next."""

RUNS = ROOT / "runs"
"""Every run: `<run>.json`, and beside it the folder `<run>/` with raw samples and logs; ignored by git."""

LOAD_BASELINES = BASELINES / "load"
"""Load tests that were given a name; committed."""

CALIBRATION = ROOT / "target" / "load" / "calibration"
"""What the client of load tests can do (`load calibrate`); ignored by git."""

LAST_BUILD = RUNS / "last-build.json"
"""Which bench binaries the last build made: lets `list` answer without building."""

COSTS = RUNS / "costs.json"
"""Seconds that the set-up of each row took last time: makes the next estimate better, and nothing depends on it."""

VENV = ROOT / ".venv"
"""The Python that every command runs in, with the packages of requirements.txt; ignored by git."""

CARGO_CONFIG = ROOT / ".cargo" / "config.toml"
"""The flags of every build."""

LOCAL_CARGO_CONFIG = ROOT / ".cargo" / "local.toml"
"""Where builds in this checkout find libclang; included by `.cargo/config.toml`, ignored by git."""

LIBCLANG = ROOT / ".cargo" / "libclang"
"""The wheel of libclang; ignored by git."""

_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_CACHE = _CACHES / "strata"

LOCK = _CACHE / "lock"
"""Held while a run measures: two runs at once would measure each other, whichever checkouts they are of."""

BENCH_CACHE = _CACHES / "strata-bench"
"""Where stores of benches lie if the system's folder is in memory (benches/harness/src/folders.rs)."""

COMPARE_CACHE = Path(os.environ.get("STRATA_COMPARE_DIR") or _CACHE / f"compare-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}").absolute()
"""Where the two sides of a comparison are built and kept: may be deleted, and RocksDB is then copied or compiled again. Outside the
checkout, since cargo joins the rustflags of every `.cargo/config.toml` above what it builds."""


def shown(path: Path) -> str:
    """The path as a person would type it in the checkout; bytes of a name that are no text are shown as their numbers."""
    typed = os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)
    return os.fsencode(typed).decode(errors="backslashreplace")
