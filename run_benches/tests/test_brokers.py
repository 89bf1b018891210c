"""The programs of brokers and databases: a version that is too old is none, and what is missing is installed once, or
said."""

import shutil
import sysconfig
from pathlib import Path

import pytest

from run_benches.errors import UserError
from run_benches.setup import brokers, packages

ALL = (*brokers.BROKERS, *brokers.DATABASES)


class Machine:
    """A path with programs, and an index that has the wheels, or not."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.bin, self.venv, self.fetched = folder / "bin", folder / "venv", 0
        self.wheels = {"brokers.txt": "2.15.1", "go.txt": "1.26.6"}
        self.bin.mkdir()
        patch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        patch.delenv("STRATA_POSTGRES_PROGRAM", raising=False)
        patch.setattr(brokers, "VENV", self.venv)
        patch.setattr(brokers, "DEBIANS_POSTGRES", folder / "postgresql")
        # What the machine itself has.
        patch.setattr(
            shutil, "which", lambda name: next((str(file) for file in [self.bin / name] if file.is_file()), None)
        )
        patch.setattr(packages, "install", self.install)

    def install(self, python: str, requirements: Path, options: list[str]) -> None:
        assert requirements.is_file()
        self.fetched += 1
        version = self.wheels.get(requirements.name)
        if not version:
            raise UserError("no network")
        if requirements.name == "go.txt":
            self.go(self.venv / "lib/python3.11/site-packages/go/bin", version)
        else:
            self.program(self.venv / "bin", "nats-server", version)

    def program(self, folder: Path, name: str, version: str) -> str:
        return self.script(folder / name, f"echo '{name}: v{version}'")

    def go(self, folder: Path, version: str, builds: str = 'echo > "$5"') -> None:
        self.script(
            folder / "go", f'case "$1" in version) echo "go version go{version} linux/amd64";; build) {builds};; esac'
        )

    def script(self, file: Path, text: str) -> str:
        file.parent.mkdir(parents=True, exist_ok=True)
        (self.venv / "bin").mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return str(file)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    monkeypatch.setattr(sysconfig, "get_path", lambda name, vars: f"{vars['base']}/lib/python3.11/site-packages")
    return machine


def test_the_programs_of_the_system_are_taken(machine: Machine) -> None:
    nats, redis = (
        machine.program(machine.bin, "nats-server", "2.10.29"),
        machine.program(machine.bin, "redis-server", "7.0.15"),
    )
    postgres = machine.program(brokers.DEBIANS_POSTGRES / "15/bin", "postgres", "15")
    machine.go(machine.bin, "1.24.0")
    found = brokers.environment()
    assert [found[name] for name in ALL] == [nats, redis, postgres, str(machine.venv / "bin/tikv-double")]
    assert machine.fetched == 0 and brokers.remedies(found, ALL) == []


@pytest.mark.parametrize("version", ["2.9.25", ""])
def test_one_that_is_too_old_is_replaced_by_the_wheel_once(machine: Machine, version: str) -> None:
    machine.program(machine.bin, "nats-server", version)
    machine.go(machine.bin, "1.19.8")
    wheel = str(machine.venv / "bin/nats-server")
    assert [brokers.environment()["STRATA_NATS_PROGRAM"] for _ in range(2)] == [wheel, wheel]
    assert machine.fetched == 2 and "STRATA_TIKV_DOUBLE_PROGRAM" in brokers.environment()


@pytest.mark.parametrize("wheels", [{}, {"brokers.txt": "2.9.0", "go.txt": "1.19.8"}])
def test_what_is_missing_is_said(machine: Machine, wheels: dict[str, str]) -> None:
    machine.wheels = wheels
    assert brokers.environment() == {}
    assert len(brokers.remedies({}, ALL)) == 4 and len(brokers.remedies({}, brokers.DATABASES)) == 2


def test_a_double_that_is_not_built_is_said(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.go(machine.bin, "1.26.0", "echo 'no modules' >&2; exit 1")
    assert "STRATA_TIKV_DOUBLE_PROGRAM" not in brokers.environment()
    assert "the double of TiKV cannot be built: no modules" in capsys.readouterr().err
