"""Building the bench binaries, and asking them what they measure.

Why asked: the runner knows no bench by name. Which layers there are stands in Cargo.toml, where a binary lies is what
cargo says of it, and which rows it has, with their facts, floors and goals, is what the binary itself writes when asked
to list them.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from run_benches import processes, serialization
from run_benches.errors import UserError
from run_benches.interrupts import raise_if_requested
from run_benches.measure import elf, relink
from run_benches.measure.layers import SENTINELS, features, layer_names
from run_benches.places import LAST_BUILD, ROOT, RUNS
from run_benches.progress import ProgressLine, duration
from run_benches.setup import build_failure, rocksdb_build, toolchain
from run_benches.store.runs import Binary, Facts, Latency

TargetKind = Literal["bench", "bin"]
_COMMANDS: dict[TargetKind, list[str]] = {"bench": ["bench", "--no-run"], "bin": ["build", "--release"]}
LIST_DEADLINE_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """The figure that one process found of a measure."""

    value: float
    unit: str


@dataclass(frozen=True)
class Found:
    """The findings of one process about a row beside its time: none, but for workloads."""

    latencies: dict[str, Latency] = field(default_factory=dict)
    measures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class FactsFile:
    """The file that a bench process writes where `STRATA_FACTS_DIR` says."""

    schema: int
    layer: str
    rows: dict[str, Facts]
    engine: dict[str, Any] | None = None
    process: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _FoundFile:
    """The same file: what was found beside the facts."""

    rows: dict[str, Found]


@dataclass(frozen=True)
class Suite:
    """The binary of one layer, and its rows in the order in which it runs them."""

    layer: str
    executable: Path
    facts: FactsFile
    link: relink.Link | None = None

    def binary(self) -> Binary:
        """Its fingerprint: a run is resumed only with the same one."""
        return binary(self.executable)


@dataclass(frozen=True)
class _Built:
    executables: dict[str, str]


def build(but: Collection[str] = ()) -> dict[str, Path]:
    """Builds every bench but some, so that it can be linked anew; returns the executables by layer."""
    toolchain.check()
    links, variables = _links(), os.environ | environment()
    executables: dict[str, Path] = {}
    # One call of cargo for all benches, and one for each that has rows which need features of the server.
    needed = features()
    calls = [[f"--bench={layer}" for layer in (*layer_names(), SENTINELS) if layer not in needed and layer not in but]]
    calls += [
        [f"--bench={layer}", f"--features={','.join(f'strata/{name}' for name in names)}"]
        for layer, names in needed.items()
        if layer not in but
    ]
    for arguments in calls:
        built, libraries = run_cargo(ROOT, toolchain.target_folder(), "bench", arguments, "the build", variables)
        for executable in built.values():
            relink.keep(links / executable.name, libraries)
        executables |= built
    missing = [layer for layer in (*layer_names(), SENTINELS) if layer not in executables and layer not in but]
    if missing:
        raise UserError(f"cargo built no bench {missing[0]}: check its [[bench]] in Cargo.toml")
    serialization.store(LAST_BUILD, _Built({layer: str(path) for layer, path in executables.items()}))
    return executables


def environment() -> dict[str, str]:
    """The variables with which cargo builds benches. With them, tests share their library: cargo hashes who calls rustc
    for it."""
    links = _links()
    links.mkdir(parents=True, exist_ok=True)
    return relink.environment(links, links)


def programs(*names: str, with_databases: bool = False) -> dict[str, Path]:
    """Builds binaries of the workspace, as a person's `cargo build --release` does; returns them by name. The server of
    load tests has the features that their slots need, and those that know databases if it is asked for."""
    toolchain.check()
    wanted = [word for name in names for word in ("--bin", name)]
    wanted += (
        ["--features", "strata/nats,strata/redis" + ",strata/postgres,strata/tikv" * with_databases]
        if {"load", "strata"} <= {*names}
        else []
    )
    executables, _ = run_cargo(ROOT, toolchain.target_folder(), "bin", wanted, "the build", os.environ)
    missing = [name for name in names if name not in executables]
    if missing:
        raise UserError(f"cargo built no binary {missing[0]}: check its [[bin]] in Cargo.toml")
    return executables


def binary(executable: Path) -> Binary:
    """The hashes of an executable; of what is no ELF file, what is loaded is not known."""
    content = executable.read_bytes()
    loaded = elf.loaded(executable) if content.startswith(b"\x7fELF") else None
    return Binary(hashlib.sha256(content).hexdigest(), len(content), loaded)


def link_of(executable: Path) -> relink.Link | None:
    """Returns what `build` has kept of the link of an executable; none where it cannot be linked anew."""
    return relink.load(_links() / executable.name)


def _links() -> Path:
    return toolchain.target_folder() / "strata-links"


def run_cargo(
    root: Path, target: Path, kind: TargetKind, arguments: Sequence[str], what: str, environment: Mapping[str, str]
) -> tuple[dict[str, Path], set[str]]:
    """Builds the benches or the binaries that `arguments` name, of the workspace at `root`, into the folder `target`;
    returns the executables of this kind by name (cargo builds the binaries of a package with its benches), and the
    workspace's libraries."""
    if not rocksdb_build.builds(target):
        print(
            "the first build compiles RocksDB, which takes about half an hour on two cores; later builds take a minute or two",
            file=sys.stderr,
        )
    RUNS.mkdir(exist_ok=True)
    log = RUNS / "build.log"
    # No launcher of rustc may change what is measured; cargo compiles nothing again without it.
    variables = {**environment, "RUSTC_WRAPPER": "", "CARGO_TARGET_DIR": str(target)}
    command = ["cargo", *_COMMANDS[kind], "--workspace", "--message-format=json-render-diagnostics", *arguments]
    with (
        log.open("wb") as errors,
        ProgressLine() as line,
        processes.started(command, cwd=root, env=variables, stdout=processes.PIPE, stderr=errors) as process,
    ):
        built = _follow(process, kind, line, what, target)
        code = process.wait()
    if code != 0:
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise UserError(f"{what} failed: {build_failure.reason(said)} (all of it: runs/build.log)")
    return built


def _follow(
    process: processes.Process, kind: TargetKind, line: ProgressLine, what: str, target: Path
) -> tuple[dict[str, Path], set[str]]:
    """Reads what cargo says of each artifact; the line goes on while the long one is compiled."""
    assert process.stdout is not None
    executables: dict[str, Path] = {}
    libraries: set[str] = set()
    began, since, crates = time.monotonic(), time.time(), 0
    os.set_blocking(process.stdout.fileno(), False)
    rest, ended = b"", False
    while not ended:
        raise_if_requested()
        ended = process.poll() is not None
        while piece := process.stdout.read(1 << 16):
            rest += piece
        *complete, rest = rest.split(b"\n")
        for message in map(json.loads, complete):
            crates += message["reason"] == "compiler-artifact"
            if message.get("executable") and kind in message["target"]["kind"]:
                executables[message["target"]["name"]] = Path(message["executable"])
            elif (
                message["reason"] == "compiler-artifact"
                and "path+file:" in message["package_id"]
                and "lib" in message["target"]["kind"]
            ):
                libraries.add(message["target"]["name"])
        long_part = rocksdb_build.under_way(target, since)
        line.show(f"{what}: {long_part or f'{crates} artifacts, {duration(time.monotonic() - began)}'}")
        if not ended:
            time.sleep(0.1)
    return executables, libraries


def last_build() -> dict[str, Path]:
    """The executables of the last build that are still there: enough for a list, not for a measurement."""
    try:
        built = serialization.load(_Built, LAST_BUILD)
    except (OSError, serialization.Malformed):
        return {}
    return {layer: Path(path) for layer, path in built.executables.items() if Path(path).exists()}


def ask(layer: str, executable: Path, settings: Mapping[str, str] = {}) -> Suite:
    """The rows of a binary with their facts; it sets nothing up for this."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "list.log"
        environment = {**os.environ, **settings, "STRATA_FACTS_DIR": folder}
        failure = processes.run(
            [str(executable), "--bench", "--list"], environment, log, LIST_DEADLINE_S, LIST_DEADLINE_S, lambda: None
        )
        if failure:
            raise UserError(f"the bench {layer} cannot list its rows: {failure}")
        facts = read_facts(Path(folder))
    if facts is None:
        raise UserError(
            f"the bench {layer} wrote no facts: does it use the harness, and has it `harness = false` in Cargo.toml?"
        )
    return Suite(layer, executable, facts, link_of(executable))


def read_facts(folder: Path) -> FactsFile | None:
    """The facts that one process left in `folder`, if it did."""
    return _read(FactsFile, folder)


def read_found(folder: Path) -> dict[str, Found]:
    """Reads what one process found of its rows, by id."""
    file = _read(_FoundFile, folder)
    return file.rows if file else {}


def _read(kind: type[T], folder: Path) -> T | None:
    for path in sorted(folder.glob("*.json")):
        try:
            return serialization.load(kind, path)
        except (OSError, serialization.Malformed) as error:
            raise UserError(f"the facts of a bench are damaged: {error}") from error
    return None
