"""The needs of a build, but for what it inherits: asked for before it begins, on machines that have it, lack it, or
have something that only looks like it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from run_benches import places
from run_benches.errors import UserError
from run_benches.measure import provenance
from run_benches.setup import libclang, packages, rocksdb_build, toolchain

OURS = {"LIBCLANG_PATH": "{root}/.cargo/libclang/clang/native", "BINDGEN_EXTRA_CLANG_ARGS": "-I/the/headers"}
FINGERPRINT = '{{"deps":[],"local":[{{"RerunIfEnvChanged":{{"var":"LIBCLANG_PATH","val":{path}}}}},{{"RerunIfEnvChanged":{{"var":"BINDGEN_EXTRA_CLANG_ARGS","val":null}}}}]}}'
"""As cargo writes it beside a build script that has run."""


class Machine:
    """A checkout and a target folder; what would be fetched is noted, and is `wheel` if there is one."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.target, self.wheel, self.fetched = root, root / "target", None, 0  # type: tuple[Path, Path, Path | None, int]
        patch.setattr(libclang, "LOCAL_CARGO_CONFIG", root / ".cargo/local.toml")
        patch.setattr(libclang, "LIBRARY", root / ".cargo/libclang/clang/native/libclang.so")
        patch.setattr(libclang, "_headers", lambda compiler: "/the/headers")
        patch.setattr(packages, "install", self.install)
        self.local = root / ".cargo/local.toml"

    def install(self, python: str, requirements: Path, options: list[str]) -> None:
        assert (python, requirements) == (sys.executable, places.ROOT / "run_benches/setup/libclang.txt")
        self.fetched += 1
        libclang.LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        if self.wheel:
            shutil.copy(self.wheel, libclang.LIBRARY)

    def build(self, path: str = "null") -> None:
        """RocksDB is compiled, with the libclang at this path."""
        for folder, file, text in (
            ("build/x-librocksdb-sys-1", "output", ""),
            (".fingerprint/x-librocksdb-sys-1", "run-build-script-build.json", FINGERPRINT.format(path=path)),
        ):
            (self.target / "release" / folder).mkdir(parents=True, exist_ok=True)
            (self.target / "release" / folder / file).write_text(text)

    def told(self) -> dict[str, str]:
        """Returns the variables that cargo sets, whatever the environment has."""
        entries = tomllib.loads(self.local.read_text())["env"]
        assert all(entry["force"] for entry in entries.values())
        return {name: entry["value"] for name, entry in entries.items()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: Path) -> Machine:
    made = Machine(tmp_path, monkeypatch)
    made.wheel = stub
    return made


def ours(machine: Machine) -> dict[str, str]:
    return {name: value.format(root=machine.root) for name, value in OURS.items()}


def test_the_wheel_is_fetched_once_and_named_to_cargo(machine: Machine) -> None:
    for _ in range(2):
        libclang.ensure(machine.target)
    assert machine.fetched == 1 and machine.told() == ours(machine)


def test_what_the_system_has_is_not_asked_for(machine: Machine, monkeypatch: pytest.MonkeyPatch, stub: Path) -> None:
    (machine.root / "libclang-cpp.so.14").write_bytes(stub.read_bytes())
    monkeypatch.setenv("LIBCLANG_PATH", str(machine.root))
    libclang.ensure(machine.target)
    assert machine.fetched == 1 and machine.told() == ours(machine)


def test_another_library_or_half_of_one_is_refused_before_the_build(machine: Machine, stub: Path) -> None:
    machine.wheel = machine.root / "libclang-cpp.so.14"
    subprocess.run(
        ["cc", "-shared", "-x", "c", "-o", machine.wheel, "-"], input="void clang_other(void) {}", text=True, check=True
    )
    for content, error in (
        (machine.wheel.read_bytes(), "undefined symbol: clang_getClangVersion"),
        (stub.read_bytes()[:5000], ""),
        (b"", "file too short"),
    ):
        machine.wheel.write_bytes(content)
        with pytest.raises(
            UserError, match=f"the libclang of run_benches/setup/libclang.txt cannot be used here: .*{error}"
        ):
            libclang.ensure(machine.target)
        assert not machine.local.exists()


def test_a_rocksdb_that_is_compiled_keeps_the_libclang_it_has(machine: Machine) -> None:
    machine.build()
    libclang.ensure(machine.target)
    assert not machine.local.exists()
    machine.local.parent.mkdir()
    for kept in ('[env]\nLIBCLANG_PATH = "/elsewhere"\n', f'[env]\nLIBCLANG_PATH = "{libclang.LIBRARY.parent}"\n'):
        machine.local.write_text(kept)
        libclang.ensure(machine.target)
        assert machine.local.read_text() == kept
    assert machine.fetched == 1, "only our own can be fetched again"


def test_a_library_that_was_deleted_is_fetched_again(machine: Machine) -> None:
    libclang.ensure(machine.target)
    machine.build()
    libclang.LIBRARY.unlink()
    libclang.ensure(machine.target)
    assert machine.fetched == 2 and machine.told() == ours(machine)


def test_a_copied_target_folder_brings_its_libclang(machine: Machine) -> None:
    machine.build('"/other/checkout/native"')
    libclang.ensure(machine.target)
    assert machine.told() == {"LIBCLANG_PATH": "/other/checkout/native"} and machine.fetched == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"local": 1}', '{"local": [1]}'])
def test_a_fingerprint_that_cannot_be_read_says_nothing(machine: Machine, content: str) -> None:
    machine.build()
    next(machine.target.glob("release/.fingerprint/*/*.json")).write_text(content)
    assert rocksdb_build.libclang_variables(machine.target) == {}


CONFIG = """
[build]
rustflags = ["never"]
[target.'cfg(all())']
rustflags = ["everywhere"]
[target.'cfg(target_arch = "x86_64")']
rustflags = ["-C", "target-feature=+sse4.2,+pclmulqdq"]
[target.'cfg(all(unix, not(any(windows, target_arch = "aarch64"))))']
rustflags = ["-C", "nested"]
[target.'cfg(not(unix))']
rustflags = ["elsewhere"]
[target.powerpc-unknown-linux-gnu]
rustflags = ["elsewhere"]
[target.x86_64-unknown-linux-gnu]
linker = "cc"
rustflags = ["host"]
"""


def of(monkeypatch: pytest.MonkeyPatch, folder: Path, config: str, arch: str = "x86_64") -> None:
    """A machine of this kind, with a configuration."""
    said = {"--print": f'target_arch="{arch}"\nunix\n', "-vV": f"rustc 1.95.0\nhost: {arch}-unknown-linux-gnu\n"}
    (folder / "config.toml").write_text(config)
    monkeypatch.setattr(toolchain, "CARGO_CONFIG", folder / "config.toml")
    monkeypatch.setattr(toolchain, "_said", lambda *command: said[command[1]])


def test_flags_that_apply_are_joined_and_replace_those_of_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of(monkeypatch, tmp_path, CONFIG)
    assert provenance.how_built().flags == "everywhere -C target-feature=+sse4.2,+pclmulqdq -C nested host"
    of(monkeypatch, tmp_path, CONFIG, "aarch64")
    assert toolchain.flags() == ["everywhere"]
    of(monkeypatch, tmp_path, '[build]\nrustflags = ["a"]\n[target.x86_64-unknown-linux-gnu]\nlinker = "cc"\n')
    assert toolchain.flags() == ["a"]


def test_the_flags_of_this_checkout_are_stored() -> None:
    assert provenance.how_built().flags.startswith("-C llvm-args=-align-all-functions=6 ")


@pytest.mark.parametrize(
    ("cpuinfo", "lacks"),
    [
        ("flags\t\t: fpu sse4_1 sse4_2 pclmulqdq\nbugs\t\t: none\n", ""),
        ("flags\t\t: fpu sse4_1 sse4_2\nbugs\t\t: pclmulqdq\n", "pclmulqdq"),
        ("flags\t\t: fpu sse4_1\n", "sse4.2 and pclmulqdq"),
        ("", ""),
    ],
)
def test_an_older_processor_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpuinfo: str, lacks: str
) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    of(monkeypatch, tmp_path, CONFIG)
    if lacks:
        with pytest.raises(UserError, match=rf"^this processor lacks {lacks}, .*\.cargo/config\.toml"):
            toolchain._check_processor(tmp_path / "cpuinfo")
    else:
        toolchain._check_processor(tmp_path / "cpuinfo")
    of(monkeypatch, tmp_path, CONFIG, "aarch64")
    toolchain._check_processor(tmp_path / "cpuinfo")


def test_no_space_is_said_before_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    monkeypatch.setattr(toolchain, "SPACE_FOR_FIRST_BUILD_GIB", 10**6)
    with pytest.raises(UserError, match="make room, or set CARGO_TARGET_DIR"):
        toolchain._check_space(toolchain.target_folder())


def test_the_target_folder_is_the_one_that_cargo_is_configured_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    monkeypatch.setenv("CARGO_BUILD_TARGET_DIR", str(tmp_path / "configured"))
    toolchain._configured_target.cache_clear()
    assert toolchain.target_folder() == tmp_path / "configured"
    monkeypatch.setenv("PATH", str(tmp_path))
    toolchain._configured_target.cache_clear()
    assert toolchain.target_folder() == places.ROOT / "target", "without cargo"
    toolchain._configured_target.cache_clear()
