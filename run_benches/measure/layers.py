"""The layers that are measured: the bench targets of Cargo.toml. The standard library is enough for this, so that a wrong name is answered
before anything is installed."""

import tomllib

from run_benches.errors import Complaint
from run_benches.places import BENCHES, ROOT

SENTINELS = "harness"
"""The bench of the harness itself, whose rows use nothing of the engine: what moves them is the machine."""


def layer_names() -> list[str]:
    """Every bench target, in the order of Cargo.toml, which is that of the layers."""
    try:
        manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Complaint(f"Cargo.toml cannot be read: {error}") from error
    return [bench["name"] for bench in manifest.get("bench", [])]


def about(layer: str) -> str:
    """The first line of a bench's header."""
    try:
        first = (BENCHES / f"{layer}.rs").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ""
    return first.removeprefix("//!").strip() if first.startswith("//!") else ""
