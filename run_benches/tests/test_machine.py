"""Which machine a figure is of: processors of one name are told apart, and what was not recorded is never taken for
equal."""

from pathlib import Path
from typing import Any

import pytest

from run_benches.errors import UserError
from run_benches.measure import machine
from run_benches.store.runs import Machine
from run_benches.tests.made_up import A_MACHINE

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
stepping\t: 1
cpu cores\t: 2
"""

ARM = """processor\t: {}
BogoMIPS\t: 2100.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: {}
CPU part\t: {}
CPU revision\t: 1
"""


def test_the_generation_of_a_processor_is_told() -> None:
    assert machine.processor("x86_64", X86 + X86) == {"family": "26", "model": "2", "stepping": "1"}
    cores = ARM.format(0, "0x3", "0xd0c") + ARM.format(1, "0x3", "0xd0c")
    assert machine.processor("aarch64", cores) == {
        "implementer": "0x41",
        "variant": "0x3",
        "part": "0xd0c",
        "revision": "1",
    }


def test_cores_of_two_kinds_are_both_told() -> None:
    assert (
        machine.processor("aarch64", ARM.format(0, "0x1", "0xd05") + ARM.format(1, "0x0", "0xd0a"))["part"]
        == "0xd05, 0xd0a"
    )


def test_what_is_not_told_is_absent() -> None:
    assert machine.processor("x86_64", "processor: 0\n") == {"family": None, "model": None, "stepping": None}
    assert machine.processor("riscv64", X86) == {}


def test_the_sizes_of_the_caches_are_told(tmp_path: Path) -> None:
    assert machine.caches(tmp_path) is None
    for core in (0, 1):
        for index, (level, kind, size) in enumerate(
            (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"))
        ):
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size)):
                (folder / name).write_text(f"{text}\n")
    assert machine.caches(tmp_path) == "L1d 48K, L1i 32K, L2 1024K"


@pytest.mark.parametrize("name", ["family", "model", "stepping", "caches", "cores", "memory_gib"])
def test_machines_of_one_name_are_unlike_if_one_part_differs(name: str) -> None:
    here, there = (
        Machine({**A_MACHINE, "memory_gib": 24}, {}),
        Machine({**A_MACHINE, "memory_gib": 24, name: "another"}, {}),
    )
    assert here.likeness(there).differ == [name] and not here.likeness(there).unknown
    assert here.likeness(here).alike


@pytest.mark.parametrize(
    ("architecture", "unknown"),
    [
        ("x86_64", ["family", "model", "stepping", "caches"]),
        ("aarch64", ["implementer", "variant", "part", "revision", "caches"]),
        ("riscv64", ["caches"]),
    ],
)
def test_what_was_not_recorded_is_never_taken_for_equal(architecture: str, unknown: list[str]) -> None:
    old: dict[str, Any] = {"cpu_model": "A processor", "cores": 2, "architecture": architecture}
    both_old, one_old = (
        Machine(old, {}).likeness(Machine(old, {})),
        Machine(old, {}).likeness(Machine({**old, **dict.fromkeys(unknown, "1")}, {})),
    )
    assert (both_old.differ, both_old.unknown, both_old.alike) == ([], unknown, False)
    assert (one_old.differ, one_old.unknown) == ([], unknown)


def test_another_kernel_is_another_kernel_and_no_other_machine() -> None:
    six, seven, old = (Machine(A_MACHINE, recorded) for recorded in ({"kernel": "6"}, {"kernel": "7"}, {}))
    assert six.likeness(seven).alike
    assert six.other_kernel(seven) == "kernel 6, then 7" and six.other_kernel(six) is None
    assert "not known" in (old.other_kernel(six) or "") and "not known" in (old.other_kernel(old) or "")


def test_what_another_machine_began_is_not_gone_on_with() -> None:
    here = machine.describe(None)
    machine.check_same(here, "a run")
    for there in (
        {**here.identity, "stepping": "another"},
        {name: here.identity[name] for name in ("cpu_model", "cores", "architecture", "memory_gib")},
    ):
        with pytest.raises(UserError, match="a run was begun on another machine"):
            machine.check_same(Machine(there, here.recorded), "a run")
