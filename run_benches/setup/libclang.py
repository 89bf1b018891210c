"""libclang, with which bindgen reads RocksDB's header: the pinned wheel, whatever the system has.

Why not the system's: what has its name need not be it (Debian's libclang-cpp14 is another library), some are too old,
and each is noticed after a quarter of an hour of compiling. One that is the same everywhere is loaded before. Why cargo
is told in a file: what the runner builds and what a person types then share one build.
"""

import signal
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from run_benches import files, processes
from run_benches.errors import UserError
from run_benches.places import LIBCLANG, LOCAL_CARGO_CONFIG
from run_benches.setup import packages, rocksdb_build

LIBRARY = LIBCLANG / "clang" / "native" / "libclang.so"


def ensure(target: Path, compiler: Sequence[str] = ("c++",)) -> None:
    """Tells cargo of a libclang that works, with the headers of the C++ compiler. If RocksDB is compiled in `target`
    (the user's own folder), it is told of the one that this was done with, since another one would compile it again."""
    said = LOCAL_CARGO_CONFIG.read_text(encoding="utf-8") if LOCAL_CARGO_CONFIG.exists() else ""
    if not rocksdb_build.builds(target):
        wanted = _lines({"LIBCLANG_PATH": str(LIBRARY.parent), "BINDGEN_EXTRA_CLANG_ARGS": f"-I{_headers(compiler)}"})
    else:
        wanted = said or _lines(rocksdb_build.libclang_variables(target))
    if f'"{LIBRARY.parent}"' in wanted:
        _install()
    if wanted != said:
        files.replace(LOCAL_CARGO_CONFIG, wanted)


def variables() -> dict[str, str]:
    """Returns the variables that cargo is told in this checkout; none where the build found libclang by itself."""
    said = LOCAL_CARGO_CONFIG.read_text(encoding="utf-8") if LOCAL_CARGO_CONFIG.exists() else ""
    entries = tomllib.loads(said).get("env", {})
    return {
        name: entry["value"] if isinstance(entry, dict) else entry
        for name, entry in entries.items()
        if name in rocksdb_build.LIBCLANG_VARIABLES
    }


def refusal(library: Path) -> str | None:
    """Why a file is no libclang that works, or nothing. Asked in a process of its own, since half a library may end the
    one it is in."""
    asked = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).clang_getClangVersion"
    done = processes.captured([sys.executable, "-I", "-c", asked, str(library)])
    if done.returncode < 0:
        return f"loading it ends in {signal.Signals(-done.returncode).name}"
    return processes.essence(done.stderr.splitlines()) if done.returncode else None


def _install() -> None:
    if refusal(LIBRARY) is None:
        return
    with packages.one_at_a_time():
        reason = refusal(LIBRARY)
        if reason:
            print("installing libclang into .cargo/libclang", file=sys.stderr)
            packages.install(
                sys.executable, Path(__file__).with_suffix(".txt"), ["--upgrade", "--target", str(LIBCLANG)]
            )
            reason = refusal(LIBRARY)
    if reason:
        raise UserError(f"the libclang of run_benches/setup/libclang.txt cannot be used here: {reason}")


def _headers(compiler: Sequence[str]) -> str:
    """The compiler's own headers: the wheel has none."""
    return processes.captured([*compiler, "-print-file-name=include"]).stdout.strip()


def _lines(variables: Mapping[str, str]) -> str:
    """Forced, since a variable that is set in one shell and not in the next would compile RocksDB again."""
    if not variables:
        return ""
    lines = [f'{name} = {{ value = "{value}", force = true }}' for name, value in variables.items()]
    return "\n".join(["# Written by run-benches.py. Other values compile RocksDB again.", "[env]", *lines, ""])
