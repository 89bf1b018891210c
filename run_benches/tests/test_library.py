"""RocksDB as a library: copied once and whole, and said in words that cargo reads."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from run_benches import places
from run_benches.cli import checks, library
from run_benches.errors import UserError
from run_benches.setup import libclang, rocksdb_build, toolchain
from run_benches.tests.checkout import Checkout

LIBRARIES = "libraries + more"
OBJECTS = ("25dac13516458d4d-db.o", "ae4e8abb3e2e5bbe-blob_contents.o", "7faeb1446c6a8a09-c_api_extensions.o")


def archive(path: Path, *names: str) -> None:
    """An archive of objects of these names, which hold no code."""
    for name in names:
        (path.parent / name).write_text(name)
    subprocess.run(["ar", "qc", path, *(path.parent / name for name in names)], check=True)
    for name in names:
        (path.parent / name).unlink()


def compiled(
    target: Path, number: int = 1, version: str = "0.49.0+11.12.0", objects: tuple[str, ...] = OBJECTS
) -> Path:
    """A target folder in which RocksDB has been compiled; returns what the build script left behind."""
    sources = target.parent / f"rust-librocksdb-sys-{version}"
    if not sources.exists():
        (sources / "rocksdb/include/rocksdb").mkdir(parents=True)
        (sources / "rocksdb/include/rocksdb/c.h").write_text("/* C */\n")
        (sources / "Cargo.toml").write_text(f'[package]\nname = "rust-librocksdb-sys"\nversion = "{version}"\n')
    folder = target / f"release/build/rust-librocksdb-sys-{number}"
    (folder / "out").mkdir(parents=True)
    archive(folder / "out/librocksdb.a", *objects)
    (folder / "output").write_text(
        f"cargo::rerun-if-changed=rocksdb/\ncargo::metadata=cargo_manifest_dir={sources}\ncargo::metadata=out_dir={folder}/out\n"
    )
    return folder


def members(path: Path) -> list[str]:
    return subprocess.run(["ar", "t", path], capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target folder, beside which libraries lie."""
    monkeypatch.setattr(rocksdb_build, "LIBRARIES", tmp_path / LIBRARIES)
    return tmp_path / "the target"


def made(target: Path) -> list[str]:
    """Returns what lies among the libraries."""
    return sorted(path.name for path in (target.parent / LIBRARIES).iterdir() if path.name != "lock")


def test_the_library_is_copied_once(target: Path) -> None:
    folder = compiled(target)
    found = rocksdb_build.library(target)
    assert found.parent == target.parent / LIBRARIES and re.fullmatch(
        r"librocksdb-0\.49\.0\+11\.12\.0-[0-9a-f]{8}", found.name
    )
    assert (found / "librocksdb.a").read_bytes() == (folder / "out/librocksdb.a").read_bytes()
    assert (found / "include/rocksdb/c.h").exists()
    (found / "include/rocksdb/c.h").write_text("it stays\n")
    assert (
        rocksdb_build.library(target) == found
        and (found / "include/rocksdb/c.h").read_text() == "it stays\n"
        and made(target) == [found.name]
    )
    assert rocksdb_build.library_variables(found) == {
        "ROCKSDB_LIB_DIR": str(found),
        "ROCKSDB_INCLUDE_DIR": f"{found}/include",
        "ROCKSDB_STATIC": "1",
    }


def test_the_newest_build_counts_and_an_earlier_library_stays(target: Path) -> None:
    old = compiled(target)
    first = rocksdb_build.library(target)
    compiled(target, 2, "0.50.0+11.13.0", OBJECTS[:2])
    (target / "release/build/rust-librocksdb-sys-3/out").mkdir(parents=True)
    (target / "release/build/rust-librocksdb-sys-3/output").touch()  # it has linked a library
    os.utime(old / "output", (time.time() - 60, time.time() - 60))
    second = rocksdb_build.library(target)
    assert second.name.startswith("librocksdb-0.50.0+11.13.0-") and made(target) == sorted([first.name, second.name])
    assert members(second / "librocksdb.a") == list(OBJECTS[:2])


def test_objects_of_a_second_archive_are_joined(target: Path) -> None:
    archive(compiled(target) / "out/librocksdb_crc32c_arm.a", "1-crc32c_arm64.o", "1-other.o")
    found = rocksdb_build.library(target)
    assert (
        members(found / "librocksdb.a") == [*OBJECTS, "1-crc32c_arm64.o", "1-other.o"]
        and not (found / "objects").exists()
    )


def test_what_fails_or_is_killed_leaves_no_half_library(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = compiled(target) / "out/librocksdb_crc32c_arm.a"
    second.write_bytes(b"no archive\n")
    with pytest.raises(UserError, match=r"^ar x .*librocksdb_crc32c_arm\.a failed: "):
        rocksdb_build.library(target)
    assert made(target) == []
    code = "from pathlib import Path; from run_benches.setup import rocksdb_build; import os, signal, sys"
    killed = "rocksdb_build._join = lambda *_: os.kill(os.getpid(), signal.SIGKILL); rocksdb_build.LIBRARIES = Path(sys.argv[2])"
    command = [
        sys.executable,
        "-c",
        f"{code}; {killed}; rocksdb_build.library(Path(sys.argv[1]))",
        str(target),
        str(target.parent / LIBRARIES),
    ]
    done = subprocess.run(command, cwd=places.ROOT, check=False)
    assert done.returncode == -signal.SIGKILL and [name[0] for name in made(target)] == ["."]
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(target))
    with pytest.raises(UserError, match="apt-get install binutils"):
        rocksdb_build.library(target)
    assert made(target) == []
    monkeypatch.setenv("PATH", path)
    second.unlink()
    found = rocksdb_build.library(target)
    assert made(target) == [found.name] and members(found / "librocksdb.a") == list(OBJECTS)


def test_what_the_build_no_longer_has_is_told(target: Path) -> None:
    with pytest.raises(UserError, match=r"has no librocksdb\.a.*: cargo clean --release -p rust-librocksdb-sys"):
        rocksdb_build.library(target)
    folder = compiled(target)
    shutil.rmtree(target.parent / "rust-librocksdb-sys-0.49.0+11.12.0/rocksdb")
    with pytest.raises(UserError, match=r"are not .*rust-librocksdb-sys-0\.49\.0\+11\.12\.0: cargo fetch"):
        rocksdb_build.library(target)
    (folder / "output").write_text("")
    with pytest.raises(UserError, match="are not where .*output should say: cargo fetch"):
        rocksdb_build.library(target)


def test_the_command_prints_what_cargo_reads(checkout: Checkout) -> None:
    assert "has no librocksdb.a" in checkout.error("library")
    compiled(checkout.root / "target")
    (checkout.root / ".cargo").mkdir()
    (checkout.root / ".cargo/local.toml").write_text(
        '[env]\nLIBCLANG_PATH = { value = "/the/lib\\"clang", force = true }\nBINDGEN_EXTRA_CLANG_ARGS = "-I/the/headers"\n'
    )
    done = checkout.run("library")
    assert done.returncode == 0 and done.stderr.splitlines()[-1].startswith(
        "put this into .cargo/config.toml of your program"
    ), done
    (folder,) = (path for path in (checkout.root / "cache/strata/libraries").iterdir() if path.name != "lock")
    expected = {
        "ROCKSDB_LIB_DIR": str(folder),
        "ROCKSDB_INCLUDE_DIR": f"{folder}/include",
        "ROCKSDB_STATIC": "1",
        "LIBCLANG_PATH": '/the/lib"clang',
        "BINDGEN_EXTRA_CLANG_ARGS": "-I/the/headers",
    }
    assert tomllib.loads(done.stdout) == {"env": expected}
    assert json.loads(checkout.run("library", "--json").stdout) == {"schema": 1, "env": expected}


def test_a_libclang_that_was_found_by_itself_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libclang, "LOCAL_CARGO_CONFIG", tmp_path / "local.toml")
    assert libclang.variables() == {}
    (tmp_path / "local.toml").write_text('[env]\nLIBCLANG_PATH = "/a"\nOTHER = "b"\n')
    assert libclang.variables() == {"LIBCLANG_PATH": "/a"}


def test_the_step_links_the_library_in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[tuple[list[str], dict[str, str]]] = []

    def call(command: list[str], more: dict[str, str]) -> bool:
        called.append((command, more))
        return True

    monkeypatch.setattr(checks, "_check_cargo", lambda component, remedy: None)
    monkeypatch.setattr(checks, "_call", call)
    monkeypatch.setattr(library, "environment", lambda: {"ROCKSDB_LIB_DIR": "/a"})
    monkeypatch.setattr(toolchain, "target_folder", lambda: tmp_path)
    assert "the library without the server" in [step.name for step in checks.steps(full=True)]
    assert checks._embedded() and [command[1] for command, _ in called] == ["clippy", "test", "doc"]
    for command, more in called:
        assert {"--release", "--lib", "--no-default-features"} <= set(command)
        assert more == {
            "ROCKSDB_LIB_DIR": "/a",
            "CARGO_TARGET_DIR": str(tmp_path / "embedding"),
            "RUSTDOCFLAGS": "-Dwarnings",
        }
