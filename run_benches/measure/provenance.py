"""Where figures come from: the revision of this checkout, and how its binaries were compiled."""

import hashlib
from collections.abc import Sequence

from run_benches import processes
from run_benches.places import BUT_BASELINES, ROOT
from run_benches.setup import toolchain
from run_benches.store import fingerprint
from run_benches.store.runs import Build, Tool


def tool(measured: Sequence[str] = fingerprint.MEASURED) -> Tool:
    """The revision of this checkout, and the fingerprint of what the figures depend on."""
    lock = ROOT / "Cargo.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""
    dirty = bool(_said("git", "status", "--porcelain", *BUT_BASELINES))
    return Tool(_said("git", "rev-parse", "HEAD") or "unknown", dirty, digest, fingerprint.of_checkout(measured))


def how_built() -> Build:
    """The compiler and its flags."""
    return Build(_said("rustc", "--version") or "unknown", " ".join(toolchain.flags()), "release")


def _said(*command: str) -> str:
    try:
        done = processes.told(command, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
