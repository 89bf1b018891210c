"""A checkout with fake tools in it, so that whole commands run in a second and in processes of their own.

Why whole commands: what a person sees (exit codes, one-line complaints, a run that goes on after Ctrl-C) is the sum of
all modules.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from run_benches import files, places, serialization
from run_benches.store import runs
from run_benches.store.runs import Run

FAKES = Path(__file__).parent / "fakes"
LAYERS = ("storage", "integration")


@dataclass(frozen=True)
class Checkout:
    """A folder that looks like this repository, with layers that measure nothing."""

    root: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(self.root / "run-benches.py"), *words]

    def environment(self) -> dict[str, str]:
        scrubbed = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CARGO_", "RUST", "STRATA_", "PYTHONDONTWRITE"))
        }
        return scrubbed | {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.root / "cache"),
        }

    def run(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        merged = self.environment() | environment
        return subprocess.run(
            self.command(*words), env=merged, cwd="/", capture_output=True, text=True, timeout=120, check=False
        )

    def error(self, *words: str, **environment: str) -> str:
        """Runs a command that must end with one line on standard error and exit code 2."""
        done = self.run(*words, **environment)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 2, done
        assert lines[-1].startswith("run-benches.py: ") and "Traceback" not in done.stderr, done.stderr
        return lines[-1].removeprefix("run-benches.py: ")

    def last(self) -> Run:
        return runs.load(max((self.root / "runs").glob("2*.json")))

    def keep(self, run: str, *names: str) -> None:
        """Saves a stored run under these names."""
        files.replace(self.root / "runs" / "20260101T000000Z-1.json", run)
        for name in names:
            assert self.run("save", name, "--run", "last").returncode == 0

    def trouble(self, text: str) -> None:
        (self.root / "bin" / "FAKE_TROUBLE").write_text(text)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh one for each test."""
    return made(tmp_path / "checkout")


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of the layer storage, as it was stored: for tests of what is done with one."""
    checkout = made(tmp_path_factory.mktemp("measured") / "checkout")
    assert checkout.run("storage", "--quick", "--seed", "7").returncode == 0
    return serialization.text(checkout.last())


def made(root: Path) -> Checkout:
    """A checkout with programs that measure nothing."""
    bin = root / "bin"
    bin.mkdir(parents=True)
    (root / "run_benches").symlink_to(places.ROOT / "run_benches")
    (root / ".venv").symlink_to(sys.prefix)
    shutil.copy(places.ROOT / "run-benches.py", root)
    stanzas = "".join(f'[[bench]]\nname = "{layer}"\nharness = false\n' for layer in LAYERS)
    (root / "Cargo.toml").write_text(f"[package]\nname = 'fake'\n{stanzas}")
    (root / "src").mkdir()
    (root / "src" / "lib.rs").write_text("pub mod storage;\n")
    (root / "benches").mkdir()
    for layer in LAYERS:
        (root / "benches" / f"{layer}.rs").write_text(f"//! What {layer} costs.\nfn main() {{}}\n")
        _install(FAKES / "bench.py", bin / f"{layer}-fake")
    _install(FAKES / "bench.py", bin / "harness-fake")
    shutil.copytree(places.ROOT / "load" / "scenarios", root / "load" / "scenarios")
    for program in ("load", "strata"):
        _install(FAKES / "load.py", bin / f"{program}-program")
    for result in FAKES.glob("load_result.*"):
        shutil.copy(result, bin)
    _install(FAKES / "cargo.py", bin / "cargo")
    for tool in ("rustc", "c++"):
        (bin / tool).write_text("#!/bin/sh\necho fake 1.0\n")
        (bin / tool).chmod(0o755)
    (root / "target/release/build/fake-librocksdb-sys-0").mkdir(parents=True)
    (root / "target/release/build/fake-librocksdb-sys-0/output").touch()
    return Checkout(root)


def _install(source: Path, to: Path) -> None:
    to.write_text(source.read_text().replace("#!/usr/bin/env python3", f"#!{sys.executable} -IS"))
    to.chmod(0o755)


def edited(path: Path, **fields: object) -> None:
    """Changes fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
