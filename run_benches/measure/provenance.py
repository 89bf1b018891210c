"""Where figures come from: the revision of this checkout, and how its binaries were compiled."""

import hashlib
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import lru_cache

from run_benches import processes, repository
from run_benches.places import BUT_RESULTS, ROOT, SCENARIOS
from run_benches.setup import toolchain
from run_benches.store import fingerprint, reach, runs
from run_benches.store.fingerprint import Parts
from run_benches.store.reach import Sources
from run_benches.store.runs import Build, Tool


def tool() -> Tool:
    """The revision of this checkout; says so if git does not know it. What is asked for afterwards is of the sources as
    they stand now."""
    _sources.cache_clear()
    lock = ROOT / "Cargo.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""
    if reason := repository.refusal():
        print(
            f"the revision is not known ({reason}), so these figures will not be called fresh or stale", file=sys.stderr
        )
        return Tool(runs.UNKNOWN, None, digest)
    dirty = bool(repository.git("status", "--porcelain", "--untracked-files=normal", *BUT_RESULTS))
    return Tool(repository.git("rev-parse", "HEAD"), dirty, digest)


def of_layers(layers: Iterable[str]) -> dict[str, Parts]:
    """Returns what the figures of layers depend on; nothing where there is no git."""
    sources = _sources()
    return {layer: fingerprint.of_layer(sources, layer) for layer in layers} if sources else {}


def of_scenarios(names: Collection[str]) -> Parts:
    """Returns what the figures of load tests of these scenarios depend on; nothing where there is no git, or one is a
    file of somebody's own."""
    sources = _sources()
    known = all((SCENARIOS / f"{name}.toml").is_file() for name in names)
    return fingerprint.of_scenarios(sources, names) if sources and known else {}


@lru_cache(maxsize=1)
def _sources() -> Sources | None:
    return None if repository.refusal() else reach.of_checkout()


def how_built() -> Build:
    """The compiler and its flags."""
    compiler = ""
    with suppress(OSError):
        done = processes.captured(["rustc", "--version"], cwd=ROOT)
        compiler = done.stdout.strip() if done.returncode == 0 else ""
    return Build(compiler or runs.UNKNOWN, " ".join(toolchain.flags()), "release")
