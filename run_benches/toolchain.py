"""What a build needs from the machine: a C++ compiler, cargo, libclang, space, and an environment that says nothing about flags.

Why checked first: RocksDB compiles for half an hour, and what is missing shows at its end, in a page of another tool's words. And why
the environment is refused rather than used: what stands in a shell but not in `.cargo/config.toml` makes the next `cargo bench` that a
person types compile RocksDB a second time.
"""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

from run_benches import packages, shapes
from run_benches.errors import Complaint
from run_benches.places import LOCAL_CARGO_CONFIG, ROOT

SPACE_FOR_FIRST_BUILD_GIB = 6
SPACE_FOR_LATER_BUILD_GIB = 1

FLAGS = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS")

# Where the loader of bindgen (clang-sys) looks; as there, a versioned library counts.
LIBCLANG_FOLDERS = ("/usr/lib/llvm*/lib*", "/usr/local/llvm*/lib*", "/usr/lib*", "/usr/lib*/*", "/usr/lib*/*/*", "/usr/local/lib*", "/usr/local/lib*/*")
LIBCLANG_NAMES = ("libclang.so", "libclang-*.so", "libclang.so.*", "libclang-*.so.*", "libclang.dylib")


def target_folder() -> Path:
    """Where cargo puts what it builds: the user's own folder, so that RocksDB is compiled once for everybody."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()


def rocksdb_builds(target: Path) -> set[str]:
    """The times that the long part of the build has been done in this target folder (its build script has finished), by name."""
    return {output.parent.name for output in target.glob("release/build/*librocksdb-sys-*/output")}


def check(target: Path | None = None) -> None:
    """Complains about what a build into `target` (by default the user's own folder) would fail for, and gives the machine a libclang
    if it has none."""
    _check_environment()
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise Complaint("cargo is not installed; install Rust from https://rustup.rs, then run this again")
    if not shutil.which(os.environ.get("CXX", "c++")):
        raise Complaint("no C++ compiler (c++): RocksDB needs one; with Debian: apt-get install g++")
    _check_space(target or target_folder())
    _ensure_libclang()


def _check_environment() -> None:
    names = [name for name in os.environ if name in FLAGS or name.startswith(("CARGO_PROFILE_RELEASE_", "CARGO_PROFILE_BENCH_"))]
    if names:
        raise Complaint(f"{names[0]} is set, which would compile RocksDB a second time with other flags: unset {' '.join(names)} (flags stand in .cargo/config.toml)")


def _check_space(target: Path) -> None:
    existing = next(parent for parent in (target, *target.parents) if parent.exists())
    free_gib = shutil.disk_usage(existing).free / 2**30
    needed_gib = SPACE_FOR_LATER_BUILD_GIB if rocksdb_builds(target) else SPACE_FOR_FIRST_BUILD_GIB
    if free_gib < needed_gib:
        variable = "CARGO_TARGET_DIR" if target == target_folder() else "STRATA_COMPARE_DIR"
        raise Complaint(f"{free_gib:.1f} GiB free at {existing}, and the build needs {needed_gib}: make room, or set {variable} to a larger disk")


def system_libclang() -> Path | None:
    """The libclang that bindgen will find by itself."""
    folders = [path for path in (os.environ.get("LIBCLANG_PATH"), _llvm_library_folder()) if path]
    for folder in [*folders, *(found for pattern in LIBCLANG_FOLDERS for found in glob.glob(pattern))]:
        if Path(folder).is_file():
            return Path(folder)
        for name in LIBCLANG_NAMES:
            for library in glob.glob(f"{folder}/{name}"):
                return Path(library)
    return None


def _llvm_library_folder() -> str | None:
    tool = shutil.which("llvm-config")
    return subprocess.run([tool, "--libdir"], capture_output=True, text=True, check=False).stdout.strip() if tool else None


def _ensure_libclang() -> None:
    """Where the system has none: the wheel, and two lines for cargo that lead there and to the compiler's own headers."""
    folder = ROOT / ".cargo" / "libclang"
    library = folder / "clang" / "native"
    if (LOCAL_CARGO_CONFIG.exists() and library.exists()) or (not LOCAL_CARGO_CONFIG.exists() and system_libclang()):
        return
    print("no libclang on this machine: installing the wheel into .cargo/libclang (or install it: apt-get install libclang-dev)", file=sys.stderr)
    packages.install(sys.executable, ROOT / "run_benches" / "libclang.txt", ["--upgrade", "--target", str(folder)])
    headers = subprocess.run(["c++", "-print-file-name=include"], capture_output=True, text=True, check=False).stdout.strip()
    lines = ["# Written by run-benches.py, since this machine has no libclang of its own.", "[env]", f'LIBCLANG_PATH = "{library}"']
    shapes.write(LOCAL_CARGO_CONFIG, "\n".join([*lines, f'BINDGEN_EXTRA_CLANG_ARGS = "-I{headers}"', ""]))
