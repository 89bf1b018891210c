"""Both sides of a comparison, built one after the other in one worktree at one fixed path.

Why one: paths of the sources and of the target folder stand in the binaries, and their length moves what lies behind
them. And why our own crates are compiled anew for each side: cargo knows a crate by its path in the workspace and takes
it for fresh by the times of its files, so the second of two revisions would be answered with the binary of the first.

Non-goal: sharing a target folder with the user, whose next build would take our artifacts for theirs. Ours begins as a
copy of it, for RocksDB.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from run_benches import processes, serialization
from run_benches.compare import revisions
from run_benches.compare.revisions import Revision
from run_benches.errors import UserError
from run_benches.measure import build, elf, relink
from run_benches.places import COMPARE_CACHE, LOCAL_CARGO_CONFIG, ROOT
from run_benches.setup import rocksdb_build, toolchain

TREE = COMPARE_CACHE / "tree"
TARGET = COMPARE_CACHE / "target"
BUILDS = COMPARE_CACHE / "builds"
KEPT_BUILDS = 6
KEPT_OBJECTS_S = 14 * 24 * 3600
"""The time for which the objects of a working tree are kept after it was compared last: as long as git keeps what
nothing leads to."""


@dataclass(frozen=True)
class Target:
    """One bench target of one side. Its executable lies at a path as long as that of the other side; `code` is the
    fingerprint of what it loads; without a link it cannot be linked anew."""

    layer: str
    executable: Path
    code: str
    link: relink.Link | None


@dataclass(frozen=True)
class _Manifest:
    """A kept build, written when all else of it is there: every bench that the tree has, and the code of those that
    were built."""

    benches: list[str]
    code: dict[str, str]


def build_side(
    revision: Revision,
    side: Literal["a", "b"],
    *,
    benches_of: Revision | None = None,
    features: Sequence[str] = (),
    layers: Sequence[str] | None = None,
) -> dict[str, Target]:
    """The benches of a revision (by default all, and of `layers` those it has), built unless a kept build has them."""
    with _only_one():
        tree = revisions.tree(revision, benches_of or revision)
        folder = BUILDS / _key(tree, features)
        manifest: _Manifest | None = None
        with suppress(OSError, serialization.Malformed):  # then none is kept
            manifest = serialization.load(_Manifest, folder / "manifest.json")
        if manifest is None or not _wanted(manifest.benches, layers) <= set(manifest.code):
            joined = layers and [*layers, *(manifest.code if manifest else ())]
            manifest = _build(tree, folder, features, joined, f"side {side}, {revision.name}")
        os.utime(folder)
        _prune()
    wanted = [layer for layer in (layers or manifest.benches) if layer in manifest.code]
    return {
        layer: Target(layer, folder / layer, manifest.code[layer], relink.load(folder / "links" / layer))
        for layer in wanted
    }


def build_program(revision: Revision, program: str) -> Path:
    """A binary of a revision as `cargo build --release` makes it, built unless it was kept."""
    with _only_one():
        tree = revisions.tree(revision, revision)
        folder = BUILDS / _key(tree, [f"program {program}"])
        if not (folder / program).exists():
            _clean(tree)
            executables, _ = build.run_cargo(
                TREE, TARGET, "bin", ["--bin", program], f"the build of {revision.name}", os.environ
            )
            if program not in executables:
                raise UserError(f"{revision.name} has no binary {program}")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            # In two steps, so that a copy that was cut off is not taken for the binary.
            shutil.copy(executables[program], folder / "copying")
            (folder / "copying").rename(folder / program)
        os.utime(folder)
        _prune()
    return folder / program


def checkout(tree: str) -> None:
    """Puts a tree (or a commit) in the place of the one that was there. Nothing of it is registered in the user's
    repository."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    index = COMPARE_CACHE / "index"
    index.unlink(missing_ok=True)
    repository = revisions.git("rev-parse", "--absolute-git-dir")
    places = {"GIT_DIR": repository, "GIT_WORK_TREE": str(TREE), "GIT_INDEX_FILE": str(index)}
    revisions.git("read-tree", "--reset", "-u", "--no-sparse-checkout", tree, **places)
    if LOCAL_CARGO_CONFIG.exists():
        (TREE / ".cargo").mkdir(exist_ok=True)
        shutil.copy(LOCAL_CARGO_CONFIG, TREE / ".cargo")


@contextmanager
def _only_one() -> Iterator[None]:
    """Builds of several runners follow one another."""
    if COMPARE_CACHE.is_relative_to(ROOT):
        raise UserError(
            f"{COMPARE_CACHE} lies in the checkout, whose flags cargo would add a second time: set STRATA_COMPARE_DIR to a folder outside"
        )
    COMPARE_CACHE.mkdir(parents=True, exist_ok=True)
    with (COMPARE_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key(tree: str, features: Sequence[str]) -> str:
    """The name of a build: as long for every build, another one for another compiler."""
    rustc = processes.captured(["rustc", "-vV"], cwd=ROOT).stdout
    return hashlib.sha256("\n".join([tree, *sorted(features), rustc]).encode()).hexdigest()[:12]


def _wanted(benches: list[str], layers: Sequence[str] | None) -> set[str]:
    return set(benches) if layers is None else set(benches) & set(layers)


def _build(tree: str, folder: Path, features: Sequence[str], layers: Sequence[str] | None, name: str) -> _Manifest:
    benches = _clean(tree)
    shutil.rmtree(folder, ignore_errors=True)
    links = folder / "links"
    links.mkdir(parents=True)
    arguments = [
        *(f"--bench={layer}" for layer in _wanted(benches, layers)),
        *(f"--features={feature}" for feature in features),
    ]
    executables, libraries = build.run_cargo(
        TREE, TARGET, "bench", arguments, f"the build of {name}", os.environ | relink.environment(COMPARE_CACHE, links)
    )
    for layer, executable in executables.items():
        shutil.copy(executable, folder / layer)
        (links / executable.name).rename(links / layer)
        relink.keep(links / layer, libraries)
    manifest = _Manifest(benches, {layer: elf.loaded(folder / layer) for layer in benches if layer in executables})
    serialization.store(folder / "manifest.json", manifest)
    return manifest


def _clean(tree: str) -> list[str]:
    """Puts a tree in place whose own packages will be compiled anew; returns its benches, as cargo tells them."""
    toolchain.check(TARGET)
    checkout(tree)
    _copy_rocksdb()
    packages = json.loads(_cargo("metadata", "--no-deps", "--format-version=1"))["packages"]
    targets = [target for package in packages for target in package["targets"]]
    _cargo("clean", "--release", *(word for package in packages for word in ("--package", package["name"])))
    return [target["name"] for target in targets if "bench" in target["kind"]]


def _copy_rocksdb() -> None:
    """Begins our target folder with the user's, or follows it to another RocksDB. The build comes last: by it we know
    that all is there."""
    theirs = toolchain.target_folder()
    if rocksdb_build.builds(theirs) <= rocksdb_build.builds(TARGET):
        return
    (TARGET / "release").mkdir(parents=True, exist_ok=True)
    with (theirs / "release" / ".cargo-lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        for part in ("deps", ".fingerprint", "build"):
            copied = processes.captured(["cp", "-a", "--reflink=auto", theirs / "release" / part, TARGET / "release"])
            if copied.returncode != 0:
                raise UserError(f"the target folder cannot be copied: {copied.stderr.partition(chr(10))[0]}")


def _cargo(*words: str) -> str:
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET)}
    done = processes.captured(["cargo", *words], cwd=TREE, env=environment)
    if done.returncode != 0:
        raise UserError(f"cargo {words[0]} failed: {(done.stderr.splitlines() or ['it said nothing'])[0]}")
    return done.stdout


def _prune() -> None:
    """Removes all but the builds, and the objects of working trees, that were used last."""
    for folder in sorted(BUILDS.iterdir(), key=lambda folder: folder.stat().st_mtime)[:-KEPT_BUILDS]:
        shutil.rmtree(folder)
    for path in revisions.OBJECTS.glob("[0-9a-fp]*/*"):
        if time.time() - path.stat().st_mtime > KEPT_OBJECTS_S:
            path.unlink()
