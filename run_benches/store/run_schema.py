"""The JSON Schema of a stored run, made from the types that read one, so that the two cannot say different things.

Why it is stored: who reads a run with other tools needs its shape without reading this code. A test compares the file
with what is made here, and every stored baseline with the file.
"""

from typing import Any

import msgspec

from run_benches import places
from run_benches.store import runs

FILE = places.ROOT / "docs" / "run.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema of a run of this version's format."""
    about = f"A run of run-benches.py, schema {runs.SCHEMA}. Times are in nanoseconds an operation."
    return {"$schema": DIALECT, "title": "Run", "description": about, **_unwrapped(msgspec.json.schema(runs.Run))}


def _unwrapped(found: Any) -> Any:
    """The same, with each description on one line: how the sources wrap it is no part of the format."""
    if isinstance(found, list):
        return [_unwrapped(part) for part in found]
    if not isinstance(found, dict):
        return found
    return {
        name: " ".join(value.split()) if name == "description" and isinstance(value, str) else _unwrapped(value)
        for name, value in found.items()
    }
