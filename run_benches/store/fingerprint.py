"""Which sources a stored figure speaks of, as one hash: if they have changed since, the figure is stale.

Why not the commit: a sentence in a document makes another commit, and no other program. The hash is over what git calls the content of each
file, so that of a commit and that of a working tree are equal where their files are.
"""

import hashlib
from collections.abc import Sequence

from run_benches import repository
from run_benches.errors import Complaint
from run_benches.places import ROOT

MEASURED = ("src", "benches", "Cargo.toml", "Cargo.lock", ".cargo/config.toml")
"""What the figures of a run depend on."""

LOADED = ("src", "Cargo.toml", "Cargo.lock", ".cargo/config.toml", "load/Cargo.toml", "load/src", "load/scenarios", "load/schedules")
"""What the figures of a load test depend on."""

PAIRING = (
    "benches/harness",
    "run_benches/compare/pairing.py",
    "run_benches/measure/broker.py",
    "run_benches/measure/families.py",
    "run_benches/measure/jobs.py",
    "run_benches/measure/relink.py",
)
"""What the effect of a pair depends on, beside the code that is compared: a pool holds pairs of one of these."""

JUDGING = (
    *PAIRING,
    "run_benches/stats",
    "run_benches/compare/comparison_run.py",
    "run_benches/compare/new_comparison.py",
    "run_benches/calibrate/error_rates.py",
)
"""What our own error rates depend on."""


def of_checkout(paths: Sequence[str]) -> str | None:
    """Of the files of this checkout as they stand; nothing where there is no git."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    files = sorted(file for file in (listed or "").split("\0") if file and (ROOT / file).is_file())
    hashes = _git("hash-object", "--stdin-paths", said="\n".join(files))
    return _digest(zip(hashes.split(), files, strict=True)) if files and hashes else None


def of_commit(commit: str, paths: Sequence[str]) -> str | None:
    """Of the files of a commit; nothing where it is not known here."""
    listed = _git("ls-tree", "-r", "-z", commit, "--", *paths)
    entries = [entry.partition("\t") for entry in (listed or "").split("\0") if entry]
    return _digest(sorted(((about.split()[2], file) for about, _, file in entries), key=lambda entry: entry[1])) if entries else None


def stale(known: str | None, paths: Sequence[str]) -> bool | None:
    """Whether these files are others than those of a fingerprint; nothing where one of the two is not known (there is no git here, or was none
    where the figures were made)."""
    now = of_checkout(paths) if known else None
    return known != now if now else None


def _digest(entries: "zip[tuple[str, str]] | list[tuple[str, str]]") -> str:
    return hashlib.sha256("".join(f"{content} {file}\n" for content, file in entries).encode()).hexdigest()


def _git(*words: str, said: str = "") -> str | None:
    try:
        return repository.git(*words, said=said)
    except Complaint:
        return None
