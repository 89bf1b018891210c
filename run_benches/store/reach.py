"""Which sources a bench, the server and the load tool reach: what their figures can depend on.

A part is a module with all files of it: `src/query` is src/query.rs and all below src/query. A bench reaches its own
files, the modules of benches that it declares, the harness, and of the product what its own files name and all that
this imports. What the shared modules of benches name beside that counts where a bench has no layer of its own; else it
is left out: they make stores and requests with more of the product than a layer has. (Bytes that are loaded and have
changed are found by `compare` even so, which looks at them.)
"""

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from run_benches import repository
from run_benches.errors import UserError
from run_benches.places import ROOT
from run_benches.store import rust

HARNESS, TOOL, LAKE = "benches/harness", "load/src", "lake/src"
"""Parts that are packages of their own, reached as a whole."""

JUDGES = ("run_benches/lake", "requirements-full.txt")
"""The paths of what starts the programs beside a scenario, reads what they have made, and judges it."""

READ = (
    "src",
    "benches",
    "load",
    "lake",
    *JUDGES,
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
    "build.rs",
    "rust-toolchain.toml",
    "rust-toolchain",
)
"""The paths that the figures can depend on at all."""


class Sources:
    """The sources of a checkout or of a commit, by their path, and what they include; those of tests are none."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        of_tests = ("load/tests/", f"{HARNESS}/tests/", f"{HARNESS}/benches/")
        sources = {path: text for path, text in texts.items() if path.endswith(".rs") and not path.startswith(of_tests)}
        for path, text in list(sources.items()):
            for name in rust.test_modules(text):
                module = f"{path.removesuffix('.rs').removesuffix('/lib')}/{name}"
                sources = {
                    path: text
                    for path, text in sources.items()
                    if path != f"{module}.rs" and not path.startswith(f"{module}/")
                }
        # included as they are
        sources |= {
            path: text
            for path, text in texts.items()
            if path.startswith(("src/", f"{TOOL}/")) and not path.endswith(".rs")
        }
        self.tokens = {
            path: rust.tokens(text) if path.endswith(".rs") else [text] for path, text in sorted(sources.items())
        }
        if "src/lib.rs" in self.tokens:
            # a new module or name at the root is no other program
            self.tokens["src/lib.rs"] = rust.without_modules(self.tokens["src/lib.rs"])
        self._tables: dict[str, dict[str, Any]] = {}
        self._inside: dict[tuple[str, str], frozenset[str]] = {}
        self.parts: dict[str, list[str]] = {}
        for path in self.tokens:
            self.parts.setdefault(part_of(path), []).append(path)

    def text(self, path: str) -> str:
        """A file as it stands; empty where it is missing."""
        return self._texts.get(path, "")

    def toml(self, path: str) -> dict[str, Any]:
        """The content of a file of TOML; empty where it is missing."""
        if path not in self._tables:
            try:
                self._tables[path] = tomllib.loads(self.text(path))
            except tomllib.TOMLDecodeError as error:
                raise UserError(f"{path} cannot be read: {error}") from error
        return self._tables[path]

    @cached_property
    def digests(self) -> dict[str, str]:
        """A hash of each part, over its paths and tokens."""
        words = {
            part: "\0".join(word for path in paths for word in (path, *self.tokens[path]))
            for part, paths in self.parts.items()
        }
        return {part: hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest() for part, text in words.items()}

    def under(self, folder: str) -> list[str]:
        """The files below a folder."""
        return sorted(path for path in self._texts if path.startswith(f"{folder}/"))

    def of_bench(self, layer: str) -> set[str]:
        """The parts that a bench reaches."""
        own = f"benches/{layer}"
        benches = self._reached([own], self._declared)
        naming = [own] if f"src/{layer}" in self.parts else sorted(benches)
        named = {f"src/{name}" for part in naming if part in self.parts for name in self._names(part, "strata")}
        if f"src/{layer}" not in self.parts and not named & self.parts.keys():
            named = self.of_server()  # it may stand on anything
        return (
            benches
            | self._reached([f"src/{layer}", *named], self._imports)
            | ({HARNESS, "src/lib"} & self.parts.keys())
        )

    def of_server(self) -> set[str]:
        """The parts that the server reaches."""
        return {part for part in self.parts if part.startswith("src/")}

    def _imports(self, part: str) -> list[str]:
        return [f"src/{name}" for name in self._names(part, "crate")]

    def _names(self, part: str, crate: str) -> frozenset[str]:
        """The modules of a crate that a part names."""
        if (part, crate) not in self._inside:
            self._inside[part, crate] = frozenset(
                name for path in self.parts[part] for name in rust.paths(self.tokens[path], crate)
            )
        return self._inside[part, crate]

    def _declared(self, part: str) -> list[str]:
        return [f"benches/{name}" for path in self.parts[part] for name in rust.modules(self.tokens[path])]

    def _reached(self, start: Iterable[str], leads_to: Callable[[str], Iterable[str]]) -> set[str]:
        """The parts that `start` names, and those that they lead to, directly or over others."""
        reached = {part for part in start if part in self.parts}
        rest = list(reached)
        while rest:
            new = {part for part in leads_to(rest.pop()) if part in self.parts} - reached
            reached |= new
            rest += new
        return reached


def of_checkout() -> Sources:
    """Those of this checkout as they stand, with files that git does not know yet; a complaint where there is no git."""
    listed = repository.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *READ)
    paths = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    return Sources({path: (ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths})


def of_commit(commit: str, environment: dict[str, str] | None = None) -> Sources:
    """Those of a commit; a complaint where it is not known here. `environment` is for git."""
    listed = repository.git("ls-tree", "-r", "-z", commit, "--", *READ, environment=environment)
    entries = [entry.partition("\t") for entry in listed.split("\0") if entry]
    texts = repository.contents([about.split()[2] for about, _, _ in entries], environment)
    return Sources(dict(zip((path for _, _, path in entries), texts, strict=True)))


def part_of(path: str) -> str:
    """`src/storage` of src/storage.rs and of src/storage/scan.rs; a package beside ours is one part."""
    package = next((package for package in (HARNESS, TOOL, LAKE) if path.startswith(f"{package}/")), None)
    return package or "/".join(path.split("/")[:2]).removesuffix(".rs")
