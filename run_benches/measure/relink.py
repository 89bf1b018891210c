"""Linking a bench anew, with its code placed at random.

Why: an innocent commit moves every function after the one it touched, and on this code that alone makes a loop some
percent faster or slower. Where each pair of a comparison has a placement of its own, that is part of the scatter and
not a verdict. What is drawn is what a commit can change: the order of the functions of this workspace, and by how much
everything behind them is shifted. The order within libraries, which no commit changes, stays: shuffling RocksDB, too,
would add scatter to rows that hardly leave it, and be true to no commit.

How: only rustc knows what it hands to the linker, and it deletes half of that when it is done. So a build that is to be
linked anew gets two small scripts: cargo calls `rustc` for the crates of this workspace alone
(`RUSTC_WORKSPACE_WRAPPER`, which leaves the hashes of all other crates as they are, RocksDB's too), and that one gives
benches the linker `linker`, which keeps the objects and the command line. Unlike `cargo rustc --bench X -- -C
save-temps`, one call builds all benches on all cores, and rustc writes nothing that nobody needs.
"""

import random
import shutil
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from run_benches import processes, scratch
from run_benches.errors import UserError
from run_benches.places import shown
from run_benches.setup import build_failure

_RUSTC = """#!/usr/bin/env bash
# rustc, as cargo calls it for the crates of the workspace. `--cfg test` stands for a bench that has a main of its own.
# Not by sh: dash keeps no variables with a hyphen, as cargo has for the binaries that tests call.
case "$*" in *" --cfg test "*) set -- "$@" -C "linker=${0%/*}/linker" ;; esac
exec "$@"
"""

_LINKER = """#!/bin/sh
# The linker of a bench: keeps the objects, and the command line with one argument a line.
set -e
for argument in "$@"; do
    if [ "$previous" = -o ]; then kept="$STRATA_LINKS/${argument##*/}"; fi
    previous=$argument
done
mkdir -p "$kept"
for argument in "$@"; do
    case "$argument" in *.o) cp "$argument" "$kept" ;; esac
done
printf '%s\\n' "$@" > "$kept/arguments"
exec cc "$@"
"""

_SHIFT = """.section .text.strata_shift,"ax",@progbits
.globl strata_shift
strata_shift:
.skip {bytes}, 0x90
"""

_MOST_SHIFT = 1 << 16
"""Bytes: more than a page, and than what a first level of cache holds."""


@dataclass(frozen=True)
class Link:
    """The inputs of one bench's link; none of them is touched by a later build. `crates` are those whose functions are
    shuffled."""

    arguments: tuple[str, ...]
    crates: tuple[str, ...]

    def to(self, path: Path, seed: int) -> None:
        """Links an executable whose code lies where `seed` says; 0 and 2**32 - 1 mean other things to lld."""
        assert 0 < seed < 2**32 - 1, seed
        shuffled = [f"-Wl,--shuffle-sections=.text.*{len(crate)}{crate}*={seed}" for crate in self.crates]
        one_thread = "-Wl,--threads=1"  # both sides of a pair are linked at once
        with scratch.folder(path.parent) as folder:
            shift = folder / "shift.o"
            self._call(
                path,
                ["-c", "-x", "assembler", "-", "-o", str(shift)],
                _SHIFT.format(bytes=16 * random.Random(seed).randrange(_MOST_SHIFT // 16)),
            )
            self._call(
                path,
                [
                    str(shift),
                    *self.arguments,
                    *shuffled,
                    one_thread,
                    "-Wl,-u,strata_shift",
                    "-Wl,--strip-debug",
                    "-o",
                    str(path),
                ],
                "",
            )

    def _call(self, path: Path, words: list[str], said: str) -> None:
        done = processes.captured(["cc", *words], said)
        if done.returncode != 0:
            raise UserError(
                f"{path.name} cannot be linked anew in {shown(path.parent)}: {build_failure.reason(done.stderr.splitlines())}"
            )


def environment(scripts: Path, links: Path) -> dict[str, str]:
    """Starts cargo so that each bench leaves in a folder of `links` what its linker got. The scripts have to stay where
    they are: cargo hashes their path, not their text."""
    for name, text in (("rustc", _RUSTC), ("linker", _LINKER)):
        (scripts / name).write_text(text, encoding="utf-8")
        (scripts / name).chmod(0o755)
    return {"RUSTC_WORKSPACE_WRAPPER": str(scripts / "rustc"), "STRATA_LINKS": str(links)}


def keep(folder: Path, crates: AbstractSet[str]) -> None:
    """Makes what the linker left in `folder` independent of the next build, which overwrites the libraries of these
    crates. Does nothing where it left nothing, or where that was done before and nothing was linked since."""
    lines = (folder / "arguments").read_text(encoding="utf-8").splitlines() if (folder / "arguments").exists() else []
    if "-o" not in lines:
        return
    kept, arguments = [], iter(lines)
    for argument in arguments:
        path = Path(argument)
        if argument == "-o":
            next(arguments)
        elif path.suffix == ".o":
            kept.append(str(folder / path.name))
        elif path.suffix == ".rlib" and path.name.removeprefix("lib").rpartition("-")[0] in crates:
            kept.append(str(shutil.copy(path, folder.parent)))
        else:
            kept.append(argument)
    (folder / "arguments").write_text("\n".join(kept), encoding="utf-8")


def load(folder: Path) -> Link | None:
    """The link that was kept in `folder`; none where none was, or where there is no lld, which alone can shuffle."""
    if not (folder / "arguments").exists():
        return None
    arguments = (folder / "arguments").read_text(encoding="utf-8").splitlines()
    if "-fuse-ld=lld" not in arguments:
        if not shutil.which("ld.lld"):
            return None
        arguments.append("-fuse-ld=lld")
    ours = {
        Path(argument).name.removeprefix("lib").rpartition("-")[0]
        for argument in arguments
        if Path(argument).parent == folder.parent
    }
    return Link(tuple(arguments), (folder.name, *sorted(ours)))
