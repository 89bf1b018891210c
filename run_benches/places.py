"""Where things lie in the checkout.

Why a module: every path that the runner writes to is named here once, so that what has to be ignored by git, or may be
deleted, can be read off one page. The root is the folder that holds this package, never the current directory.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from run_benches.errors import UserError

ROOT = Path(__file__).absolute().parent.parent
"""The checkout."""

BENCHES = ROOT / "benches"
"""The sources of the benches, one file a layer."""

SCENARIOS = ROOT / "load" / "scenarios"
"""The scenarios of load tests, one file each."""

BASELINES = ROOT / "baselines"
"""Runs that were given a name; committed."""

REFERENCE = BASELINES / "reference"
"""The runs that the committed pages are rendered from: one of each layer."""

BUT_RESULTS = ("--", ".", f":!{BASELINES.name}", ":!docs", ":!README.md")
"""For git: all paths but those of results that were kept, and of what is written about them, which change nothing of
what is measured next."""

RUNS = ROOT / "runs"
"""Every run: `<run>.json`, and beside it the folder `<run>/` with raw samples and logs; ignored by git."""

LOAD_BASELINES = BASELINES / "load"
"""Load tests that were given a name; committed."""

LOAD_REFERENCE = LOAD_BASELINES / "reference"
"""The load tests that the committed pages are rendered from: one of each scenario."""

CALIBRATION = ROOT / "target" / "load" / "calibration"
"""The limits of the client of load tests, as measured (`load calibrate`); ignored by git."""

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

_WITHOUT_HOME = Path(os.environ.get("TMPDIR") or "/tmp").absolute() / f"strata-{os.getuid()}"
"""In place of the user's cache folder, where there is none that can be written."""


def _cache() -> Path:
    """Our part of the user's cache folder. (A relative path in the variable does not count: XDG Base Directory
    Specification.)"""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (named if named.is_absolute() else Path(os.path.expanduser("~"), ".cache")) / "strata"
    existing = next(
        parent for parent in (folder, *folder.parents) if os.path.lexists(parent) or parent == parent.parent
    )
    usable = folder.is_absolute() and existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    return folder if usable else _WITHOUT_HOME


CACHE = _cache()

LOCK = CACHE / "lock"
"""Held while a run measures: two runs at once would measure each other, whichever checkouts they are of."""

BENCH_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "strata-bench")
"""Where stores of benches lie if the system's folder is in memory (benches/harness/src/folders.rs)."""

COMPARE_CACHE = Path(
    os.environ.get("STRATA_COMPARE_DIR") or CACHE / f"compare-{hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:8]}"
).absolute()
"""Where the two sides of a comparison are built and kept: may be deleted, and RocksDB is then copied or compiled again.
Outside the checkout, since cargo joins the rustflags of every `.cargo/config.toml` above what it builds."""

LIBRARIES = CACHE / "libraries"
"""RocksDB for programs that embed the store, a folder for each compilation (`library`), which their configurations
name: may be deleted, and `library` then makes it again."""


def use_cache() -> None:
    """Has libraries use our cache folder too. Complains if what stands in for that of the user is another user's: its
    name can be guessed, and what is built there is run."""
    os.environ |= {"MPLCONFIGDIR": str(CACHE / "matplotlib"), "MPLBACKEND": "agg"}
    if CACHE == _WITHOUT_HOME:
        with suppress(FileExistsError):
            CACHE.mkdir(mode=0o700, parents=True)
        if CACHE.lstat().st_uid != os.getuid() or CACHE.is_symlink() or not CACHE.is_dir():
            raise UserError(f"{CACHE} is no folder, or another user's: set XDG_CACHE_HOME to a folder of yours")


def shown(path: Path) -> str:
    """The path as a person would type it in the checkout; bytes of a name that are no text are shown as their numbers."""
    typed = os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)
    return os.fsencode(typed).decode(errors="backslashreplace")
