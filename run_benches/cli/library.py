"""RocksDB as a library: what a program that embeds the store tells cargo, so that nobody compiles RocksDB for it.

Why printed and not written: the configuration is the program's own, and may hold more.
"""

import json
import sys

from run_benches import serialization
from run_benches.errors import Exit
from run_benches.measure import build
from run_benches.setup import libclang, rocksdb_build, toolchain

LIBRARY_SCHEMA = 1


def main(as_json: bool) -> Exit:
    """Prints the table `[env]` of a configuration of cargo."""
    found = environment()
    if as_json:
        print(serialization.text({"schema": LIBRARY_SCHEMA, "env": found}), end="")
        return Exit.FINE
    # A string of JSON is one of TOML.
    print("\n".join(["[env]", *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in found.items())]))
    print(
        "put this into .cargo/config.toml of your program: no program that has it compiles RocksDB again",
        file=sys.stderr,
    )
    return Exit.FINE


def environment() -> dict[str, str]:
    """The variables with which a build links RocksDB as the workspace has it. It is compiled before, unless it was: by
    the build of the server, since cargo has other features for a crate that is built alone."""
    build.programs("strata")
    return rocksdb_build.library_variables(rocksdb_build.library(toolchain.target_folder())) | libclang.variables()
