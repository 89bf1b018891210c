"""The settings that a build would inherit from the shell, and from configurations of cargo above the checkout (`[env]`,
`[target]`, `[profile]`).

Why refused rather than used: cargo compiles RocksDB again, for half an hour, where a flag or a variable that its build
reads is another one, so what stands in one shell and not in the next does that every time. And a flag that no run
records makes figures that cannot be compared. What shells set for other ends (`CC`, `CXX`, `PKG_CONFIG_PATH`) the first
build takes as it is, and only another value is refused.

Why searched and not asked of cargo: `cargo config get` is unstable. Of what may not be there the precedence need not be
known.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from run_benches.errors import UserError
from run_benches.places import CARGO_CONFIG, shown
from run_benches.setup import rocksdb_build

_OF_CARGO = (
    r"RUSTFLAGS|CARGO_ENCODED_RUSTFLAGS|(CARGO_BUILD_)?RUSTC(_WORKSPACE_WRAPPER)?"
    r"|CARGO_BUILD_(RUSTFLAGS|TARGET|BUILD_DIR)|CARGO_(BUILD_)?INCREMENTAL|CARGO_PROFILE_(RELEASE|BENCH)_.+"
    r"|CARGO_TARGET_{HOST}_(RUSTFLAGS|LINKER|(\w+_)?RUSTC_.+)|CARGO_PATHS|CARGO_PATCH_.+"
)
"""Variables that change what cargo builds, or where, and the keys of its configurations that mean the same. A launcher
of rustc is not among them: `run_cargo` keeps it away."""

_OF_SCRIPTS = (
    r"(HOST_)?(C|CXX|AR)FLAGS|(C|CXX|AR)FLAGS_{host}|((HOST_)?CXXSTDLIB(_STATIC)?)(_{host})?|CRATE_CC_NO_DEFAULTS|CC_FORCE_DISABLE|BINDGEN_EXTRA_CLANG_ARGS_{host}"
    r"|ROCKSDB_(COMPILE|LIB_DIR|STATIC|INCLUDE_DIR|USE_PKG_CONFIG|CXX_STD|NATIVE_DEBUG)|SNAPPY_(COMPILE|LIB_DIR|STATIC)|ZSTD_SYS_\w+|DOCS_RS"
)
"""Variables by which the build scripts of RocksDB, and of what is below it, compile otherwise or nothing at all."""


def check_settings(folder: Path, host: str, applies: Callable[[str], bool]) -> None:
    """Complains about settings with which a build in `folder` would be another one on the machine `host`; `applies`
    says of a table under [target] whether it is for this machine."""
    names = [name for name, value in os.environ.items() if _refused(name, value, host)]
    if names:
        raise UserError(
            f"{names[0]} is set, which would compile RocksDB a second time, in another way: unset {' '.join(names)} (flags stand in .cargo/config.toml)"
        )
    for file, config in _above(folder):
        for keys, value in _keys(config):
            named = keys if keys[0] != "target" else ("target", host, *keys[2:]) if applies(keys[1]) else ()
            variable = keys[1] if keys[0] == "env" else "_".join(("CARGO", *named)).upper().replace("-", "_")
            if _refused(variable, value, host):
                raise UserError(
                    f"{file} sets {'.'.join(keys)}, which would compile RocksDB a second time, in another way: take it out there (flags stand in .cargo/config.toml)"
                )


def check_variables(folder: Path, target: Path, host: str) -> None:
    """Complains about variables with other values than those with which RocksDB was compiled in `target`, if it was."""
    now, own = variables(folder), {name for _, config in _read(CARGO_CONFIG) for name in config.get("env", {})}
    then = {
        name: value
        for name, value in rocksdb_build.variables(target).items()
        if name not in own and not _refused(name, value or "", host)
    }
    changed = [
        f"{name} is {_text(now.get(name))} and was {_text(value)}"
        for name, value in then.items()
        if now.get(name) != value
    ]
    if changed:
        raise UserError(
            f"RocksDB in {shown(target)} would be compiled again: {', '.join(changed)} then; set that back, or remove this folder to compile it anew"
        )


def variables(folder: Path) -> dict[str, str]:
    """The environment that cargo gives to what it starts in `folder`, but for what the checkout itself sets."""
    found = dict(os.environ)
    for file, config in _above(folder):
        for name, entry in config.get("env", {}).items():
            full = entry if isinstance(entry, dict) else {"value": entry}
            if full.get("force") or name not in os.environ:
                found[name] = (
                    str(file.parent.parent / full.get("value", "")) if full.get("relative") else full.get("value", "")
                )
    return found


def compiler(folder: Path, host: str) -> list[str]:
    """The words by which the build calls the C++ compiler, perhaps with a launcher such as ccache before it."""
    given = variables(folder)
    names = (f"CXX_{host}", f"CXX_{host.replace('-', '_')}", "HOST_CXX", "CXX")
    said = next((given[name] for name in names if name in given), "").strip() or "c++"
    return [said] if Path(said).exists() else said.split()


def _refused(name: str, value: object, host: str) -> bool:
    """Returns whether a setting changes the build; incremental compilation is off by default."""
    either = rf"({re.escape(host)}|{re.escape(host.replace('-', '_'))})" if host else ".+"
    pattern = f"{_OF_CARGO}|{_OF_SCRIPTS}".replace("{host}", either).replace(
        "{HOST}", re.escape(host.replace("-", "_").upper()) or ".+"
    )
    return bool(re.fullmatch(pattern, name)) and (
        str(value).lower() in ("1", "true") or not name.endswith("INCREMENTAL")
    )


def _above(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Cargo's configurations in the folders above one and in its home, the weakest first."""
    folders = [parent / ".cargo" for parent in reversed(folder.resolve().parents)]
    home = Path(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")).resolve()
    for place in folders if home in folders else [home, *folders]:
        yield from next((_read(place / name) for name in ("config", "config.toml") if os.path.isfile(place / name)), ())


def _read(file: Path, above: tuple[Path, ...] = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A configuration of cargo, after those that it includes. What cannot be read, or includes itself, is cargo's to
    complain about."""
    if file in above:
        return
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for one in config.get("include", []):
        named = one.get("path") if isinstance(one, dict) else one
        if isinstance(named, str):
            yield from _read(Path(os.path.normpath(file.parent / named)), (*above, file))
    if all(isinstance(config.get(name, {}), dict) for name in ("env", "target")):
        yield file, config


def _keys(table: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, (*before, name))
        else:
            yield (*before, name), value


def _text(value: str | None) -> str:
    return "unset" if value is None else repr(value)
