"""The long build: how far it is, and the one line that says why it failed. What is quoted was said by cargo."""

import os
import textwrap
import time
from pathlib import Path

import pytest

from run_benches.setup import build_failure, rocksdb_build

BUILD_SCRIPT = """
   Compiling serde v1.0.228
   Compiling rust-librocksdb-sys v0.49.0+11.12.0
{warnings}error: failed to run custom build command for `rust-librocksdb-sys v0.49.0+11.12.0`
note: To improve backtraces for build dependencies, set the CARGO_PROFILE_BENCH_BUILD_OVERRIDE_DEBUG=true environment variable

Caused by:
  process didn't exit successfully: `/t/release/build/rust-librocksdb-sys-99d8/build-script-build` ({ending})
  --- stdout
  cargo::rerun-if-env-changed=ROCKSDB_COMPILE
  cargo:warning=cc1plus: error: what another compiler was asked for a flag that it lacks

  --- stderr
{stderr}warning: build failed, waiting for other jobs to finish...
"""


def script(warnings: str = "", stderr: str = "", ending: str = "exit status: 101") -> str:
    marked = "".join(f"warning: rust-librocksdb-sys@0.49.0+11.12.0: {line}\n" for line in warnings.splitlines())
    return BUILD_SCRIPT.format(warnings=marked, stderr=textwrap.indent(stderr, "  "), ending=ending)


BINDGEN = """
thread 'main' (3214) panicked at /r/bindgen-0.73.2/lib.rs:616:27:
Unable to find libclang: "couldn't find any valid shared libraries matching: ['libclang.so'] (invalid: [])"
stack backtrace:
   0: __rustc::rust_begin_unwind
"""
CC = '\n\nerror occurred in cc-rs: command did not execute successfully (status code exit status: 1): LC_ALL="C" "c++" "-O3" "-c" "x.cc"\n\n'
LINKER = """
   Compiling strata v0.1.0 (/s)
error: linking with `cc` failed: exit status: 1
  |
  = note:  "cc" "-m64" "/t/release/deps/rustc9iVMgf/symbols.o" "<21 object files omitted>"
  = note: some arguments are omitted. use `--verbose` to show all linker arguments
  = note: {linker}
          collect2: error: ld returned 1 exit status

error: could not compile `strata` (bench "storage") due to 1 previous error
"""
RUSTC = """
warning: unused variable: `error`
error[E0308]: mismatched types
 --> src/lib.rs:1:21
error: could not compile `strata` (lib) due to 1 previous error; 1 warning emitted
"""
NETWORK = """
    Updating crates.io index
warning: spurious network error (1 try remaining): [7] Could not connect to server (Failed to connect to 127.0.0.1 port 9)
error: failed to get `serde` as a dependency of package `strata v0.1.0 (/s)`

Caused by:
  download of config.json failed

Caused by:
  [7] Could not connect to server (Failed to connect to 127.0.0.1 port 9)
"""
LLD = """PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/ and include the crash backtrace.
Stack dump:
0.	Program arguments: /r/rust-lld -flavor gnu -o /t/anew /t/x.o
 #0 0x00007f2b0bd58e47 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/r/libLLVM.so.22.1+0x5f58e47)
collect2: fatal error: ld terminated with signal 7 [Bus error]
compilation terminated."""
FULL = """
   Compiling strata v0.1.0 (/s)
error: failed to build archive at `/t/release/deps/libstrata.rlib`: failed to write: No space left on device (os error 28)
error: could not compile `strata` (lib) due to 1 previous error
"""


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            script(stderr=BINDGEN),
            "thread 'main' (3214) panicked at /r/bindgen-0.73.2/lib.rs:616:27: Unable to find libclang: \"couldn't find",
        ),
        (
            script("x.cc:1:10: fatal error: missing.h: No such file or directory\n    1 | #include <missing.h>\n", CC),
            "x.cc:1:10: fatal error: missing.h: No such",
        ),
        (
            script("rocksdb/db/c.cc:7:3: error: 'x' was not declared in this scope\n", CC),
            "rocksdb/db/c.cc:7:3: error: 'x' was not declared",
        ),
        (script("c++: fatal error: Killed signal terminated program cc1plus\n", CC), "c++: fatal error: Killed signal"),
        (
            script("as: /t/x.o: error: x\nfatal error: error writing to /tmp/x.s: No space left on device\n", CC),
            "fatal error: error writing to /tmp/x.s: No space left",
        ),
        (
            script(stderr="/usr/include/x.h:1:10: fatal error: 'stddef.h' file not found\n" + BINDGEN),
            "/usr/include/x.h:1:10: fatal error: 'stddef.h' file not found",
        ),
        (
            script(stderr="cannot read the submodule\n"),
            "error: failed to run custom build command for `rust-librocksdb-sys v0.49.0+11.12.0`: cannot read the submodule",
        ),
        (
            LINKER.format(linker="/usr/bin/ld: cannot find -lstdc++: No such file or directory"),
            "/usr/bin/ld: cannot find -lstdc++: No such",
        ),
        (
            LINKER.format(linker="rust-lld: error: undefined symbol: nowhere"),
            "rust-lld: error: undefined symbol: nowhere",
        ),
        (
            LINKER.format(linker=LLD),
            "no space left, where the linker wrote: collect2: fatal error: ld terminated with signal 7",
        ),
        (LLD, "no space left, where the linker wrote: collect2: fatal error: ld terminated with signal 7"),
        (
            "LLVM ERROR: IO failure on output stream: Disk quota exceeded\n" + BINDGEN,
            "LLVM ERROR: IO failure on output stream: Disk quota exceeded",
        ),
        (RUSTC, "error[E0308]: mismatched types"),
        (FULL, "error: failed to build archive at `/t/release/deps/libstrata.rlib`: failed to write: No space left"),
        (
            NETWORK,
            "error: failed to get `serde` as a dependency of package `strata v0.1.0 (/s)`: [7] Could not connect",
        ),
        (
            "error: no matching package named `x` found\nlocation searched: crates.io index\n",
            "error: no matching package named `x` found",
        ),
        ("cargo: something else\n", "cargo: something else"),
        ("", "it said nothing"),
    ],
)
def test_a_failed_build_says_why(log: str, why: str) -> None:
    assert build_failure.reason(log.splitlines()).startswith(why)


def compiling(target: Path, began: float, objects: dict[str, float], sources: Path | None = None) -> None:
    """A target folder as it is while RocksDB is compiled: the objects are so many seconds older or younger than its
    beginning."""
    folder, script = (target / "release/build" / f"rust-librocksdb-sys-{name}" for name in ("1", "2"))
    (folder / "out/deep").mkdir(parents=True)
    script.mkdir()
    if sources:
        (script / "build_script_build-2.d").write_text(
            f"{script}/x.d: /r/build.rs {str(sources).replace(' ', chr(92) + ' ')}\n\n{sources}:\n"
        )
    for name, age in {"invoked.timestamp": 0.0, **{f"out/{name}": age for name, age in objects.items()}}.items():
        (folder / name).touch()
        os.utime(folder / name, (began + age, began + age))


def test_the_long_compile_says_how_far_it_is(tmp_path: Path) -> None:
    sources, now = tmp_path / "the crate" / "rocksdb_lib_sources.txt", time.time()
    sources.parent.mkdir()
    sources.write_text("cache/cache.cc\nutil/build_version.cc\n" + "".join(f"db/{n}.cc\n" for n in range(6)))
    compiling(
        tmp_path, now - 60, {"left_behind.o": -9.0, "a.o": 1.0, "b.o": 20.0, "deep/c.o": 50.0, "c.d": 50.0}, sources
    )
    found = rocksdb_build.under_way(tmp_path, now - 61)
    assert found and (found.done, found.of) == (3, 9) and found.seconds == pytest.approx(60, abs=5)
    assert str(rocksdb_build.Compile(3, 9, 60.0)) == "RocksDB 3 of 9 objects, about 2 min 00 s left"
    assert rocksdb_build.under_way(tmp_path, now) is None, "it was cut off before ours began"


def test_where_the_list_of_sources_is_not_found_the_objects_are_counted(tmp_path: Path) -> None:
    compiling(tmp_path, time.time(), {"a.o": 1.0})
    assert str(rocksdb_build.under_way(tmp_path, time.time() - 1)) == "RocksDB 1 objects"
    assert str(rocksdb_build.Compile(0, 9, 1.0)) == "RocksDB under way"


def test_a_compile_that_has_ended_is_not_under_way(tmp_path: Path) -> None:
    began = time.time()
    compiling(tmp_path, began, {"a.o": 1.0})
    output = tmp_path / "release/build/rust-librocksdb-sys-1/output"
    output.touch()
    os.utime(output, (began - 99, began - 99))
    assert rocksdb_build.under_way(tmp_path, began), "an earlier one ended"
    os.utime(output, (began, began))
    assert rocksdb_build.under_way(tmp_path, began) is None and rocksdb_build.builds(tmp_path) == {
        "rust-librocksdb-sys-1"
    }
