"""Where figures come from: the revision of this checkout, and how its binaries were compiled."""

import hashlib
import subprocess

from run_benches.places import ROOT
from run_benches.setup import toolchain
from run_benches.store import fingerprint
from run_benches.store.runs import Build, Tool


def tool() -> Tool:
    """The revision of this checkout."""
    lock = ROOT / "Cargo.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""
    return Tool(_said("git", "rev-parse", "HEAD") or "unknown", bool(_said("git", "status", "--porcelain")), digest, fingerprint.of_checkout(fingerprint.MEASURED))


def how_built() -> Build:
    """The compiler and its flags."""
    return Build(_said("rustc", "--version") or "unknown", " ".join(toolchain.flags()), "release")


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
