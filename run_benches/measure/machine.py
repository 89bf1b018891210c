"""The identity of this machine and its circumstances: the part that must agree before times are put side by side, and
the part that is merely recorded.

Why two parts: a kernel update or a busy hour is worth knowing when figures differ, but another processor makes them
incomparable. Two hosts whose processors have one name may be a generation apart (arithmetic in registers 1.45 times as
fast, a server 0.63 times), so the identity says the family, the model, the stepping and the caches, too. All of it is
read from the files of Linux; what a machine does not tell is absent, never guessed.
"""

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from run_benches import processes
from run_benches.errors import UserError
from run_benches.store.runs import PROCESSOR, Machine


def describe(file_system: str | None) -> Machine:
    """This machine, with the type of the file system that the stores of the benches lie on."""
    identity: dict[str, Any] = {
        "cpu_model": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "memory_gib": round(memory_gib("MemTotal") or 0),
        **processor(platform.machine(), _read("/proc/cpuinfo")),
        "caches": caches(Path("/sys/devices/system/cpu")),
    }
    system = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', _read("/etc/os-release"), re.MULTILINE)
    try:
        virtualisation = processes.captured(["systemd-detect-virt"]).stdout.strip() or None
    except OSError:
        hypervisor = re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE)
        virtualisation = "yes" if hypervisor else None
    recorded: dict[str, Any] = {
        "kernel": platform.release(),
        "os": system[1] if system else platform.system(),
        "file_system": file_system,
        "governor": governor(),
        "load_average": round(os.getloadavg()[0], 2),
        "virtualisation": virtualisation,
        "memory_available_gib": memory_gib("MemAvailable"),
    }
    return Machine(identity, recorded)


def cpu_model() -> str:
    """The processor's name."""
    found = re.search(r"^(?:model name|Model|CPU implementer)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown"


def processor(architecture: str, cpuinfo: str) -> dict[str, str | None]:
    """The generation of the processors, as /proc/cpuinfo tells it: `cpu family` of x86, `CPU part` of Arm; where cores
    differ, that of each kind."""
    names = [name for name in PROCESSOR.get(architecture, ()) if name != "caches"]
    found = {name: re.findall(rf"^(?:cpu |CPU )?{name}\s*:\s*(\S+)$", cpuinfo, re.MULTILINE) for name in names}
    return {name: ", ".join(dict.fromkeys(values)) or None for name, values in found.items()}


_KINDS = {"Data": "d", "Instruction": "i"}


def caches(processors: Path) -> str | None:
    """The sizes of the caches that a core has or shares: `L1d 48K, L1i 32K, L2 1024K, L3 32768K`."""
    found = set()
    for cache in processors.glob("cpu[0-9]*/cache/index[0-9]*"):
        level, kind, size = (_read(str(cache / name)).strip() for name in ("level", "type", "size"))
        found.add(f"L{level}{_KINDS.get(kind, '')} {size}")
    return ", ".join(sorted(found)) or None


def check_same(there: Machine, what: str) -> None:
    """Refuses to go on here with what was begun on another machine, and says where its kernel is another one."""
    here = describe(None)
    likeness = there.likeness(here)
    if not likeness.alike:
        raise UserError(f"{what} was begun on another machine: {likeness.words}; go on there, or begin anew")
    if other := there.other_kernel(here):
        print(f"{what} was begun under another kernel: {other}", file=sys.stderr)


def memory_gib(name: str) -> float | None:
    """A line of /proc/meminfo."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return round(int(found[1]) / 2**20, 1) if found else None


def governor() -> str | None:
    """The frequency governor of the first core; virtual machines have none."""
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def file_system(folder: Path) -> str | None:
    """The type of the file system that holds `folder`: that of the longest mount point above it."""
    best, kind = "", None
    for line in _read("/proc/self/mounts").splitlines():
        _, mount, found, *_ = line.split(" ")
        mount = mount.encode().decode("unicode_escape")
        if len(mount) >= len(best) and folder.absolute().is_relative_to(mount):
            best, kind = mount, found
    return kind


def steal_and_total_jiffies() -> tuple[int, int]:
    """Time that the hypervisor gave to others, and all time, over all cores since the start of the machine."""
    fields = [int(field) for field in _read("/proc/stat").partition("\n")[0].split()[1:]]
    return (fields[7] if len(fields) > 7 else 0), sum(fields[:8])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
