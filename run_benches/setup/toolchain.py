"""The needs of a build from the machine: a C++ compiler, cargo, a processor that runs what is built, libclang, space,
and an environment that says nothing about flags.

Why checked first: RocksDB compiles for half an hour, and what is missing shows at its end, in a page of another tool's
words.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from run_benches import processes
from run_benches.errors import UserError
from run_benches.places import CARGO_CONFIG, ROOT
from run_benches.setup import inherited, libclang, rocksdb_build

SPACE_FOR_FIRST_BUILD_GIB = 6
SPACE_FOR_LATER_BUILD_GIB = 1


def target_folder() -> Path:
    """Where cargo puts what it builds: the user's own folder, so that RocksDB is compiled once for everybody."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or _configured_target()).absolute()


@lru_cache(maxsize=1)
def _configured_target() -> Path:
    """As cargo's own configuration says (`build.target-dir`, also in files outside of the checkout)."""
    try:
        return Path(
            json.loads(_said("cargo", "metadata", "--format-version=1", "--no-deps", "--offline"))["target_directory"]
        )
    except (OSError, ValueError, KeyError):  # no cargo yet: it will be checked before anything is built
        return ROOT / "target"


def check(target: Path | None = None) -> None:
    """Complains about what a build into `target` (by default the user's own folder) would fail for, and fetches
    libclang."""
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise UserError("cargo is not installed; install Rust from https://rustup.rs, then run this again")
    target = target or target_folder()
    tree = ROOT if target == target_folder() else target  # a comparison has its tree beside its target folder
    host, facts = _host(), set(_said("rustc", "--print", "cfg").splitlines())
    inherited.check_settings(tree, host, lambda name: name == host or _applies(name, facts))
    compiler = inherited.compiler(tree, host)
    missing = [word for word in takewhile(lambda word: not word.startswith("-"), compiler) if not shutil.which(word)]
    if missing:
        raise UserError(
            f"no C++ compiler ({' '.join(compiler)}), there is no {missing[0]}: RocksDB needs one; with Debian: apt-get install g++"
        )
    _check_processor(Path("/proc/cpuinfo"))
    _check_space(target)
    libclang.ensure(target_folder(), compiler)
    inherited.check_variables(tree, target if rocksdb_build.builds(target) else target_folder(), host)


def flags() -> list[str]:
    """Returns the flags that cargo passes to every rustc on this machine: those of all tables under [target] that
    apply, joined in the order of `.cargo/config.toml`; if there are none, those under [build]."""
    if not CARGO_CONFIG.exists():
        return []
    config = tomllib.loads(CARGO_CONFIG.read_text(encoding="utf-8"))
    facts = set(_said("rustc", "--print", "cfg").splitlines())
    tables = [table for name, table in config.get("target", {}).items() if name == _host() or _applies(name, facts)]
    return [flag for table in tables for flag in table.get("rustflags", [])] or config.get("build", {}).get(
        "rustflags", []
    )


def _host() -> str:
    """The name of this machine among those that rustc builds for; nothing where it does not say."""
    found = re.search(r"^host: (.*)$", _said("rustc", "-vV"), re.MULTILINE)
    return found[1] if found else ""


def _applies(name: str, facts: AbstractSet[str]) -> bool:
    """Returns whether a table such as `cfg(target_arch = "x86_64")` fits a machine of which rustc says these facts."""
    return name.startswith("cfg(") and _holds(name.replace(" ", "")[4:-1], facts)


def _holds(condition: str, facts: AbstractSet[str]) -> bool:
    word, _, inner = condition.partition("(")
    found = (_holds(part, facts) for part in _parts(inner[:-1]))
    return (
        all(found)
        if word == "all"
        else any(found)
        if word == "any"
        else not all(found)
        if word == "not"
        else condition in facts
    )


def _parts(text: str) -> Iterator[str]:
    """Yields the parts between the commas that are in no brackets."""
    part, depth = "", 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part


def _said(*command: str) -> str:
    return processes.captured(command, cwd=ROOT).stdout


def _check_processor(cpuinfo: Path) -> None:
    """An instruction that the processor lacks ends a bench before its `main`. The kernel names what we ask for as rustc
    does, but for the dot. On aarch64 nothing is asked for: there RocksDB looks for itself, when it runs."""
    wanted = [
        feature for flag in flags() if flag.startswith("target-feature=") for feature in re.findall(r"\+([\w.]+)", flag)
    ]
    has = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    missing = [feature for feature in wanted if has and feature.replace(".", "_") not in has[1].split()]
    if missing:
        raise UserError(
            f"this processor lacks {' and '.join(missing)}, with which everything is compiled (.cargo/config.toml): use a newer machine"
        )


def _check_space(target: Path) -> None:
    existing = next(parent for parent in (target, *target.parents) if parent.exists())
    free_gib = shutil.disk_usage(existing).free / 2**30
    needed_gib = SPACE_FOR_LATER_BUILD_GIB if rocksdb_build.builds(target) else SPACE_FOR_FIRST_BUILD_GIB
    if free_gib < needed_gib:
        variable = "CARGO_TARGET_DIR" if target == target_folder() else "STRATA_COMPARE_DIR"
        raise UserError(
            f"{free_gib:.1f} GiB free at {existing}, and the build needs {needed_gib}: make room, or set {variable} to a larger disk"
        )
