"""The layers that are measured: the bench targets of Cargo.toml. The standard library is enough for this, so that a
wrong name is answered before anything is installed."""

import tomllib
from pathlib import Path
from typing import Any

from run_benches.errors import UserError
from run_benches.places import BENCHES, ROOT

SENTINELS = "harness"
"""The bench of the harness itself, whose rows use nothing of the engine: what moves them is the machine."""


def layer_names() -> list[str]:
    """Every bench target, in the order of Cargo.toml, which is that of the layers."""
    return [bench["name"] for bench in _manifest().get("bench", [])]


def features() -> dict[str, list[str]]:
    """The features of the server that the rows of a layer need, by Cargo.toml."""
    declared: dict[str, list[str]] = _manifest().get("package", {}).get("metadata", {}).get("bench-features", {})
    return declared


def shares() -> dict[str, float]:
    """The seconds that each layer has of a run at the default scale, by Cargo.toml."""
    declared = _manifest().get("package", {}).get("metadata", {}).get("default-run", {})
    return {layer: float(seconds) for layer, seconds in declared.items()}


def on_demand() -> set[str]:
    """The layers of which a run at the default scale has nothing: they are built where they are named, and by `--full`."""
    return {layer for layer, seconds in shares().items() if seconds == 0}


def _manifest() -> dict[str, Any]:
    try:
        return tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"Cargo.toml cannot be read: {error}") from error


def about(layer: str) -> str:
    """The first line of a bench's header."""
    return header(layer).partition("\n")[0]


def header(layer: str, benches: Path = BENCHES) -> str:
    """The lines of `//!` at the top of a bench as Markdown; headings in it become bold, since the page has its own."""
    words = []
    try:
        lines = (benches / f"{layer}.rs").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        if not line.startswith("//!"):
            break
        text = line.removeprefix("//!").removeprefix(" ")
        words.append(f"**{text.lstrip('# ')}**" if text.startswith("#") else text)
    return "\n".join(words).strip()
