"""The doctor on machines that are quiet, noisy, or say nothing at all."""

import json
import os
from pathlib import Path

import pytest

from run_benches.cli import doctor
from run_benches.cli.doctor import Finding
from run_benches.errors import Exit
from run_benches.measure import build
from run_benches.stats import judge

NOISY = {
    "proc/pressure/cpu": "some avg10=9.00 avg60=25.00 avg300=8.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "proc/pressure/io": "some avg10=0.00 avg60=1.00 avg300=0.00 total=1\n",
    "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\nSwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n",
    "proc/loadavg": "64.50 2.00 1.00 3/200 4711\n",
    "proc/cpuinfo": "flags\t\t: fpu vme hypervisor sse\n",
    "proc/self/cgroup": "0::/build/job\n",
    "proc/sys/kernel/randomize_va_space": "0\n",
    "sys/fs/cgroup/build/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/build/job/cpu.max": "max 100000\n",
    "sys/fs/cgroup/build/job/cpu.stat": "usage_usec 1\nnr_periods 100\nnr_throttled 12\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
}


def machine_of(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def found(findings: list[Finding]) -> dict[str, Finding]:
    return {one.what: one for one in findings}


def test_a_noisy_machine_is_told_what_would_help(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    siblings = {f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list": f"{core},{core + 4}-{core + 5}\n"}
    root = machine_of(tmp_path, NOISY | siblings)
    seen = found([*doctor.processor(root), *doctor.pressure(root), *doctor.memory(root)])
    expected = {
        f"core {core}, of pairs": f"shared with {core + 4}, {core + 5}",
        "virtual machine": "yes",
        "frequency governor": "powersave",
        "turbo": "on",
        "cgroup's quota": "1.5 cores; throttled 12 times",
        "load of the last minute": "64.50",
        "waited for cpu": "25 % of the last minute",
        "memory available": "1.0 GiB",
        "swap in use": "1.0 GiB",
        "huge pages": "always",
        "random addresses": "off",
    }
    assert {what: seen[what].found for what in expected} == expected
    assert all(seen[what].advice for what in expected)
    assert not seen["waited for io"].advice and seen["waited for memory"] == Finding("waited for memory", "unknown")


def test_a_machine_that_says_nothing_gets_no_advice(tmp_path: Path) -> None:
    silent = [*doctor.processor(tmp_path), *doctor.pressure(tmp_path), *doctor.memory(tmp_path)]
    assert not [one.what for one in silent if one.advice and one.what != "cores"]
    assert doctor.used(tmp_path) == {}


def test_other_programs_are_named_and_ours_are_not(tmp_path: Path) -> None:
    me = os.getpid()

    def processes(times: dict[int, int]) -> dict[str, str]:
        names = {1: "init", 7: "a shell) (odd", me: "python3", 70_000: "rustc", 70_001: "idle"}
        parents = {1: 0, 7: 1, me: 7, 70_000: 1, 70_001: 1}
        return {
            f"proc/{one}/stat": f"{one} ({names[one]}) S {parents[one]} 1 1 0 -1 4 0 0 0 0 {time} 0 0 0 20 0 1 0\n"
            for one, time in times.items()
        }

    before = doctor.used(machine_of(tmp_path, processes({1: 5, 7: 5, me: 5, 70_000: 100, 70_001: 3})))
    after = doctor.used(
        machine_of(tmp_path, processes({1: 80, 7: 90, me: 100, 70_000: 100 + os.sysconf("SC_CLK_TCK") // 2, 70_001: 3}))
    )
    assert sorted(name for _, name in after) == ["idle", "rustc"]
    finding = doctor.busiest(before, after)
    assert finding.found == "rustc 50 %" and finding.advice
    assert doctor.busiest(after, after) == Finding("other programs, of a core", "none")


def test_what_can_be_seen_follows_from_the_scatter() -> None:
    quiet, noisy = (
        doctor.scatter("quiet", [0.001, -0.001, 0.002, -0.002]),
        doctor.scatter("noisy", [0.1, -0.1, 0.2, -0.2]),
    )
    assert quiet.deviation == pytest.approx(0.001826, abs=1e-6)
    assert quiet.visible["16"] == pytest.approx(
        judge.smallest_visible(quiet.deviation, 16, doctor.ROWS, doctor.MARGIN), abs=1e-5
    )
    assert doctor.MARGIN < quiet.visible["16"] < noisy.visible["16"] and noisy.visible["64"] < noisy.visible["16"]


def test_everything_fits_and_a_fresh_checkout_is_told_what_to_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "last_build", dict)
    assert doctor.main(False) == Exit.FINE
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert "was not measured: it takes the benches" in text
    assert doctor.main(True) == Exit.FINE
    printed = json.loads(capsys.readouterr().out)
    assert printed["sentinels"] == [] and "first build" in printed["unmeasured"] and len(printed["findings"]) > 20
