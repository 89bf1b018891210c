"""All tests, in one command: what CI and the README call.

Why here and not in a script of CI: what is checked must be what a person can check. A step whose tool is missing is
skipped and named with the command that would install it; a skip is not a pass, so `--full` fails on it. A failing step
does not hide the steps after it.
"""

import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from run_benches import processes, repository, serialization
from run_benches.cli import described, library
from run_benches.errors import Exit, UserError
from run_benches.lake import copying
from run_benches.measure import build, published
from run_benches.measure.layers import SENTINELS, features, layer_names
from run_benches.places import BENCHES, ROOT
from run_benches.progress import duration
from run_benches.render import terminal
from run_benches.setup import brokers, browser, packages, toolchain

CHECKS_SCHEMA = 1

OF_THE_RUNNER = frozenset(
    f"STRATA_{name}" for name in ("DRIVEN", "TURN", "COUNT", "ROW", "SET", "PLANT", "FACTS_DIR", "TEMPLATES")
)
"""The variables that the runner sets for the processes it measures: left over in a shell, one would change what is
checked."""


FEATURES = ("--features", "strata/nats,strata/redis,strata/postgres,strata/tikv,strata/simulated")
"""All features that a server may have, and the database in memory of the tests: tests are compiled with them once, and
alike for each step, because that takes longer than most tests."""

OF_BROKERS = ("brokers", "multicast", "nats", "redis")
"""The parts that mark the names of the tests that need brokers."""

OF_REMOTE_STORES = "remote::"
"""The part that the names of tests over databases have in common: of a simulated one, PostgreSQL, and the double of
TiKV."""


class Skip(Exception):
    """The machine cannot run this step; the text is the command that would change that."""


@dataclass(frozen=True)
class Check:
    """A check; `do` returns whether it passed, or raises `Skip`."""

    name: str
    do: Callable[[], bool]


@dataclass(frozen=True)
class CheckResult:
    """The result of a step."""

    name: str
    outcome: str
    seconds: float
    remedy: str = ""


def main(full: bool, as_json: bool) -> Exit:
    """Runs every step; prints what passed, failed and was skipped."""
    results = []
    for step in steps(full):
        print(f"\n== {step.name}", file=sys.stderr, flush=True)
        began, remedy = time.monotonic(), ""
        try:
            outcome = "passed" if step.do() else "failed"
        except Skip as skip:
            outcome, remedy = "skipped", str(skip)
        except UserError as error:
            print(error, file=sys.stderr)
            outcome = "failed"
        results.append(CheckResult(step.name, outcome, round(time.monotonic() - began, 1), remedy))
    failed = [result for result in results if result.outcome == "failed"]
    skipped = [result for result in results if result.outcome == "skipped"]
    if as_json:
        print(serialization.text({"schema": CHECKS_SCHEMA, "steps": results}), end="")
    else:
        body = [[result.name, result.outcome, duration(result.seconds)] for result in results]
        print("\n" + terminal.table("checks", ["step", "outcome", "took>"], body))
        for result in skipped:
            print(f"skipped: {result.name}; to have it: {result.remedy}")
        print(f"{len(results) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return Exit.FAILED if failed or (full and skipped) else Exit.FINE


def steps(full: bool) -> list[Check]:
    """The checks, quick ones first. Those of the whole workspace share what they compile: of one package alone,
    features would differ."""
    release = ["--release", "--workspace"]
    found = [
        Check("format", _cargo(["fmt", "--all", "--check"], "fmt", "rustup component add rustfmt")),
        Check("every bench has its [[bench]]", _bench_stanzas),
        Check("form of the runner", _form),
        Check("types of the runner", _python("-m", "mypy", "--strict", "run_benches", "load/tests/generators.py")),
        Check(
            "tests of the runner",
            _python("-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "run_benches/tests"),
        ),
        Check(
            "lints",
            _cargo(
                ["clippy", *release, "--all-targets", "--", "-D", "warnings"], "clippy", "rustup component add clippy"
            ),
        ),
        Check(
            "lints of the features",
            _cargo(
                [
                    "clippy",
                    *release,
                    "--lib",
                    "--bins",
                    *(f"--bench={layer}" for layer in features()),
                    *FEATURES,
                    "--features",
                    "strata/plant",
                    "--",
                    "-D",
                    "warnings",
                ],
                "clippy",
                "rustup component add clippy",
            ),
        ),
        Check(
            "tests",
            _cargo(
                ["test", *release, *FEATURES, "--", *(f"--skip={name}" for name in (*OF_BROKERS, OF_REMOTE_STORES))]
            ),
        ),
        Check("tests over databases", partial(_over, brokers.DATABASES, (OF_REMOTE_STORES,))),
        Check("tests over NATS and Redis", partial(_over, brokers.BROKERS, OF_BROKERS)),
        Check("tests of a server without features", _cargo(["test", *release, "--test", "features"])),
        Check("what the documents have a reader type", _typed),
        Check("every bench once, at smoke scale", _every_bench),
        Check("every published row has its bench", _published_rows),
        Check("report in a browser", _in_browser("in_browser.py")),
        Check("console in a browser", _in_browser("console_in_browser.py")),
        Check("document --check", _documents),
    ]
    if full:
        found += [
            Check("bodies, queries and pictures at random, for longer", _at_random),
            Check("tests that take long", _cargo(["test", "--release", "--test", "main", "--", "--ignored"])),
            Check("servers over one database, for longer", _remote_for_longer),
            Check("RocksDB is compiled once", _rocksdb_once),
            Check("the library without the server", _embedded),
            Check("a baseline of Criterion's, saved and compared", _criterion_baseline),
            Check("schemathesis over the REST interface", described.keeps_its_word),
            Check("clients that people use", _clients),
            Check("tests of strata-lake", _lake),
            Check("calibrate --smoke", _python("run-benches.py", "calibrate", "--smoke")),
            Check(
                "an hour of everything, and nothing grows",
                _python("run-benches.py", "load", "sustained", "--", "--test-duration-secs", "3600"),
            ),
        ]
    return found


def _call(command: list[str], more: dict[str, str] | None = None) -> bool:
    environment = {name: value for name, value in os.environ.items() if name not in OF_THE_RUNNER} | (more or {})
    return processes.call(command, cwd=ROOT, env=environment, stdout=sys.stderr) == 0


def _cargo(arguments: list[str], component: str | None = None, remedy: str = "") -> Callable[[], bool]:
    def do() -> bool:
        _check_cargo(component, remedy)
        return _build(arguments)

    return do


def _check_cargo(component: str | None, remedy: str) -> None:
    if not shutil.which("cargo"):
        raise Skip("install Rust from https://rustup.rs")
    if component and processes.captured(["cargo", component, "--version"], cwd=ROOT).returncode != 0:
        raise Skip(remedy)


def _build(arguments: list[str], more: dict[str, str] | None = None) -> bool:
    """Calls cargo as for benches, so that the library is compiled once for them and for tests."""
    toolchain.check()
    return _call(["cargo", *arguments], build.environment() | (more or {}))


def _python(*arguments: str) -> Callable[[], bool]:
    return lambda: _call([sys.executable, *arguments])


def _in_browser(tests: str) -> Callable[[], bool]:
    def do() -> bool:
        if not browser.found():
            raise Skip("apt-get install chromium")
        if tests == "console_in_browser.py" and not shutil.which("curl"):
            raise Skip("apt-get install curl")
        toolchain.check()
        return _python("-m", "pytest", "-q", f"run_benches/tests/{tests}")()

    return do


def _typed() -> bool:
    """The examples with curl, by a curl that knows `--json`."""
    version = processes.captured(["curl", "--version"]).stdout if shutil.which("curl") else ""
    found = re.match(r"curl (\d+)\.(\d+)", version)
    if not found or (int(found[1]), int(found[2])) < (7, 82):
        raise Skip("apt-get install curl, of version 7.82 or later")
    # With other targets left out, crates would have other features, and be compiled again.
    return _build(
        ["test", "--release", "--workspace", *FEATURES, "documentation::what_a_reader_types", "--", "--ignored"]
    )


def _over(needed: tuple[str, ...], tests: tuple[str, ...]) -> bool:
    """Runs what is told by real brokers or databases alone. Without one of them, the tests of the others run, and the
    step counts as skipped."""
    programs = brokers.environment()
    # A test of brokers starts each that there is.
    required = (
        {} if brokers.remedies(programs, (*brokers.BROKERS, *brokers.DATABASES)) else {"STRATA_REQUIRE_BROKERS": "1"}
    )
    passed = _build(["test", "--release", "--workspace", *FEATURES, "--", *tests], programs | required)
    if passed and (lacking := brokers.remedies(programs, needed)):
        raise Skip(" and ".join(lacking))
    return passed


def _remote_for_longer() -> bool:
    """The same with a hundred times as many requests and a hundred kills, all suites on the double of TiKV, and a
    PostgreSQL that fails over."""
    more = {"STRATA_MODEL_TRANSACTIONS": "10000000", "STRATA_KILLS": "100"}
    passed = _build(
        ["test", "--release", "--workspace", *FEATURES, "--", OF_REMOTE_STORES, "--include-ignored"],
        brokers.environment() | more,
    )
    if passed and not (shutil.which("patroni") and shutil.which("etcd") and os.geteuid() == 0):
        raise Skip("apt-get install patroni etcd-server, as root")
    return passed


def _documents() -> bool:
    """The performance pages are what the stored runs say. Whether these are stale is known to git alone."""
    if reason := repository.refusal():
        raise Skip(f"run it in a clone of the repository ({reason})")
    return _python("run-benches.py", "document", "--check")()


def _form() -> bool:
    """Returns whether the Python has the form and keeps the rules of ruff.toml; `ruff format` mends the first."""
    python = ["run-benches.py", "run_benches", "load/tests"]
    passed = [_python("-m", "ruff", *words, *python)() for words in (["format", "--check"], ["check"])]
    return all(passed)


def _bench_stanzas() -> bool:
    """A bench without its stanza, or with Criterion's `harness = false` forgotten, runs nothing and is green."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    declared = {bench["name"]: bench for bench in manifest.get("bench", [])}
    # The other files beside them are modules that several benches share.
    sources = {
        path.stem
        for path in BENCHES.glob("*.rs")
        if re.search(r"^fn main\(|^criterion_main!", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    errors = [
        f'benches/{name}.rs has no [[bench]] name = "{name}" in Cargo.toml' for name in sorted(sources - set(declared))
    ]
    errors += [f"[[bench]] {name} has no benches/{name}.rs" for name in sorted(set(declared) - sources)]
    errors += [
        f"[[bench]] {name} lacks harness = false"
        for name, bench in declared.items()
        if bench.get("harness") is not False
    ]
    print("\n".join(errors), file=sys.stderr)
    return not errors and bool(declared)


def _every_bench() -> bool:
    """The benches as runs build them, each row once: without `--bench` Criterion measures nothing."""
    layers = [*layer_names(), SENTINELS]
    passed = [_call([str(executable)]) for layer, executable in build.build().items() if layer in layers]
    return all(passed)


def _published_rows() -> bool:
    """Every row of the published tables is filled by a bench that there is."""
    errors = published.check()
    print("\n".join(errors), file=sys.stderr)
    return not errors


def _at_random() -> bool:
    """Tests what `cargo test` reads at random, with twenty-five times as much of it, and a hundred times as many
    pictures."""
    toolchain.check()
    texts = _call(
        ["cargo", "test", "--release", "--lib", "--", "encoding::body", "query::parse", "streams::event"],
        {"STRATA_FUZZ_CASES": "100000"},
    )
    pictures = _call(
        ["cargo", "test", "--release", "--lib", "--", "pictures::tests::hostile"], {"STRATA_FUZZ_CASES": "1000000"}
    )
    return texts and pictures


def _rocksdb_once() -> bool:
    """Tests that a person's commands use what the runner built: none of them compiles RocksDB again."""
    toolchain.check()
    typed = (
        ["build", "--release"],
        ["bench", "--no-run"],
        ["test", "--release", "--workspace", "--no-run"],
        ["test", "--release", "--workspace", "--benches", "--no-run"],
    )
    passed = True
    for arguments in typed:
        done = processes.captured(["cargo", *arguments], cwd=ROOT)
        again = any("Compiling" in line and "librocksdb-sys" in line for line in done.stderr.splitlines())
        if done.returncode != 0 or again:
            print(f"cargo {' '.join(arguments)}: {'compiled RocksDB again' if again else 'failed'}", file=sys.stderr)
            passed = False
    return passed


def _embedded() -> bool:
    """The library as a program has it that embeds the store: lints, tests and documentation. RocksDB is linked as such
    a program links it, in a folder of its own, for which alone the variables are set that are refused elsewhere."""
    _check_cargo("clippy", "rustup component add clippy")
    own = ["--release", "--package", "strata", "--lib", "--no-default-features"]
    environment = library.environment() | {
        "CARGO_TARGET_DIR": str(toolchain.target_folder() / "embedding"),
        "RUSTDOCFLAGS": "-Dwarnings",
    }
    steps = (["clippy", *own, "--", "-D", "warnings"], ["test", *own], ["doc", *own, "--no-deps"])
    return all(_call(["cargo", *arguments], environment) for arguments in steps)


def _clients() -> bool:
    """Tests what programs in Python ask with: libraries, and a client that is generated from the OpenAPI document."""
    packages.add_full()
    return _python("-m", "pytest", "-q", "run_benches/tests/with_clients.py")()


def _lake() -> bool:
    """The package that is no member of the workspace: its lints and tests, then each event once, over kills, by readers
    that are not ours."""
    toolchain.check()
    packages.add_full()
    own = ["--release", "--locked", "--manifest-path", str(copying.MANIFEST), "--target-dir", str(copying.target())]
    steps = (
        ["fmt", "--check", "--manifest-path", str(copying.MANIFEST)],
        ["clippy", *own, "--all-targets", "--", "-D", "warnings"],
        ["test", *own],
    )
    return (
        all(_call(["cargo", *arguments]) for arguments in steps)
        and _python("-m", "pytest", "-q", "run_benches/tests/with_lake.py")()
    )


SHORT = ("--warm-up-time", "0.1", "--measurement-time", "0.2", "--sample-size", "10", "--noplot")
"""Criterion's own flags, for a bench that shall only show that it runs."""


def _criterion_baseline() -> bool:
    """The workflow of who knows Criterion: a baseline is saved, and the next run is held against it. One that is not
    there must fail, or a comparison with nothing would pass."""
    toolchain.check()
    with tempfile.TemporaryDirectory() as home:
        saved = _bench(home, "--save-baseline", "before-optimization")
        compared = _bench(home, "--baseline", "before-optimization")
        against_nothing = _bench(home, "--baseline", "never-saved")
    if saved.returncode or compared.returncode or "change:" not in compared.stdout:
        print(f"{saved.stderr}{compared.stdout}{compared.stderr}", file=sys.stderr)
        return False
    return against_nothing.returncode != 0


def _bench(home: str, *arguments: str) -> processes.Captured:
    """One small bench by hand, with its results kept in a folder that goes."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_THE_RUNNER} | {
        "CRITERION_HOME": home
    }
    command = ["cargo", "bench", "--bench", "observability", "--", *arguments, *SHORT]
    return processes.captured(command, cwd=ROOT, env=environment)
