"""The dependencies of a stored figure, as hashes: if they are others now, the figure is stale.

Why not the commit: a sentence in a document makes another commit, and no other program. Of a layer and of a scenario
there is a hash for each part of the sources that it reaches, over tokens, so that a comment and a test change none, and
what has changed can be named; one over the packages that it links; and one over the settings of the build. Of what
judges a scenario there is one over files, and of our own error rates, which the runner itself makes.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from run_benches import repository
from run_benches.errors import UserError
from run_benches.places import ROOT
from run_benches.store import reach
from run_benches.store.reach import Sources

Parts = dict[str, str]
"""A hash for each part, by its name."""

PACKAGES, BUILD = "Cargo.lock", "the settings of the build"

PAIRING = (
    "benches/harness",
    "run_benches/compare/pairing.py",
    "run_benches/measure/broker.py",
    "run_benches/measure/families.py",
    "run_benches/measure/jobs.py",
    "run_benches/measure/relink.py",
    "run_benches/stats/turns.py",
)
"""The files that the effect of a pair depends on, beside the code that is compared: a pool holds pairs of one of
these."""

JUDGING = (
    *PAIRING,
    "run_benches/stats",
    "run_benches/compare/comparison_run.py",
    "run_benches/compare/new_comparison.py",
    "run_benches/calibrate/error_rates.py",
)
"""The files that our own error rates depend on."""


def of_layer(sources: Sources, layer: str) -> Parts:
    """Returns what the figures of a layer depend on."""
    parts = sources.of_bench(layer)
    words = {
        word
        for part in parts
        if part.startswith("benches/")
        for path in sources.parts[part]
        for word in sources.tokens[path]
    }
    linked = [*_linked(sources, "Cargo.toml", words), *_linked(sources, f"{reach.HARNESS}/Cargo.toml")]
    return _of_parts(sources, parts) | {PACKAGES: _digest(linked)} | _build(sources)


def of_scenarios(sources: Sources, names: Iterable[str]) -> Parts:
    """Returns what the figures of load tests of these scenarios depend on: on the server, on the tool, on what they
    declare, and on what runs beside and who judges it."""
    declared = [*(f"load/scenarios/{name}.toml" for name in names), *sources.under("load/schedules")]
    linked = [*_linked(sources, "Cargo.toml"), *_linked(sources, "load/Cargo.toml")]
    own = {path: _digest([_canonical(sources, path)]) for path in declared}
    reached = {*sources.of_server(), reach.TOOL}
    if any("beside" in sources.toml(path) for path in declared):
        reached.add(reach.LAKE)
        own |= {path: _digest([_canonical(sources, path)]) for path in ("lake/Cargo.lock", "lake/Cargo.toml")}
        own |= {path: _digest(map(sources.text, [path, *sources.under(path)])) for path in reach.JUDGES}
    return _of_parts(sources, reached) | own | {PACKAGES: _digest(linked)} | _build(sources)


def changed(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts that are others now, or are new or gone, by name."""
    return sorted(name for name in {*known, *now} if known.get(name) != now.get(name))


def of_files(paths: Sequence[str]) -> str | None:
    """Of files of this checkout as they stand, whatever they hold; nothing where there is no git."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    files = sorted(file for file in (listed or "").split("\0") if file and (ROOT / file).is_file())
    hashes = _git("hash-object", "--stdin-paths", said="\n".join(files))
    return (
        _digest(f"{content} {file}" for content, file in zip(hashes.split(), files, strict=True))
        if files and hashes
        else None
    )


def _of_parts(sources: Sources, parts: Iterable[str]) -> Parts:
    return {part: sources.digests[part] for part in sorted(parts) if part in sources.digests}


def _linked(sources: Sources, manifest: str, words: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """The packages that a package of ours links, with how it asks for them; those for tests and benches alone where a
    word names them."""
    declared = sources.toml(manifest)
    always = declared.get("dependencies", {})
    more = {
        name: how
        for name, how in declared.get("dev-dependencies", {}).items()
        if words and (name in always or name.replace("-", "_") in words)
    }
    asked = always | {f"{name} of benches": how for name, how in more.items()}
    known: dict[str, list[dict[str, Any]]] = {}
    for package in sources.toml("Cargo.lock").get("package", []):
        known.setdefault(package["name"], []).append(package)
    own = next(iter(known.get(declared.get("package", {}).get("name", ""), [])), {})
    rest = [one for one in own.get("dependencies", []) if one.split()[0] in {*always, *more}]
    found: dict[str, None] = {}
    while rest:
        name, *version = rest.pop().split()
        for package in known.get(name, []):
            line = f"{name} {package['version']} {package.get('checksum', '')}"
            if version[:1] in ([], [package["version"]]) and line not in found:
                found[line] = None
                rest += package.get("dependencies", [])
    return [json.dumps(asked, sort_keys=True), *sorted(found)]


def _build(sources: Sources) -> Parts:
    """Digests how the compiler is called, and which it is where that is settled here."""
    manifest = sources.toml("Cargo.toml")
    of_crates = [
        manifest.get("package", {}).get("edition"),
        manifest.get("features"),
        manifest.get("workspace", {}).get("resolver"),
    ]
    settings = [manifest.get("profile"), of_crates, _features(sources), sources.toml(".cargo/config.toml")]
    return {
        BUILD: _digest(
            [
                json.dumps(settings, sort_keys=True),
                *map(sources.text, ("build.rs", "rust-toolchain.toml", "rust-toolchain")),
            ]
        )
    }


def _features(sources: Sources) -> list[Any]:
    """The features that any package of the workspace asks of another: all are built together, and so with the features
    of all."""
    members = [
        "Cargo.toml",
        *(f"{member}/Cargo.toml" for member in sources.toml("Cargo.toml").get("workspace", {}).get("members", [])),
    ]
    tables = [
        sources.toml(member).get(table, {})
        for member in members
        for table in ("dependencies", "dev-dependencies", "build-dependencies")
    ]
    asked = [
        (name, how.get("features", []), how.get("default-features"))
        for table in tables
        for name, how in table.items()
        if isinstance(how, dict)
    ]
    return sorted(
        [name, sorted(features), default] for name, features, default in asked if features or default is False
    )


def _canonical(sources: Sources, path: str) -> str:
    """The content of a file of TOML, without comments and in one form."""
    return json.dumps(sources.toml(path), sort_keys=True, default=str)


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()


def _git(*words: str, said: str = "") -> str | None:
    try:
        return repository.git(*words, said=said)
    except UserError:
        return None
