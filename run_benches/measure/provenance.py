"""Where figures come from: the revision of this checkout, and how its binaries were compiled."""

import hashlib
import sys
from collections.abc import Sequence

from run_benches import processes, repository
from run_benches.places import BUT_BASELINES, ROOT
from run_benches.setup import toolchain
from run_benches.store import fingerprint, runs
from run_benches.store.runs import Build, Tool


def tool(measured: Sequence[str] = fingerprint.MEASURED) -> Tool:
    """The revision of this checkout, and the fingerprint of what the figures depend on; says so if git does not know them."""
    lock = ROOT / "Cargo.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""
    if reason := repository.refusal():
        print(f"the revision is not known ({reason}), so these figures will not be called fresh or stale", file=sys.stderr)
        return Tool(runs.UNKNOWN, None, digest, None)
    dirty = bool(repository.git("status", "--porcelain", "--untracked-files=normal", *BUT_BASELINES))
    return Tool(repository.git("rev-parse", "HEAD"), dirty, digest, fingerprint.of_checkout(measured))


def how_built() -> Build:
    """The compiler and its flags."""
    return Build(_said("rustc", "--version") or runs.UNKNOWN, " ".join(toolchain.flags()), "release")


def _said(*command: str) -> str:
    try:
        done = processes.told(command, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
